"""`bounded_protocol`: uvicorn's HTTP protocol with limits on slow clients.

uvicorn only limits how long a connection may be idle between requests. A client that sends a byte
now and then, or never reads its response, would hold a connection forever.

Offers to change to another protocol, such as HTTP/2, are ignored.

A request that arrives in one piece is answered by a `DirectExchange`, others through ASGI. If its
head is that of an earlier request, it is not parsed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from graphmill_plugins.serving.rest.direct_exchange import DirectExchange
from graphmill_plugins.serving.rest.http_request import RequestHead
from graphmill_plugins.serving.rest.http_status import error_body
from graphmill_plugins.serving.rest.joined_writes import JoinedWrites
from graphmill_plugins.serving.rest.known_heads import KnownHeads
from graphmill_plugins.serving.rest.lingering_close import LingeringClose
from graphmill_plugins.serving.rest.upgrade_refusing_parser import (
    UpgradeRefusingParser,
    offers_upgrade,
)

if TYPE_CHECKING:
    import asyncio

    from graphmill_plugins.serving.rest.application import Application, RequestPlan

MAX_HEAD_BYTES: Final = 64 << 10
"""The largest request line with headers."""


class _BoundedProtocol(HttpToolsProtocol):  # type: ignore[misc]
    """A connection; `bounded_protocol` returns a subclass for one server.

    Attributes:
        application: answers the requests; the same that uvicorn calls.
        heads: those of earlier requests to the server.
        seconds: how long a client may take to send a request, and to receive a response.
    """

    application: ClassVar[Application]
    heads: ClassVar[KnownHeads]
    seconds: ClassVar[float]

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.parser = UpgradeRefusingParser(self)
        self._is_in_head = True
        self._is_in_body = False
        self._is_ending = False
        self._head_bytes = 0
        self._parts: list[bytes] | None = None
        """The body of a request that may still arrive in one piece."""
        self._is_between = True
        """Whether nothing of the next request has arrived, and the previous one was direct."""
        self._answered: tuple[RequestPlan, bytes] | None = None
        """The last direct request of the data that is being parsed: its plan and body."""
        self._receive_timer: asyncio.TimerHandle | None = None
        self._send_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        self._lingering = LingeringClose(transport, self.loop, self._should_linger, self.seconds)
        super().connection_made(JoinedWrites(self._lingering))
        self._receive_timer = self.loop.call_later(self.seconds, self._give_up_receiving)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_receive_timer()
        self._stop_send_timer()
        self._lingering.stop()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        self._is_ending = True
        super().shutdown()
        if self._lingering.is_lingering:  # the server does not wait for what it discards
            self.transport.close()

    def data_received(self, data: bytes) -> None:
        if self._lingering.is_lingering:
            return
        known = self.heads.find(data) if self._is_between else None
        if known is not None and self._is_free():
            self._unset_keepalive_if_required()
            self._answer(*known, keep_alive=True)
        else:
            self._parse(data)

    def _parse(self, data: bytes) -> None:
        """Parse data, and answer the requests in it."""
        was_between = self._is_between
        self._head_bytes += len(data)
        super().data_received(data)
        answered, self._answered = self._answered, None
        if answered is not None and was_between:
            self.heads.add(data, *answered)
        if self.transport.is_closing():
            self._end_exchange()
            return
        if self._parts is not None:
            self._start_reading(self._parts)
        if self._is_in_head and self._head_bytes > MAX_HEAD_BYTES:
            self._refuse(431, f"the headers have more than {MAX_HEAD_BYTES} bytes")
        elif not self._is_receiving():
            self._stop_receive_timer()
        elif self._receive_timer is None:
            self._receive_timer = self.loop.call_later(self.seconds, self._give_up_receiving)

    def on_message_begin(self) -> None:
        self._is_in_head, self._is_between = True, False
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        if offers_upgrade(self.parser):
            return
        self._is_in_head, self._is_in_body = False, True
        if self._may_be_direct():
            self._parts = []
        else:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if self._parts is not None:
            self._parts.append(body)
        else:
            super().on_body(body)

    def on_message_complete(self) -> None:
        if offers_upgrade(self.parser):
            return
        self._is_in_body = False
        self._head_bytes = 0
        parts, self._parts = self._parts, None
        if parts is None:
            super().on_message_complete()
        else:
            self._answer_parsed(b"".join(parts))

    def on_response_complete(self) -> None:
        self.transport.flush()
        super().on_response_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._send_timer is None:
            self._send_timer = self.loop.call_later(self.seconds, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_send_timer()

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, msg)

    def _may_be_direct(self) -> bool:
        """Return whether a request may be answered without ASGI, if it arrives whole."""
        return (
            self.url.startswith(b"/")
            and self.url.isascii()
            and self._is_free()
            and not self.expect_100_continue
            and self.parser.get_method() not in (b"HEAD", b"CONNECT")
        )

    def _is_free(self) -> bool:
        """Return whether a request may be answered now."""
        return (self.cycle is None or self.cycle.response_complete) and (
            max(len(self.connections), len(self.tasks)) < self.limit_concurrency
        )

    def _start_reading(self, parts: list[bytes]) -> None:
        """Let uvicorn answer a request whose body has not arrived whole."""
        self._parts = None
        super().on_headers_complete()
        for part in parts:
            super().on_body(part)

    def _answer_parsed(self, body: bytes) -> None:
        """Answer the request that was parsed."""
        parser = self.parser
        keep_alive = parser.get_http_version() != "1.0" and parser.should_keep_alive()
        path = self.url.partition(b"?")[0]
        head = RequestHead(parser.get_method().decode("ascii"), path, self.headers)
        plan = self.application.plan(head)
        self._is_between = keep_alive
        self._answered = (plan, body) if keep_alive else None
        self._answer(plan, body, keep_alive=keep_alive)

    def _answer(self, plan: RequestPlan, body: bytes, *, keep_alive: bool) -> None:
        exchange = self.cycle = DirectExchange(self, keep_alive=keep_alive)
        client = self.client[0] if self.client else ""
        exchange.start(self.application.respond(plan, client, body))

    def _is_receiving(self) -> bool:
        return self._is_in_body or (self._is_in_head and self._head_bytes > 0)

    def _should_linger(self) -> bool:
        return self._is_receiving() and not self._is_ending

    def _give_up_receiving(self) -> None:
        self._receive_timer = None
        if self.transport.is_closing():
            return
        if self._is_receiving():
            self._refuse(408, f"the request was not received within {self.seconds:g} s")
        else:
            self.transport.close()

    def _refuse(self, status: int, message: str) -> None:
        """Answer instead of the application, unless it has answered, and close."""
        if self.cycle is None or not self.cycle.response_started or self._is_in_head:
            body = error_body(message)
            head = b"content-type: application/json\r\ncontent-length: %d\r\n" % len(body)
            self.transport.write(STATUS_LINE[status] + head + b"connection: close\r\n\r\n" + body)
        self.transport.close()
        self._end_exchange()

    def _end_exchange(self) -> None:
        """Stop waiting for the rest of a request, and tell the application."""
        self._stop_receive_timer()
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()

    def _stop_receive_timer(self) -> None:
        if self._receive_timer is not None:
            self._receive_timer.cancel()
            self._receive_timer = None

    def _stop_send_timer(self) -> None:
        if self._send_timer is not None:
            self._send_timer.cancel()
            self._send_timer = None


def bounded_protocol(application: Application, seconds: float) -> type[HttpToolsProtocol]:
    """Return the class of the connections of a server, which uvicorn creates.

    Args:
        application: answers the requests; the same that uvicorn calls.
        seconds: how long a client may take to send a request, and to receive a response.
    """
    attributes = {"application": application, "heads": KnownHeads(), "seconds": seconds}
    return type("BoundedProtocol", (_BoundedProtocol,), attributes)
