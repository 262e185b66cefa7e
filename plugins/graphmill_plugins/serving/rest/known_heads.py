"""`KnownHeads`: the heads of earlier requests, which need not be parsed again.

Clients repeat the heads of their requests byte for byte. Between two messages, a parser always
finds the same in the same bytes: a body of the same length follows, and the connection stays open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from graphmill_plugins.serving.rest.application import RequestPlan

_END: Final = b"\r\n\r\n"
_MAX_HEADS: Final = 256
_MAX_BYTES: Final = 2048
"""The largest head that is kept."""


class KnownHeads:
    """The heads of requests to a server that arrived in one piece.

    Threads: all methods are for that of the event loop.
    """

    def __init__(self) -> None:
        self._plans: dict[bytes, RequestPlan] = {}

    def find(self, data: bytes) -> tuple[RequestPlan, bytes] | None:
        """Return the plan and body of data that is one request with a known head, else None.

        Args:
            data: what follows the end of a message.
        """
        end = data.find(_END, 0, _MAX_BYTES) + len(_END)
        plan = self._plans.get(data[:end])
        if plan is None or len(data) - end != plan.length:
            return None
        return plan, data[end:]

    def add(self, data: bytes, plan: RequestPlan, body: bytes) -> None:
        """Keep the head of a request, after which the connection has stayed open.

        Args:
            data: what has arrived: the request, and maybe more, which is not kept then.
            plan: that of its head.
            body: its body.
        """
        end = data.find(_END, 0, _MAX_BYTES) + len(_END)
        is_whole = end >= len(_END) and data[end:] == body and len(body) == plan.length
        if is_whole and all(name != b"transfer-encoding" for name, _ in plan.head.headers):
            if len(self._plans) >= _MAX_HEADS:
                self._plans.clear()
            self._plans[data[:end]] = plan
