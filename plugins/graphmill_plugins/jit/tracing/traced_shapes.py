"""Check the shapes that a lowering returns against the shape function of the op.

Shapes are static while a program is traced, so a lowering whose outputs have other shapes than the
op allows is found before the program runs, and without any cost to its steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.errors import OpError
from graphmill.spi import ShapeContext, TensorShape
from graphmill.spi.compilers import infer_shapes, shape_function
from graphmill_plugins._jax import jax_module
from graphmill_plugins.jit.tracing.static_values import is_static

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.spi import Node
    from graphmill_plugins.jit.tracing.traced_outputs import Origin


class _TracedInputs:
    """The properties of inputs that a shape function may read besides their shapes."""

    def __init__(self, inputs: Sequence[Any]) -> None:
        self._inputs = inputs

    def value(self, index: int) -> Any:
        """Return the value of an input that is static, else None."""
        value = self._inputs[index]
        return value if is_static(value) else None

    def variable_shape(self, _index: int) -> TensorShape:
        """Return an unknown shape: variables are not checked."""
        return TensorShape(None)


def check_shapes(node: Node, inputs: Sequence[Any], outputs: Sequence[Any], origin: Origin) -> None:
    """Check that outputs have shapes that the op allows for these inputs.

    Args:
        node: the node; nothing is checked if its op has no shape function.
        inputs: its inputs; nothing is checked unless all are arrays.
        outputs: its outputs; those that are no arrays are not checked.
        origin: the code that returned them.

    Raises:
        NotTraceable: an output has another shape.
    """
    function = shape_function(node.op_def)
    if function is None or not all(map(_has_shape, inputs)):
        return
    shapes = [TensorShape(value.shape) for value in inputs]
    sources = _TracedInputs(inputs)
    context = ShapeContext(node.name, node.op_def, node.attrs, shapes, node.num_outputs, sources)
    try:
        expected = infer_shapes(context, function)
    except OpError:
        return  # the kernel that interprets the node reports wrong inputs
    for index, (value, shape) in enumerate(zip(outputs, expected, strict=True)):
        if _has_shape(value) and not shape.is_compatible_with(value.shape):
            actual = f"the shape {list(value.shape)} for output {index}"
            raise origin.wrong(f"{actual}, but the op {node.op} has the shape {shape} there")


def _has_shape(value: Any) -> bool:
    return is_static(value) or isinstance(value, jax_module().Array)
