"""Find the nodes whose inputs may be broadcast to a larger output, and bound these outputs.

`[n, 1] + [1, n]` has `n * n` elements, so the default memory budget is asked before such a sum is
computed. It need not be where both inputs have the shape of one tensor, or one of them is a number,
as in `x * sigmoid(x) + 1`: this is decided from the graph alone, when kernels are bound.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.graph.node_roles import is_constant
from graphmill.ops.definition.op_traits import ControlFlow

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.graph.node import Edge, Node
    from graphmill.runtime.kernels.kernel import KernelDef
    from graphmill.typing import ArrayNamespace

    Tensor = tuple[Node, int]

_FIRST_INPUT = frozenset(
    {ControlFlow.SWITCH, ControlFlow.ENTER, ControlFlow.EXIT, ControlFlow.NEXT_ITERATION}
)
"""Control flow whose outputs are its first input."""


class ShapeSources:
    """Traces the shape of each tensor of a graph to the tensor whose shape it is.

    Tensors with the same source have equal shapes, apart from leading axes of size 1. A tensor of
    one element has no source, because it broadcasts to any shape.
    """

    def __init__(self) -> None:
        self._sources: dict[Tensor, Tensor | None] = {}

    def may_grow(self, node: Node) -> bool:
        """Return whether an output of a node may be larger than its inputs by broadcasting."""
        if not node.op_def.traits.elementwise or len(node.in_edges) < 2:
            return False
        for edge in node.in_edges:
            self._trace((edge.src, edge.src_output))
        return len(self._distinct(node.in_edges)) > 1

    def of(self, tensor: Tensor) -> Tensor | None:
        """Return the source of a tensor; None if it has one element."""
        self._trace(tensor)
        return self._sources[tensor]

    def declare(self, tensor: Tensor, source: Tensor | None) -> None:
        """Declare the source of a tensor that its own graph does not determine, as an argument's.

        Args:
            tensor: the tensor; nothing that depends on it has been traced.
            source: any tensor of the same shape, also of another graph; None if it has one element.
        """
        self._sources[tensor] = source

    def _trace(self, tensor: Tensor) -> None:
        """Find the source of a tensor; a long chain of nodes is followed without recursion."""
        if tensor in self._sources:
            return
        waiting, seen = [tensor], set()
        while waiting:
            tensor = waiting[-1]
            edges = _followed(*tensor)
            if tensor not in seen:
                seen.add(tensor)
                inputs = [(edge.src, edge.src_output) for edge in edges]
                needed = [one for one in inputs if one not in self._sources and one not in seen]
                if needed:
                    waiting += needed
                    continue
            waiting.pop()
            if tensor not in self._sources:
                self._sources[tensor] = self._source(tensor, edges)

    def _source(self, tensor: Tensor, edges: Sequence[Edge]) -> Tensor | None:
        node = tensor[0]
        if is_constant(node) and math.prod(node.attrs["value"].shape) == 1:
            return None
        found = self._distinct(edges)
        if not edges or len(found) > 1:
            return tensor
        return next(iter(found), None)

    def _distinct(self, edges: Sequence[Edge]) -> set[Tensor]:
        """Return the sources of some inputs; an input of a cycle is a source itself."""
        found: set[Tensor] = set()
        for edge in edges:
            tensor = edge.src, edge.src_output
            source = self._sources.get(tensor, tensor)
            if source is not None:
                found.add(source)
        return found


def _followed(node: Node, output: int) -> Sequence[Edge]:
    """Return the inputs that determine the shape of an output."""
    traits = node.op_def.traits
    if traits.elementwise:
        return node.in_edges
    if traits.forwards:
        return node.in_edges[output : output + 1]
    return node.in_edges[:1] if traits.control_flow in _FIRST_INPUT else ()


def with_default_budget(
    node: Node, definition: KernelDef, namespace: ArrayNamespace, compute: Callable[..., Any]
) -> Callable[..., Any]:
    """Wrap an elementwise kernel's call to check large outputs against the memory budget.

    Args:
        node: the node, whose inputs may be broadcast (`ShapeSources.may_grow`).
        definition: its kernel.
        namespace: the namespace of the arrays that the kernel takes.
        compute: the call of the kernel.
    """
    from graphmill.memory_budget import default_limit  # few graphs need it

    itemsize = max(dtype.as_numpy_dtype.itemsize for dtype in node.output_types)
    most = default_limit() // itemsize
    if len(node.in_edges) == 2 and namespace is np and not definition.stateful:

        def with_two_arrays(x: Any, y: Any) -> Any:
            if x.size * y.size > most:
                _request((x, y), itemsize)
            return compute(x, y)

        return with_two_arrays
    num_leading = int(definition.stateful)

    def with_shapes(*args: Any, **keywords: Any) -> Any:
        inputs = args[num_leading:]
        # The values of devices need not have a `size`; PyTorch's is a method.
        if math.prod([math.prod(x.shape) for x in inputs]) > most:
            _request(inputs, itemsize)
        return compute(*args, **keywords)

    return with_shapes


def _request(inputs: Sequence[Any], itemsize: int) -> None:
    """Check the size of the result of inputs that are broadcast against the memory budget.

    Raises:
        ResourceExhaustedError: it is larger.
    """
    from graphmill.memory_budget import request_memory

    try:
        shape = np.broadcast_shapes(*[x.shape for x in inputs])
    except ValueError:
        return  # the kernel reports shapes that do not fit
    what = f"an output of shape {list(shape)} is computed"
    request_memory(math.prod(shape) * itemsize, what)
