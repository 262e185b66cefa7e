"""Ask the memory budget for outputs whose size follows from the shapes of a node's inputs.

Kernels ask for sizes that a value decides. What shapes decide (a sum that broadcasts, a product of
matrices, an `Einsum`) is known from the op's shape function, so a session that sets a budget asks
here, once for each set of input shapes.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from graphmill.errors import OpError
from graphmill.memory_budget import request_memory, with_memory_limit
from graphmill.ops.inference.shape_inference import ShapeContext, infer_shapes, shape_function
from graphmill.ops.inference.tensor_shape import UNKNOWN_SHAPE, TensorShape
from graphmill.ops.shapes import _common as common
from graphmill.ops.shapes import math as math_shapes

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.graph.node import Node

_NEVER_LARGER: Final = frozenset((common.unchanged, common.each_unchanged, common.all_equal))
"""Shape functions whose outputs have no more elements than an input."""
_AT_MOST_PRODUCT: Final = frozenset(
    (common.broadcast, math_shapes.compared, math_shapes.mat_mul, math_shapes.batch_mat_mul)
)
"""Shape functions of two inputs whose output has at most the product of their numbers of elements,
unless that is zero."""
_MAX_UNCHECKED_BYTES: Final = 1 << 20
"""Outputs of so many bytes are always granted."""
_MAX_GRANTS: Final = 256
"""How many sets of input shapes a node remembers."""


def asking_for_outputs(
    node: Node, compute: Callable[..., Any], limit: int, *, num_leading: int
) -> Callable[..., Any]:
    """Return a kernel's call that first asks the memory budget for the node's outputs.

    It returns `compute` itself if no output can be larger than the inputs.

    Args:
        node: the node.
        compute: the call of its kernel.
        limit: the memory budget in bytes.
        num_leading: how many arguments come before the node's inputs.
    """
    outputs = _Outputs.of(node)
    if outputs is None:
        return compute
    granted: set[tuple[Any, ...]] = set()

    def asking(*args: Any, **keywords: Any) -> Any:
        shapes = tuple([getattr(value, "shape", None) for value in args[num_leading:]])
        try:
            is_granted = shapes in granted
        except TypeError:  # a value that is no tensor has another kind of shape
            return compute(*args, **keywords)
        if not is_granted:
            with_memory_limit(limit, outputs.request)(shapes)
            if len(granted) >= _MAX_GRANTS:
                granted.clear()
            granted.add(shapes)
        return compute(*args, **keywords)

    if num_leading or not outputs.is_at_most_product:
        return asking
    most = limit // outputs.itemsize

    def asking_if_large(x: Any, y: Any) -> Any:
        if 0 < x.size * y.size <= most:
            return compute(x, y)
        return asking(x, y)

    return asking_if_large


class _Outputs:
    """The outputs of a node, whose sizes its shape function infers from the shapes of inputs.

    Attributes:
        itemsize: the bytes of an element; the most, if the outputs differ.
        is_at_most_product: whether there are two inputs, and one output with at most as many
            elements as the product of their numbers of elements.
    """

    def __init__(
        self, node: Node, function: Callable[[ShapeContext], Any], itemsizes: list[int]
    ) -> None:
        self._node = node
        self._function = function
        self._itemsizes = itemsizes
        self.itemsize = max(itemsizes)
        self.is_at_most_product = function in _AT_MOST_PRODUCT and len(node.inputs) == 2

    @classmethod
    def of(cls, node: Node) -> _Outputs | None:
        """Return the outputs of a node; None if they are not larger than its inputs, or unknown."""
        op_def = node.op_def
        function = shape_function(op_def)
        if function is None:
            return None
        itemsizes = [one.as_numpy_dtype.itemsize for one in op_def.output_types(node.attrs)]
        inputs = [one.as_numpy_dtype.itemsize for one in op_def.input_types(node.attrs)]
        if function in _NEVER_LARGER and max(itemsizes, default=0) <= min(inputs, default=0):
            return None
        return cls(node, function, itemsizes) if any(itemsizes) and inputs else None

    def request(self, shapes: tuple[Any, ...]) -> None:
        """Ask the memory budget for each output.

        Raises:
            ResourceExhaustedError: an output is larger than the budget.
        """
        for shape, itemsize in zip(self._infer(shapes), self._itemsizes, strict=True):
            count = shape.num_elements()
            if count is None:
                continue  # a value decides it, for which the kernel asks
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


class _ShapesAlone:
    """The source of a shape function that has nothing but the shapes of the inputs."""

    def value(self, index: int) -> None:
        """Return no value."""

    def variable_shape(self, index: int) -> TensorShape:
        """Return an unknown shape."""
        del index
        return UNKNOWN_SHAPE
