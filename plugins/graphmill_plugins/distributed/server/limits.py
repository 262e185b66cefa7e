"""`Limits`: resource limits of a server."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from graphmill.errors import InvalidArgumentError, PermissionDeniedError, ResourceExhaustedError
from graphmill.spi import plugin_settings

if TYPE_CHECKING:
    from graphmill.spi.protos import proto

_PLUGIN: Final = "distributed"


class Limits(NamedTuple):
    """The limits of a server, 0 for none: settings of `distributed` in its own config.

    Attributes:
        max_sessions: the maximum number of open client sessions.
        max_graph_nodes: the maximum number of nodes, including those of functions, of a session's
            graph and of a graph that a master registers.
        max_running_steps: the maximum number of concurrent steps, of clients and of masters
            together.
        allow_reset: whether clients and masters may clear resource containers.
    """

    max_sessions: int = 0
    max_graph_nodes: int = 0
    max_running_steps: int = 0
    allow_reset: bool = True

    @classmethod
    def of(cls, config: proto.ConfigProto | None) -> Limits:
        """Return the limits in a server's config.

        Raises:
            InvalidArgumentError: a setting is of a wrong kind, or negative.
        """
        settings = plugin_settings(config, _PLUGIN)
        values: dict[str, Any] = {name: settings[name] for name in cls._fields if name in settings}
        for name, value in values.items():
            kind = type(cls._field_defaults[name])
            if type(value) is not kind or value < 0:
                raise InvalidArgumentError(
                    f"{name} of plugin {_PLUGIN} is {value!r}; expected "
                    + ("a bool" if kind is bool else "an integer, 0 for no limit")
                )
        return cls(**values)

    def check_sessions(self, number: int) -> None:
        """Refuse a session if the maximum number is open.

        Raises:
            ResourceExhaustedError: the maximum number is open.
        """
        if self.max_sessions and number >= self.max_sessions:
            raise ResourceExhaustedError(
                f"the server has {number} open sessions, its limit is {self.max_sessions} "
                "(max_sessions). Close an unused one"
            )

    def check_nodes(self, added: proto.GraphDef, before: int = 0) -> None:
        """Refuse a graph that is too large.

        Args:
            added: the new nodes and functions.
            before: the number of existing nodes.

        Raises:
            ResourceExhaustedError: there would be too many.
        """
        if not self.max_graph_nodes:
            return
        total = before + count_nodes(added)
        if total > self.max_graph_nodes:
            raise ResourceExhaustedError(
                f"the graph has {total} nodes, including those of its functions; the limit is "
                f"{self.max_graph_nodes} on this server (max_graph_nodes)"
            )

    def check_reset(self) -> None:
        """Refuse to clear containers if that is not allowed.

        Raises:
            PermissionDeniedError: it is not.
        """
        if not self.allow_reset:
            raise PermissionDeniedError(
                "this server does not allow clearing resource containers (allow_reset). Close the "
                "session, or use isolate_session_state to give each session its own variables"
            )


def count_nodes(graph: proto.GraphDef) -> int:
    """Return the number of nodes of a graph and its functions."""
    return len(graph.node) + sum(len(function.node_def) for function in graph.library.function)


class StepSlots:
    """Slots for running steps; `with slots:` around a step holds one.

    Threads: `_lock` guards the count.

    Raises:
        ResourceExhaustedError: on entry, if the maximum number of steps is running.
    """

    __slots__ = ("_limit", "_lock", "_running")

    def __init__(self, limits: Limits) -> None:
        self._limit = limits.max_running_steps
        self._lock = threading.Lock()
        self._running = 0

    def __enter__(self) -> None:
        if not self._limit:
            return
        with self._lock:
            if self._running >= self._limit:
                raise ResourceExhaustedError(
                    f"{self._running} steps are running on this server, which is its limit "
                    f"(max_running_steps). Try again later"
                )
            self._running += 1

    def __exit__(self, *exception: object) -> None:
        if self._limit:
            with self._lock:
                self._running -= 1
