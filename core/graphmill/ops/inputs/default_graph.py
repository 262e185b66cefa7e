"""The default graph: a stack per context, to which `with graph.as_default():` pushes.

This layer uses graphs and tensors through protocols only; `graphmill.graph` implements them.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol

from graphmill.errors import FailedPreconditionError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from graphmill.dtypes import DType
    from graphmill.ops.definition.op_def import OpDef


class SymbolicTensor:
    """Base class of tensors in a graph, by which this layer distinguishes them from values.

    Attributes:
        dtype: the element type; a reference type for the output of a ref variable.
        graph: the graph of the tensor.
    """

    __slots__ = ()

    @property
    def dtype(self) -> DType:
        """The element type."""
        raise NotImplementedError

    @property
    def graph(self) -> GraphLike:
        """The graph of the tensor."""
        raise NotImplementedError


class GraphLike(Protocol):
    """The interface of graphs that op functions use to add nodes."""

    def create_op(
        self,
        op_type: str | OpDef,
        inputs: Sequence[Any] = (),
        attrs: Mapping[str, Any] | None = None,
        name: str | None = None,
    ) -> Any:
        """Add a node with flat input tensors, and return it."""
        raise NotImplementedError

    def constant(
        self, value: Any, dtype: Any = None, shape: Any = None, name: str = "Const"
    ) -> SymbolicTensor:
        """Add a Const node and return its output."""
        raise NotImplementedError

    def name_scope(self, name: str | None) -> AbstractContextManager[str]:
        """Prefix the names of the nodes that are added in a `with` block."""
        raise NotImplementedError

    def outputs_of(self, node: Any) -> list[Any]:
        """Return the output tensors of a node."""
        raise NotImplementedError


_stack: ContextVar[tuple[GraphLike, ...]] = ContextVar("graphmill_default_graphs", default=())


def get_default_graph() -> GraphLike:
    """Return the innermost default graph of this thread or task.

    Raises:
        FailedPreconditionError: there is no default graph.
    """
    stack = _stack.get()
    if not stack:
        raise FailedPreconditionError(
            "there is no default graph to add to; build inside `with graph.as_default():`, or pass "
            "a tensor of a graph to the op"
        )
    return stack[-1]


def has_default_graph() -> bool:
    """Return whether this thread or task has a default graph."""
    return bool(_stack.get())


def push_default_graph(graph: GraphLike) -> None:
    """Make `graph` the default graph of this thread or task until it is popped."""
    _stack.set((*_stack.get(), graph))


def pop_default_graph(graph: GraphLike) -> None:
    """Undo the last `push_default_graph` of a graph in this thread or task."""
    stack = list(_stack.get())
    if graph in stack:
        del stack[len(stack) - 1 - stack[::-1].index(graph)]
        _stack.set(tuple(stack))


@contextmanager
def default_graph(graph: GraphLike) -> Iterator[GraphLike]:
    """Make `graph` the default graph of this thread or task in a `with` block."""
    token = _stack.set((*_stack.get(), graph))
    try:
        yield graph
    finally:
        _stack.reset(token)
