"""The default graph: a stack for each context, pushed by `with graph.as_default():`.

This floor knows graphs and their tensors by protocol only; `graphmill.graph.builder` has both.
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
    """Base of tensors that stand in a graph, so that this floor can tell them from values.

    Attributes:
        dtype: the element type; a reference type for the output of a ref variable.
        graph: the graph it stands in.
    """

    __slots__ = ()

    @property
    def dtype(self) -> DType:
        """The element type."""
        raise NotImplementedError

    @property
    def graph(self) -> GraphLike:
        """The graph it stands in."""
        raise NotImplementedError


class NodeLike(Protocol):
    """A node, as a graph returns it."""

    name: str
    op_def: OpDef
    attrs: dict[str, Any]

    @property
    def num_outputs(self) -> int:
        """How many outputs it has."""
        raise NotImplementedError


class GraphLike(Protocol):
    """What a graph must be able to do for op functions to build in it."""

    def create_op(
        self,
        op_type: str | OpDef,
        inputs: Sequence[Any] = (),
        attrs: Mapping[str, Any] | None = None,
        name: str | None = None,
    ) -> Any:
        """Add a node with the given flat input tensors; return it."""
        raise NotImplementedError

    def constant(
        self, value: Any, dtype: Any = None, shape: Any = None, name: str = "Const"
    ) -> SymbolicTensor:
        """Add a Const node and return its output."""
        raise NotImplementedError

    def name_scope(self, name: str | None) -> AbstractContextManager[str]:
        """Give the names of what is added within a prefix."""
        raise NotImplementedError

    def outputs_of(self, node: Any) -> list[Any]:
        """Return the output tensors of a node."""
        raise NotImplementedError


_stack: ContextVar[tuple[GraphLike, ...]] = ContextVar("graphmill_default_graphs", default=())


def get_default_graph() -> GraphLike:
    """Return the innermost default graph of this thread or task.

    Raises:
        FailedPreconditionError: there is none.
    """
    stack = _stack.get()
    if not stack:
        raise FailedPreconditionError(
            "there is no default graph to add to; build inside `with graph.as_default():`, or give "
            "the op a tensor of a graph"
        )
    return stack[-1]


def has_default_graph() -> bool:
    """Return whether there is a default graph here."""
    return bool(_stack.get())


def push_default_graph(graph: GraphLike) -> None:
    """Make `graph` the default one in this thread or task until it is popped."""
    _stack.set((*_stack.get(), graph))


def pop_default_graph(graph: GraphLike) -> None:
    """Undo the last `push_default_graph` of a graph in this thread or task."""
    stack = list(_stack.get())
    if graph in stack:
        del stack[len(stack) - 1 - stack[::-1].index(graph)]
        _stack.set(tuple(stack))


@contextmanager
def default_graph(graph: GraphLike) -> Iterator[GraphLike]:
    """Make `graph` the default one for the block, in this thread or task only."""
    token = _stack.set((*_stack.get(), graph))
    try:
        yield graph
    finally:
        _stack.reset(token)
