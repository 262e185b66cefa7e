"""Check lowerings against the declared outputs of their kernels (`GRAPHMILL_VALIDATE=1`).

A lowering, or a kernel for the compiler's backend, replaces the kernel that interprets the node, so
it must return the same number of outputs, with the same element types and shapes. To find the
shapes, which may depend on values, the interpreting kernel is called with zeros and with ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill.spi.executors import is_validation_on
from graphmill.spi.passes import effects_of
from graphmill_plugins._jax import jax_module
from graphmill_plugins.jit.ir.errors import NotTraceable, WrongOutputsError
from graphmill_plugins.jit.tracing.static_values import is_static
from graphmill_plugins.jit.tracing.traced_kernels import called
from graphmill_plugins.jit.tracing.traced_outputs import gives_several

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.errors import InternalError
    from graphmill.spi import Node, OpKernel
    from graphmill_plugins.jit.tracing.traced_kernels import TracedKernels

_MAX_BYTES: Final = 1 << 24  # maximum size of the inputs that the kernel is called with
_FILLS: Final[tuple[Callable[..., Any], ...]] = (np.zeros, np.ones)


class DeclaredOutputs:
    """Compares the traced outputs of nodes with the outputs that their kernels declare.

    Args:
        kernels: the kernels and lowerings of the nodes.
    """

    def __init__(self, kernels: TracedKernels) -> None:
        self._kernels = kernels
        self._is_on = is_validation_on()

    def check(self, node: Node, source: str, inputs: Sequence[Any], result: Any) -> None:
        """Check the traced outputs of a node.

        Args:
            node: the node.
            source: the code that returned the outputs, for messages.
            inputs: its inputs, static or traced.
            result: the output, or a sequence of several; ignored if the node has none.

        Raises:
            WrongOutputsError: the outputs differ from those of the kernel.
        """
        if not self._is_on or not node.num_outputs:
            return
        name = f"{source}{self._kernels.owner_of(node)} for op {node.op}"
        outputs = _counted(node, name, result)
        expected = self._shapes(node, inputs)
        for index, value in enumerate(outputs):
            if _is_array(value):
                _check_output(node, name, index, value, expected[index] if expected else None)

    def _shapes(self, node: Node, inputs: Sequence[Any]) -> list[tuple[int, ...]] | None:
        """Return the kernel's output shapes; None if they are unknown or vary."""
        kernel = self._kernel(node)
        if kernel is None or not all(map(_is_array, inputs)):
            return None
        if sum(np.dtype(x.dtype).itemsize * int(np.prod(x.shape)) for x in inputs) > _MAX_BYTES:
            return None
        results = [shapes for fill in _FILLS if (shapes := _shapes_for(node, kernel, inputs, fill))]
        return results[0] if results and all(shapes == results[0] for shapes in results) else None

    def _kernel(self, node: Node) -> OpKernel | None:
        """Return the interpreter's kernel of a node if it has no effects."""
        try:
            kernel = self._kernels.get(node, "numpy")
        except NotTraceable:
            return None
        definition = kernel.definition
        is_plain = not (definition.stateful or definition.dynamic_shape or definition.effects)
        return kernel if is_plain and not effects_of(node.op_def) else None


def _shapes_for(
    node: Node, kernel: OpKernel, inputs: Sequence[Any], fill: Callable[..., Any]
) -> list[tuple[int, ...]] | None:
    """Return a kernel's output shapes for inputs filled with one value; None if it raises."""
    try:
        values = [x if is_static(x) else fill(x.shape, x.dtype)[()] for x in inputs]
        result = called(kernel, values)
    except NotTraceable:  # a kernel may refuse such values
        return None
    outputs = result if node.num_outputs > 1 else (result,)
    return [tuple(np.shape(value)) if _is_array(value) else () for value in outputs]


def _counted(node: Node, name: str, result: Any) -> Sequence[Any]:
    """Return traced outputs as a sequence."""
    count = node.num_outputs
    is_several = gives_several(node, result)
    if count == 1 and not is_several:
        return (result,)
    if count == 1 or not is_several or len(result) != count:
        actual = f"{len(result)} outputs" if is_several else type(result).__name__
        raise _wrong(node, f"{name} returns {actual}, but the op has {count}")
    return list(result)


def _check_output(
    node: Node, name: str, index: int, value: Any, shape: tuple[int, ...] | None
) -> None:
    expected = node.output_types[index].base_dtype
    if value.dtype != expected.as_numpy_dtype:
        text = f"{name} returns {value.dtype} for output {index}, but the op has {expected.name}"
        raise _wrong(node, text)
    if shape is not None and tuple(value.shape) != shape:
        actual = f"the shape {list(value.shape)} for output {index}"
        raise _wrong(node, f"{name} returns {actual}, but its kernel returns {list(shape)}")


def _wrong(node: Node, text: str) -> InternalError:
    return WrongOutputsError(
        f"{text}. A lowering must return outputs like those of the kernel",
        node=node.name,
        op_type=node.op,
    )


def _is_array(value: Any) -> bool:
    return is_static(value) or isinstance(value, jax_module().Array)
