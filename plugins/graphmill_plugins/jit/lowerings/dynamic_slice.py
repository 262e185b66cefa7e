"""Lower slices with a traced start: `x[t]` and `x[t:t + 3]` in a loop over `t`.

The kernels of slices require static `begin` and `end`, which determine the shape of the result. But
an index selects one element for any value, and `x[t:t + 3]` three: such slices become XLA's
`dynamic_slice`. If the window is not inside the tensor, the interpreter runs the step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill.spi import Lowering, LoweringTable
from graphmill_plugins._jax import jax_module
from graphmill_plugins.jit.tracing.static_values import GUARD, is_static

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import Node
    from graphmill_plugins.jit.tracing.node_trace import NodeTrace
    from graphmill_plugins.jit.tracing.offsets import Offsets
    from graphmill_plugins.jit.tracing.values import State

    Compute = Callable[..., Any]


class _Window:
    """A slice with traced start and static size.

    Attributes:
        shape: its shape.
        starts: its start in each dimension.
        holds: for each traced start, whether the slice is inside the tensor.
    """

    def __init__(self, shape: list[int], starts: list[Any]) -> None:
        self.shape = shape
        self.starts = starts
        self.holds: list[Any] = []

    @classmethod
    def whole(cls, shape: tuple[int, ...]) -> _Window:
        return cls(list(shape), [0] * len(shape))

    def narrow(self, axis: int, start: Any, size: int, whole: int) -> None:
        self.shape[axis], self.starts[axis] = size, start
        self.holds.append((start >= 0) & (start + size <= whole))

    def read(self, x: Any) -> Any:
        return jax_module().lax.dynamic_slice(x, self._start_indices(), self.shape)

    def write(self, x: Any, part: Any) -> Any:
        return jax_module().lax.dynamic_update_slice(x, part, self._start_indices())

    def check(self, state: State) -> None:
        for holds in self.holds:
            state[GUARD] = state[GUARD] & holds

    def _start_indices(self) -> list[Any]:
        numpy = jax_module().numpy
        return [numpy.asarray(start, np.int64) for start in self.starts]


def _axes(node: Node, count: int, rank: int) -> list[int | None]:
    """Return the dimension of each entry of `begin`; None for an ellipsis or a new axis."""
    ellipsis, new = node.attrs["ellipsis_mask"], node.attrs["new_axis_mask"]
    axes: list[int | None] = []
    axis = 0
    for position in range(count):
        bit = 1 << position
        if ellipsis & bit:
            new_after = ((new >> (position + 1)) & ((1 << count) - 1)).bit_count()
            axis = max(axis, rank - (count - position - 1 - new_after))
        elif not new & bit:
            axes.append(axis)
            axis += 1
            continue
        axes.append(None)
    return axes


def _strided(
    offsets: Offsets, node: Node, shape: tuple[int, ...], begin: Any, end: Any, strides: Any
) -> tuple[_Window, tuple[Any, Any, Any]] | None:
    """Return the window that contains a strided slice, and begin, end and strides in it.

    None if the size of the result would depend on traced values.
    """
    if not is_static(strides) or not begin.shape == end.shape == strides.shape:
        return None
    starts, stops, steps = offsets.parts(begin), offsets.parts(end), strides.tolist()
    window = _Window.whole(shape)
    for position, axis in enumerate(_axes(node, len(steps), len(shape))):
        start, stop, bit = starts[position], stops[position], 1 << position
        if axis is None:
            starts[position] = stops[position] = 0
            continue
        if axis >= len(shape):
            return None
        size = shape[axis]
        if node.attrs["shrink_axis_mask"] & bit:
            if not isinstance(start, int):
                index = jax_module().numpy.where(start < 0, start + size, start)
                window.narrow(axis, index, 1, size)
                starts[position] = 0
            stops[position] = 0
            continue
        is_start_traced = not isinstance(start, int) and not node.attrs["begin_mask"] & bit
        is_stop_traced = not isinstance(stop, int) and not node.attrs["end_mask"] & bit
        if is_start_traced or is_stop_traced:
            count = offsets.distance(start, stop) if is_start_traced and is_stop_traced else None
            if count is None or steps[position] != 1 or not 0 < count <= size:
                return None
            window.narrow(axis, start, count, size)
            starts[position], stops[position] = 0, count
        else:
            starts[position] = start if isinstance(start, int) else 0
            stops[position] = stop if isinstance(stop, int) else 0
    return window, (np.array(starts), np.array(stops), strides)


def _strided_slice(
    offsets: Offsets, compute: Compute, node: Node, inputs: list[Any], state: State
) -> Any:
    x, begin, end, strides = inputs
    bounds = _strided(offsets, node, x.shape, begin, end, strides)
    if bounds is None:
        return None
    window, part_slice = bounds
    window.check(state)
    return compute(window.read(x), *part_slice)


def _strided_slice_grad(
    offsets: Offsets, compute: Compute, node: Node, inputs: list[Any], state: State
) -> Any:
    shape, begin, end, strides, dy = inputs
    if not is_static(shape):
        return None
    sizes = tuple(shape.tolist())
    bounds = _strided(offsets, node, sizes, begin, end, strides)
    if bounds is None:
        return None
    window, part_slice = bounds
    window.check(state)
    part = compute(np.array(window.shape), *part_slice, dy)
    return window.write(jax_module().numpy.zeros(sizes, dy.dtype), part)


def _strided_slice_update(
    offsets: Offsets, compute: Compute, node: Node, inputs: list[Any], state: State
) -> Any:
    x, begin, end, strides, value = inputs
    bounds = _strided(offsets, node, x.shape, begin, end, strides)
    if bounds is None:
        return None
    window, part_slice = bounds
    window.check(state)
    return window.write(x, compute(window.read(x), *part_slice, value))


def _slice(offsets: Offsets, compute: Compute, node: Node, inputs: list[Any], state: State) -> Any:
    del compute, node
    x, begin, size = inputs
    if not begin.shape == size.shape == (x.ndim,):
        return None
    window = _Window.whole(x.shape)
    dims = zip(offsets.parts(begin), offsets.parts(size), x.shape, strict=True)
    for axis, (start, count, whole) in enumerate(dims):
        if not isinstance(count, int):
            return None
        if isinstance(start, int):
            count = whole - start if count == -1 else count
        if not 0 <= count <= whole:
            return None
        if count < whole or not isinstance(start, int) or start:
            window.narrow(axis, start, count, whole)
    window.check(state)
    return window.read(x)


def _lowering_of(window: Callable[..., Any]) -> Callable[..., Any]:
    """Return the lowering of a slice op: its kernel, or a window if the start is traced."""

    def lower(trace: NodeTrace, *_: Any) -> Any:
        if trace.has_static_inputs():
            return trace.kernel()
        tracer = trace.tracer
        lowering = window(
            tracer.offsets, trace.kernel_function(), trace.node, trace.inputs, trace.state
        )
        # The kernel raises the error that names the inputs that must be static.
        return trace.kernel() if lowering is None else lowering

    return lower


def _pack(trace: NodeTrace, values: list[Any]) -> Any:
    result = trace.kernel()
    if not is_static(result):
        trace.tracer.offsets.note_packed(values, result)
    return result


def _add(trace: NodeTrace, x: Any, y: Any) -> Any:
    result = trace.kernel()
    if not is_static(result):
        trace.tracer.offsets.note_sum([x, y], result)
    return result


LOWERINGS: Final = LoweringTable(
    [
        Lowering(("Slice",), _lowering_of(_slice)),
        Lowering(("StridedSlice",), _lowering_of(_strided_slice)),
        Lowering(("StridedSliceGrad",), _lowering_of(_strided_slice_grad)),
        Lowering(("TensorStridedSliceUpdate",), _lowering_of(_strided_slice_update)),
        Lowering(("Pack",), _pack),
        Lowering(("Add", "AddV2"), _add),
    ]
)
