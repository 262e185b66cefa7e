"""Lower tensor lists: a list is a value, `Elements` of one shape.

Semantics: tensorflow/core/kernels/list_kernels.cc. An element that was never set is zeros.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill.spi import Lowering, LoweringTable
from graphmill_plugins._jax import jax_module
from graphmill_plugins.jit.ir.errors import NotTraceable
from graphmill_plugins.jit.lowerings.structure import structure_lowerings
from graphmill_plugins.jit.tracing.elements import (
    Elements,
    FirstRows,
    is_fully_defined,
    set_and_grown,
    static_shape,
)
from graphmill_plugins.jit.tracing.static_values import guard, is_outside, is_static, static_int

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from graphmill_plugins.jit.lowerings.tensor_array import State, TracedOp
    from graphmill_plugins.jit.tracing.node_trace import NodeTrace


def _dtype(attrs: Mapping[str, Any]) -> np.dtype[Any]:
    dtype: np.dtype[Any] = np.dtype(attrs["element_dtype"].as_numpy_dtype)
    if dtype.hasobject:
        raise NotTraceable("a list holds strings or handles")
    return dtype


def _shaped(elements: Elements, shape: Any) -> Elements:
    """Return a list of zeros if it has no elements yet and their shape is static."""
    if elements.data is not None or not isinstance(shape, (np.ndarray, np.generic)):
        return elements
    sizes: list[int] = np.ravel(shape).tolist()
    if shape.ndim != 1 or min(sizes, default=0) < 0 or elements.size < 0:
        return elements
    return elements.filled(tuple(sizes))


def _reserve(state: State, inputs: Sequence[Any], attrs: Mapping[str, Any]) -> tuple[Any, ...]:
    del state
    size = static_int(inputs[1], "the length of a list")
    declared = static_shape(inputs[0])
    is_any_set = None if is_fully_defined(declared) else np.False_
    elements = Elements(_dtype(attrs), None, None, size, declared=declared, is_any_set=is_any_set)
    return (_shaped(elements, inputs[0]),)


def _empty(state: State, inputs: Sequence[Any], attrs: Mapping[str, Any]) -> tuple[Any, ...]:
    del state
    size = -1 if not is_static(inputs[1]) else static_int(inputs[1], "the capacity of a list")
    elements = Elements(_dtype(attrs), None, np.int32(0), size, may_grow=True, is_bounded=size >= 0)
    return (replace(elements, declared=static_shape(inputs[0])),)


def _from_tensor(state: State, inputs: Sequence[Any], attrs: Mapping[str, Any]) -> tuple[Any, ...]:
    del state
    value = inputs[0]
    if not np.ndim(value):
        raise NotTraceable("a list is created from a scalar")
    elements = Elements(_dtype(attrs), value, None, value.shape[0])
    elements.check(value.dtype, value.shape[1:])
    declared = static_shape(inputs[1])
    elements.check_declared(declared)
    return (replace(elements, declared=declared),)


def _set_item(state: State, inputs: Sequence[Any], attrs: Mapping[str, Any]) -> tuple[Any, ...]:
    elements, index, value = inputs
    if attrs["resize_if_index_out_of_bounds"]:
        return (set_and_grown(state, elements, index, value),)
    _check(state, index, elements)
    return (elements.with_element(index, value),)


def _get_item(state: State, inputs: Sequence[Any], attrs: Mapping[str, Any]) -> tuple[Any, ...]:
    del attrs
    elements, index, shape = inputs
    _check(state, index, elements)
    _check_shape(state, elements, shape)
    return (_shaped(elements, shape).element(index),)


def _stack(state: State, inputs: Sequence[Any], attrs: Mapping[str, Any]) -> tuple[Any, ...]:
    shape = _check_shape(state, inputs[0], inputs[1])
    elements = _shaped(inputs[0], inputs[1])
    count = np.int32(elements.size) if elements.length is None else elements.length
    expected: int = attrs["num_elements"]
    if expected >= 0:
        if is_static(count) and count != expected:
            raise NotTraceable(f"a list has {count} elements, expected {expected}")
        guard(state, count, expected + 1)
        guard(state, expected, count + 1)
        count = np.int32(expected)
    if is_static(count):
        return (elements.first(int(count)),)
    return (FirstRows.of(elements, state, shape, elements.declared),)


def _gather(state: State, inputs: Sequence[Any], attrs: Mapping[str, Any]) -> tuple[Any, ...]:
    del attrs
    elements, indices, shape = inputs
    _check(state, indices, elements, rank=1)
    _check_shape(state, elements, shape)
    return (_shaped(elements, shape).gathered(indices),)


def _length(state: State, inputs: Sequence[Any], attrs: Mapping[str, Any]) -> tuple[Any, ...]:
    del state, attrs
    elements = inputs[0]
    return (np.int32(elements.size) if elements.length is None else elements.length,)


def _element_shape(
    state: State, inputs: Sequence[Any], attrs: Mapping[str, Any]
) -> tuple[Any, ...]:
    del state
    declared = inputs[0].declared
    return (np.array(-1 if declared is None else declared, attrs["shape_type"].as_numpy_dtype),)


def _push_back(state: State, inputs: Sequence[Any], attrs: Mapping[str, Any]) -> tuple[Any, ...]:
    del attrs
    elements, value = inputs
    if not elements.may_grow:
        raise NotTraceable("a list of fixed length grows")
    if elements.size >= 0:
        guard(state, elements.length, elements.size)
    return (elements.pushed(value),)


def _pop_back(state: State, inputs: Sequence[Any], attrs: Mapping[str, Any]) -> tuple[Any, ...]:
    del attrs
    elements = inputs[0]
    if not elements.may_grow:
        raise NotTraceable("a list of fixed length shrinks")
    guard(state, elements.length - np.int32(1), np.iinfo(np.int32).max)
    value, rest = elements.popped()
    return rest, value


def _zeros_like(state: State, inputs: Sequence[Any], attrs: Mapping[str, Any]) -> tuple[Any, ...]:
    del state, attrs
    elements = inputs[0]
    return (elements.mapped(jax_module().numpy.zeros_like),)


def _add_n(state: State, inputs: Sequence[Any], attrs: Mapping[str, Any]) -> tuple[Any, ...]:
    del state, attrs
    total = inputs[0]
    for other in inputs[1:]:
        if not isinstance(other, Elements) or other.size != total.size or other.may_grow:
            raise NotTraceable("it adds lists that may differ in length")
        same = other.like(total)
        total = total.like(same)
        if total.dtype != same.dtype:
            raise NotTraceable(f"it adds lists of {total.dtype} and of {same.dtype}")
        if total.data is not None and total.data.shape != same.data.shape:
            raise NotTraceable("it adds lists whose elements have different shapes")
        total = total.mapped(lambda data, more=same.data: data + more)
        total = replace(total, is_any_set=_either(total.is_any_set, same.is_any_set))
    return (total,)


def _either(first: Any, second: Any) -> Any:
    """Return whether an element of one of two lists was set; None if that does not matter."""
    return None if first is None or second is None else first | second


def _on_lists_or_tensors(compute: TracedOp) -> Callable[..., Any]:
    """Return the lowering of a tensor op that also accepts lists."""

    def lower(trace: NodeTrace, *_: Any) -> Any:
        if isinstance(trace.inputs[0], Elements):
            return compute(trace.state, trace.inputs, trace.attrs)[0]
        return trace.kernel()

    return lower


def _check_shape(state: State, elements: Elements, value: Any) -> tuple[int, ...] | None:
    """Check that elements can be read with the shape in a tensor; return the static shape."""
    shape = static_shape(value)
    elements.check_declared(shape)
    elements.check_set(state, shape)
    return shape


def _check(state: State, index: Any, elements: Elements, rank: int = 0) -> None:
    if np.ndim(index) != rank:
        raise NotTraceable(f"an index has {np.ndim(index)} dimensions, expected {rank}")
    if elements.length is None and is_outside(index, elements.size):
        raise NotTraceable("an index of a list is out of range")
    guard(state, index, elements.size if elements.length is None else elements.length)


TRACED: Final[Mapping[str, TracedOp]] = {
    "TensorListReserve": _reserve,
    "EmptyTensorList": _empty,
    "TensorListFromTensor": _from_tensor,
    "TensorListSetItem": _set_item,
    "TensorListGetItem": _get_item,
    "TensorListStack": _stack,
    "TensorListGather": _gather,
    "TensorListLength": _length,
    "TensorListElementShape": _element_shape,
    "TensorListPushBack": _push_back,
    "TensorListPopBack": _pop_back,
}
"""By op: a function of state (which it changes), inputs and attrs; it returns all outputs."""

_ON_VALUES: Final = [
    Lowering((op,), _on_lists_or_tensors(compute))
    for op, compute in {"ZerosLike": _zeros_like, "AddN": _add_n}.items()
]
"""Ops on tensors that also accept lists."""

_STATIC: Final = {
    "EmptyTensorList": ("element_shape", "max_num_elements"),
    "TensorListFromTensor": ("element_shape",),
}
"""By op, the inputs that must be static because they determine the size of a list."""

LOWERINGS: Final = LoweringTable(
    [*structure_lowerings(TRACED, _STATIC, (_length,), "element_dtype"), *_ON_VALUES]
)
