"""Lower tensor arrays: their elements are in the state, by handle.

A flow only orders the operations on an array, and tracing preserves their order. So a flow is not
changed by any operation.

Semantics: tensorflow/core/kernels/tensor_array_ops.cc. An index out of range is detected, see
`static_values.GUARD`; so is an element that is read or written once too often, see `element_marks`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from graphmill_plugins._jax import jax_module
from graphmill_plugins.jit.ir.errors import NotTraceable
from graphmill_plugins.jit.lowerings.element_marks import note_read, note_write, start_marks
from graphmill_plugins.jit.lowerings.structure import structure_lowerings
from graphmill_plugins.jit.tracing.elements import (
    Elements,
    FirstRows,
    is_fully_defined,
    set_and_grown,
)
from graphmill_plugins.jit.tracing.static_values import (
    GUARD,
    guard,
    is_outside,
    is_static,
    static_int,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    State: TypeAlias = "dict[Hashable, Any]"
    TracedOp: TypeAlias = "Callable[[State, Sequence[Any], Mapping[str, Any]], tuple[Any, ...]]"

_numbers = count()
_START: Final = np.float32(0)


@dataclass(frozen=True, slots=True)
class TensorArrayHandle:
    """The handle of a tensor array: the key of its elements in the state.

    Attributes:
        number: identifies it.
        dtype: the dtype of its elements.
        forward: the array whose gradients it accumulates; None for other arrays.
        source: the name of these gradients.
        is_dynamic: whether writing an element past its end makes it grow.
        clears: whether an element can be read only once.
        has_one_shape: whether all elements have the shape of the first one that is written.
    """

    number: int
    dtype: np.dtype[Any]
    forward: TensorArrayHandle | None = None
    source: bytes = b""
    is_dynamic: bool = False
    clears: bool = False
    has_one_shape: bool = False

    @property
    def adds(self) -> bool:
        """Whether written values are added."""
        return self.forward is not None


def _make(state: State, inputs: Sequence[Any], attrs: Mapping[str, Any]) -> tuple[Any, ...]:
    size = static_int(inputs[0], "the size of a tensor array")
    dtype = np.dtype(attrs["dtype"].as_numpy_dtype)
    if dtype.hasobject:
        raise NotTraceable("a tensor array holds strings or handles")
    handle = TensorArrayHandle(
        next(_numbers),
        dtype,
        is_dynamic=attrs["dynamic_size"],
        clears=attrs["clear_after_read"],
        has_one_shape=attrs["identical_element_shapes"],
    )
    shape = attrs["element_shape"]
    elements = Elements(dtype, None, None, size, declared=None if shape is None else tuple(shape))
    if is_fully_defined(shape) and not attrs["dynamic_size"]:
        elements = elements.filled(tuple(shape))
    state[handle] = elements
    start_marks(state, handle, size)
    return handle, _START


def _gradient(state: State, inputs: Sequence[Any], attrs: Mapping[str, Any]) -> tuple[Any, ...]:
    forward: TensorArrayHandle = inputs[0]
    handle = replace(
        forward, forward=forward, source=attrs["source"], is_dynamic=False, clears=True
    )
    if handle not in state:
        elements: Elements = state[forward]
        if elements.length is not None:
            raise NotTraceable("it requests gradients of a tensor array that has grown")
        new_elements = Elements(elements.dtype, None, None, elements.size)
        state[handle] = (
            new_elements if elements.data is None else new_elements.filled(elements.data.shape[1:])
        )
        start_marks(state, handle, elements.size)
    return handle, inputs[1]


def _write(state: State, inputs: Sequence[Any], attrs: Mapping[str, Any]) -> tuple[Any, ...]:
    del attrs
    handle, index, value, flow = inputs
    elements: Elements = state[handle]
    if handle.is_dynamic:
        state[handle] = set_and_grown(state, elements, index, value)
    else:
        _check(state, index, elements)
        state[handle] = elements.with_element(index, value, add=handle.adds)
    note_write(state, handle, index)
    return (flow,)


def _read(state: State, inputs: Sequence[Any], attrs: Mapping[str, Any]) -> tuple[Any, ...]:
    del attrs
    handle, index, _ = inputs
    elements: Elements = state[handle]
    _check(state, index, elements)
    _note_read(state, handle, index)
    return (elements.element(index),)


def _gather(state: State, inputs: Sequence[Any], attrs: Mapping[str, Any]) -> tuple[Any, ...]:
    handle, indices, _ = inputs
    elements: Elements = state[handle]
    shape = attrs["element_shape"]
    elements.check_declared(shape)
    if isinstance(indices, FirstRows):
        if indices.count is not elements.length:
            raise NotTraceable("the number of elements to read is unknown")
        return (FirstRows.of(elements, state, shape, elements.declared),)
    _check(state, indices, elements, rank=1)
    _note_read(state, handle, indices, shape)
    if elements.data is None and elements.size == 0 and is_fully_defined(shape):
        elements = elements.filled(tuple(shape))
    return (elements.gathered(indices),)


def _scatter(state: State, inputs: Sequence[Any], attrs: Mapping[str, Any]) -> tuple[Any, ...]:
    del attrs
    handle, indices, value, flow = inputs
    elements = _with_room(state[handle], value.shape[0])
    _check(state, indices, elements, rank=1)
    _check_distinct(state, indices)
    note_write(state, handle, indices)
    state[handle] = elements.with_rows(indices, value, add=handle.adds)
    return (flow,)


def _concat(state: State, inputs: Sequence[Any], attrs: Mapping[str, Any]) -> tuple[Any, ...]:
    elements: Elements = state[inputs[0]]
    if elements.data is None or elements.data.ndim < 2:
        raise NotTraceable("it concatenates a tensor array whose elements are unset or scalars")
    if elements.length is not None:
        raise NotTraceable("it concatenates a tensor array of dynamic length")
    shape = attrs["element_shape_except0"]
    elements.check_declared(None if shape is None else (-1, *shape))
    _note_read(state, inputs[0], np.arange(elements.size))
    rows = elements.data.shape[1]
    joined = elements.data.reshape((elements.size * rows, *elements.data.shape[2:]))
    return joined, np.full(elements.size, rows, np.int64)


def _split(state: State, inputs: Sequence[Any], attrs: Mapping[str, Any]) -> tuple[Any, ...]:
    del attrs
    handle, value, lengths, flow = inputs
    if not isinstance(lengths, np.ndarray) or len(set(lengths.tolist())) != 1:
        raise NotTraceable("the parts of a split tensor array may differ in length")
    elements = _with_room(state[handle], lengths.size)
    if lengths.size != elements.size or lengths.sum() != value.shape[0]:
        raise NotTraceable("the parts of a split tensor array do not match its size")
    rows = value.reshape((lengths.size, int(lengths[0]), *value.shape[1:]))
    note_write(state, handle, np.arange(lengths.size))
    state[handle] = elements.with_rows(np.arange(lengths.size), rows, add=handle.adds)
    return (flow,)


def _size(state: State, inputs: Sequence[Any], attrs: Mapping[str, Any]) -> tuple[Any, ...]:
    del attrs
    elements: Elements = state[inputs[0]]
    return (np.int32(elements.size) if elements.length is None else elements.length,)


def _close(state: State, inputs: Sequence[Any], attrs: Mapping[str, Any]) -> tuple[Any, ...]:
    del state, inputs, attrs
    return ()


def _with_room(elements: Elements, size: int) -> Elements:
    """Return elements with a final size if they are empty and were created without one."""
    if elements.size == 0 and elements.data is None and elements.length is None:
        return replace(elements, size=size)
    return elements


def _check(state: State, index: Any, elements: Elements, rank: int = 0) -> None:
    if np.ndim(index) != rank:
        raise NotTraceable(f"an index has {np.ndim(index)} dimensions, expected {rank}")
    if is_outside(index, elements.size):
        raise NotTraceable("an index of a tensor array is out of range")
    guard(state, index, elements.size if elements.length is None else elements.length)


def _note_read(
    state: State, handle: TensorArrayHandle, indices: Any, shape: tuple[int, ...] | None = None
) -> None:
    """Note that elements are read; `shape` is what the op declares of theirs."""
    has_shape = is_fully_defined(state[handle].declared) or is_fully_defined(shape)
    note_read(state, handle, indices, has_shape=has_shape)


def _check_distinct(state: State, indices: Any) -> None:
    """Check that no element is written twice by one operation."""
    if is_static(indices):
        if np.unique(indices).size != indices.size:
            raise NotTraceable("one write sets an element of a tensor array twice")
    elif GUARD in state:
        numpy = jax_module().numpy
        state[GUARD] = state[GUARD] & numpy.all(numpy.diff(numpy.sort(indices)) != 0)


TRACED: Final[Mapping[str, TracedOp]] = {
    "TensorArrayV3": _make,
    "TensorArrayGradV3": _gradient,
    "TensorArrayWriteV3": _write,
    "TensorArrayReadV3": _read,
    "TensorArrayGatherV3": _gather,
    "TensorArrayScatterV3": _scatter,
    "TensorArrayConcatV3": _concat,
    "TensorArraySplitV3": _split,
    "TensorArraySizeV3": _size,
    "TensorArrayCloseV3": _close,
}
"""By op: a function of state (which it changes), inputs and attrs; it returns all outputs."""

LOWERINGS: Final = structure_lowerings(TRACED, counting=(_size,), element_type="dtype")
