"""The default session: a stack for each context, pushed by `with session:`.

Semantics: `Session.as_default` and `get_default_session` of tensorflow/python/framework/ops.py.
This layer knows sessions only by protocol; `graphmill.session.session` implements them.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol

from graphmill.errors import FailedPreconditionError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphmill.ops.inputs.default_graph import GraphLike


class SessionLike(Protocol):
    """The part of a session that `Tensor.eval` and `Operation.run` need."""

    def run(self, fetches: Any, feed_dict: Mapping[Any, Any] | None = None) -> Any:
        """Run the nodes that the fetches need, and return their values."""
        raise NotImplementedError


_stack: ContextVar[tuple[SessionLike, ...]] = ContextVar("graphmill_default_sessions", default=())


def get_default_session() -> Any:
    """Return the innermost default session of this thread or task, or None."""
    stack = _stack.get()
    return stack[-1] if stack else None


def session_for(session: SessionLike | None, what: str) -> SessionLike:
    """Return the given session, or else the default session.

    Args:
        session: the session, or None.
        what: what is to be evaluated, for messages.

    Raises:
        FailedPreconditionError: no session is given and there is no default session.
    """
    chosen = session or get_default_session()
    if chosen is None:
        raise FailedPreconditionError(
            f"Cannot evaluate {what}: there is no default session; pass one as `session=`, or "
            "call it inside `with session:`"
        )
    return chosen


def push_default_session(session: SessionLike, graph: GraphLike | None) -> None:
    """Make a session, and its graph unless that is None, the default of this context."""
    _stack.set((*_stack.get(), session))
    if graph is not None:  # without a graph, do not import the module for building graphs
        from graphmill.ops.inputs.default_graph import push_default_graph

        push_default_graph(graph)


def pop_default_session(session: SessionLike, graph: GraphLike | None) -> None:
    """Undo the last `push_default_session` of a session in this context, if there was one."""
    stack = list(_stack.get())
    if session not in stack:
        return
    del stack[len(stack) - 1 - stack[::-1].index(session)]
    _stack.set(tuple(stack))
    if graph is not None:
        from graphmill.ops.inputs.default_graph import pop_default_graph

        pop_default_graph(graph)
