"""`InteractiveSession`: a session for notebooks and shells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.graph.default_session import pop_default_session, push_default_session
from graphmill.session.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterable

    from graphmill.plugin.host import Host


class InteractiveSession(Session):
    """A session that is the default session from its construction until it is closed.

    Meant for notebooks and shells, where `with session:` is inconvenient. Close it in the thread
    that made it.

    Args:
        target, graph, config, host, allow, trust: as for `Session`.
    """

    def __init__(
        self,
        target: str = "",
        graph: Any = None,
        config: Any = None,
        host: Host | None = None,
        *,
        allow: Iterable[str] | None = None,
        trust: bool | None = None,
    ) -> None:
        super().__init__(target, graph, config, host, allow=allow, trust=trust)
        push_default_session(self, self.graph)

    def close(self) -> None:
        """Stop being the default session, and close."""
        pop_default_session(self, self.graph)
        super().close()
