"""Check the memory budget for outputs whose size follows from the shapes of a node's inputs.

Kernels check sizes that depend on values. Sizes that depend on shapes (of a broadcast sum, a
product of matrices, an `Einsum`) are known from the op's shape function, so a session with a
budget checks them here, once for each set of input shapes.
"""

from __future__ import annotations

import math
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from graphmill.errors import OpError
from graphmill.graph.node_roles import is_constant
from graphmill.memory_budget import request_memory, with_memory_limit
from graphmill.ops.inference.output_bounds import OutputBound, output_bound
from graphmill.ops.inference.shape_inference import ShapeContext, infer_shapes, shape_function
from graphmill.ops.inference.tensor_shape import UNKNOWN_SHAPE, TensorShape

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.graph.node import Edge, Node
    from graphmill.runtime.kernels.kernel import KernelDef

_MAX_UNCHECKED_BYTES: Final = 1 << 20
"""Maximum size of outputs that are not checked, in bytes."""
_MAX_ACCEPTED: Final = 256
"""The maximum number of checked sets of input shapes stored for a node."""


def with_budget(
    node: Node, definition: KernelDef, compute: Callable[..., Any], limit: int
) -> Callable[..., Any]:
    """Return a kernel's call that checks its outputs against a memory budget first.

    A kernel that forwards its inputs needs no check, nor one whose outputs have elements of a fixed
    size and are no larger than its inputs: `compute` itself is returned.

    Args:
        node: the node.
        definition: its kernel.
        compute: the call of the kernel.
        limit: the memory budget in bytes.
    """
    if definition.forwards:
        return compute
    outputs = _Outputs.of(node)
    bound = None if outputs is None else outputs.bound
    if bound is None or definition.stateful or not _have_fixed_sizes(node):
        compute = with_memory_limit(limit, compute)
    if outputs is None or bound is OutputBound.INPUT:
        return compute
    return _checking(compute, outputs, limit, num_leading=int(definition.stateful))


def _have_fixed_sizes(node: Node) -> bool:
    """Return whether all elements of a node's outputs have a fixed size."""
    return not any(dtype.as_numpy_dtype.hasobject for dtype in node.output_types)


def _checking(
    compute: Callable[..., Any], outputs: _Outputs, limit: int, *, num_leading: int
) -> Callable[..., Any]:
    """Return a kernel's call that first checks the node's outputs against the memory budget."""
    accepted: set[tuple[Any, ...]] = set()

    def checked(*args: Any, **keywords: Any) -> Any:
        shapes = tuple([getattr(value, "shape", None) for value in args[num_leading:]])
        try:
            is_accepted = shapes in accepted
        except TypeError:  # the `shape` of a value that is not a tensor may be unhashable
            return compute(*args, **keywords)
        if not is_accepted:
            with_memory_limit(limit, outputs.request)(shapes)
            if len(accepted) >= _MAX_ACCEPTED:
                accepted.clear()
            accepted.add(shapes)
        return compute(*args, **keywords)

    if num_leading or outputs.bound is not OutputBound.PRODUCT:
        return checked
    most = limit // outputs.itemsize

    def checked_if_large(x: Any, y: Any) -> Any:
        if 0 < x.size * y.size <= most:
            return compute(x, y)
        return checked(x, y)

    return checked_if_large


class _Outputs:
    """The outputs of a node, whose sizes its shape function infers from the shapes of inputs.

    Attributes:
        itemsize: the bytes of an element; the most, if the outputs differ.
        bound: what the outputs cannot exceed, in elements and in bytes; None if unknown.
    """

    def __init__(
        self, node: Node, function: Callable[[ShapeContext], Any], itemsizes: list[int]
    ) -> None:
        self._node = node
        self._function = function
        self._itemsizes = itemsizes
        self.itemsize = max(itemsizes)
        self.bound = _bound(node, function, self.itemsize)

    @classmethod
    def of(cls, node: Node) -> _Outputs | None:
        """Return the outputs of a node; None if their sizes cannot be known in advance."""
        op_def = node.op_def
        function = shape_function(op_def)
        if function is None or not node.input_types:
            return None
        itemsizes = [one.as_numpy_dtype.itemsize for one in node.output_types]
        return cls(node, function, itemsizes) if any(itemsizes) else None

    def request(self, shapes: tuple[Any, ...]) -> None:
        """Check each output against the memory budget.

        Raises:
            ResourceExhaustedError: an output is larger than the budget.
        """
        for shape, itemsize in zip(self._infer(shapes), self._itemsizes, strict=True):
            count = shape.num_elements()
            if count is None:
                continue  # it depends on a value; the kernel checks it
            if count * itemsize > _MAX_UNCHECKED_BYTES:
                what = f"an output of shape {shape.as_list()} is computed"
                request_memory(count * itemsize, what)

    def _infer(self, shapes: tuple[Any, ...]) -> tuple[TensorShape, ...]:
        node = self._node
        inputs = [TensorShape(one) if type(one) is tuple else UNKNOWN_SHAPE for one in shapes]
        context = ShapeContext(
            node.name, node.op_def, node.attrs, inputs, len(self._itemsizes), _ShapesAlone()
        )
        with suppress(OpError):  # the kernel reports shapes that do not fit
            return infer_shapes(context, self._function)
        return (UNKNOWN_SHAPE,) * len(self._itemsizes)


def _bound(
    node: Node, function: Callable[[ShapeContext], Any], itemsize: int
) -> OutputBound | None:
    """Return the declared bound; None if element sizes or the number of inputs rule it out.

    With a number as one of two inputs, the product is the size of the other.
    """
    bound = output_bound(function)
    fits = itemsize <= min(one.as_numpy_dtype.itemsize for one in node.input_types)
    if bound is OutputBound.INPUT:
        return bound if fits else None
    if bound is None or len(node.input_types) != 2:
        return None
    return OutputBound.INPUT if fits and any(map(_is_number, node.in_edges)) else bound


def _is_number(edge: Edge) -> bool:
    """Return whether an input is a constant of one element."""
    return is_constant(edge.src) and math.prod(edge.src.attrs["value"].shape) == 1


class _ShapesAlone:
    """Inputs of a shape function of which only the shapes are known."""

    def value(self, index: int) -> None:
        """Return no value."""

    def variable_shape(self, index: int) -> TensorShape:
        """Return an unknown shape."""
        del index
        return UNKNOWN_SHAPE
