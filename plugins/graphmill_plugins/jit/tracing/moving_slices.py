"""Slices whose place is computed, while they are traced: `x[t]` in a loop over `t`.

The kernels of slices want all of `begin` and `end`, since these tell the shape of the result. But
a point takes one element wherever it is, and `x[t:t + 3]` three. So the vectors are looked at
number by number, as they were packed.

A place that does not lie in the tensor is noted in the state, and the interpreter decides then.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill_plugins._jax import jax_module
from graphmill_plugins.jit.tracing.elements import GUARD, is_known

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.graph.node import Node
    from graphmill.runtime.kernel import OpKernel
    from graphmill_plugins.jit.tracing.values import State


class Numbers:
    """What is known of the numbers that places are made of, though they are traced.

    Values are told apart by identity and kept alive, so that ids stay theirs.
    """

    def __init__(self) -> None:
        self._parts: dict[int, tuple[Any, list[Any]]] = {}
        self._sums: dict[int, tuple[Any, Any, int]] = {}

    def note(self, node: Node, inputs: list[Any], result: Any) -> None:
        """Remember what a vector was packed of, or to what a number was added."""
        if node.op == "Pack":
            if not np.ndim(inputs[0]):
                self._parts[id(result)] = result, inputs
        elif not np.ndim(result) and result.dtype.kind == "i":
            for value, added in (inputs, inputs[::-1]):
                if is_known(added):
                    base, offset = self.origin(value)
                    self._sums[id(result)] = result, base, offset + int(added)

    def parts(self, vector: Any) -> list[Any]:
        """Return the numbers of a vector, Python's where they are known."""
        if is_known(vector):
            found: list[Any] = vector.tolist()
            return found
        noted = self._parts.get(id(vector))
        elements = [vector[i] for i in range(vector.shape[0])] if noted is None else noted[1]
        return [int(value) if is_known(value) else value for value in elements]

    def origin(self, value: Any) -> tuple[Any, int]:
        """Return the number that a known one was added to, and the known one."""
        found = self._sums.get(id(value))
        return (value, 0) if found is None else (found[1], found[2])

    def distance(self, start: Any, stop: Any) -> int | None:
        """Return how far it is from one number to the other, if that is known."""
        (first, before), (second, after) = self.origin(start), self.origin(stop)
        return after - before if first is second else None


NOTED: Final = frozenset({"Pack", "Add", "AddV2"})
"""Ops whose results `Numbers` looks at."""


@dataclass(slots=True)
class _Window:
    """A part of a tensor: it begins at traced places, and its size is known.

    Attributes:
        shape: of the part.
        starts: where it begins in each dimension.
        holds: whether it lies in the tensor, for each place that is traced.
    """

    shape: list[int]
    starts: list[Any]
    holds: list[Any] = field(default_factory=list)

    @classmethod
    def whole(cls, shape: tuple[int, ...]) -> _Window:
        return cls(list(shape), [0] * len(shape))

    def narrow(self, axis: int, start: Any, size: int, whole: int) -> None:
        self.shape[axis], self.starts[axis] = size, start
        self.holds.append((start >= 0) & (start + size <= whole))

    def read(self, x: Any) -> Any:
        return jax_module().lax.dynamic_slice(x, self._places(), self.shape)

    def write(self, x: Any, part: Any) -> Any:
        return jax_module().lax.dynamic_update_slice(x, part, self._places())

    def check(self, state: State) -> None:
        for holds in self.holds:
            state[GUARD] = state[GUARD] & holds

    def _places(self) -> list[Any]:
        numpy = jax_module().numpy
        return [numpy.asarray(start, np.int64) for start in self.starts]


def _axes(node: Node, count: int, rank: int) -> list[int | None]:
    """Return the dimension that each number of `begin` is for; None for an ellipsis, a new axis."""
    ellipsis, new = node.attrs["ellipsis_mask"], node.attrs["new_axis_mask"]
    found: list[int | None] = []
    axis = 0
    for position in range(count):
        bit = 1 << position
        if ellipsis & bit:
            behind = ((new >> (position + 1)) & ((1 << count) - 1)).bit_count()
            axis = max(axis, rank - (count - position - 1 - behind))
        elif not new & bit:
            found.append(axis)
            axis += 1
            continue
        found.append(None)
    return found


def _strided(
    numbers: Numbers, node: Node, shape: tuple[int, ...], begin: Any, end: Any, strides: Any
) -> tuple[_Window, tuple[Any, Any, Any]] | None:
    """Return the window that a strided slice lies in, and begin, end and strides in it.

    None where the size of the result would depend on what is traced.
    """
    if not is_known(strides) or not begin.shape == end.shape == strides.shape:
        return None
    starts, stops, steps = numbers.parts(begin), numbers.parts(end), strides.tolist()
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
                place = jax_module().numpy.where(start < 0, start + size, start)
                window.narrow(axis, place, 1, size)
                starts[position] = 0
            stops[position] = 0
            continue
        starts_unknown = not isinstance(start, int) and not node.attrs["begin_mask"] & bit
        stops_unknown = not isinstance(stop, int) and not node.attrs["end_mask"] & bit
        if starts_unknown or stops_unknown:
            count = numbers.distance(start, stop) if starts_unknown and stops_unknown else None
            if count is None or steps[position] != 1 or not 0 < count <= size:
                return None
            window.narrow(axis, start, count, size)
            starts[position], stops[position] = 0, count
        else:
            starts[position] = start if isinstance(start, int) else 0
            stops[position] = stop if isinstance(stop, int) else 0
    return window, (np.array(starts), np.array(stops), strides)


def _strided_slice(
    numbers: Numbers, kernel: OpKernel, node: Node, inputs: list[Any], state: State
) -> Any:
    x, begin, end, strides = inputs
    found = _strided(numbers, node, x.shape, begin, end, strides)
    if found is None:
        return None
    window, place = found
    window.check(state)
    return kernel.compute(window.read(x), *place)


def _strided_slice_grad(
    numbers: Numbers, kernel: OpKernel, node: Node, inputs: list[Any], state: State
) -> Any:
    shape, begin, end, strides, dy = inputs
    if not is_known(shape):
        return None
    sizes = tuple(shape.tolist())
    found = _strided(numbers, node, sizes, begin, end, strides)
    if found is None:
        return None
    window, place = found
    window.check(state)
    part = kernel.compute(np.array(window.shape), *place, dy)
    return window.write(jax_module().numpy.zeros(sizes, dy.dtype), part)


def _strided_slice_update(
    numbers: Numbers, kernel: OpKernel, node: Node, inputs: list[Any], state: State
) -> Any:
    x, begin, end, strides, value = inputs
    found = _strided(numbers, node, x.shape, begin, end, strides)
    if found is None:
        return None
    window, place = found
    window.check(state)
    return window.write(x, kernel.compute(window.read(x), *place, value))


def _slice(numbers: Numbers, kernel: OpKernel, node: Node, inputs: list[Any], state: State) -> Any:
    del kernel, node
    x, begin, size = inputs
    if not begin.shape == size.shape == (x.ndim,):
        return None
    window = _Window.whole(x.shape)
    places = zip(numbers.parts(begin), numbers.parts(size), x.shape, strict=True)
    for axis, (start, count, whole) in enumerate(places):
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


_SLICES: Final[dict[str, Callable[[Numbers, OpKernel, Node, list[Any], State], Any]]] = {
    "Slice": _slice,
    "StridedSlice": _strided_slice,
    "StridedSliceGrad": _strided_slice_grad,
    "TensorStridedSliceUpdate": _strided_slice_update,
}


def sliced_at(
    numbers: Numbers, kernel: OpKernel, node: Node, inputs: list[Any], state: State
) -> Any:
    """Return the result of a slice of which some places are traced.

    None if it is no slice, or the size of the result depends on what is traced.
    """
    compute = _SLICES.get(node.op)
    return None if compute is None else compute(numbers, kernel, node, inputs, state)
