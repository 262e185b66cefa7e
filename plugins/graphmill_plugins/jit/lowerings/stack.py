"""Lower stacks, to which loops push values for their gradients: their elements are in the state.

Semantics: tensorflow/core/kernels/stack.cc. The capacity is the maximum trip count of the loop
(`loops.trace_while`); `static_values.GUARD` fails if it is exceeded.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill_plugins.jit.ir.errors import NotTraceable
from graphmill_plugins.jit.lowerings.structure import structure_lowerings
from graphmill_plugins.jit.tracing.elements import Elements
from graphmill_plugins.jit.tracing.static_values import GUARD, guard, is_static, static_int

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphmill_plugins.jit.lowerings.tensor_array import State, TracedOp

_numbers = count()


@dataclass(frozen=True, slots=True)
class StackHandle:
    """The handle of a stack: the key of its elements in the state."""

    number: int


def _make(state: State, inputs: Sequence[Any], attrs: Mapping[str, Any]) -> tuple[Any, ...]:
    dtype = np.dtype(attrs["elem_type"].as_numpy_dtype)
    if dtype.hasobject:
        raise NotTraceable("a stack holds strings or handles")
    size = -1 if not is_static(inputs[0]) else static_int(inputs[0], "the size of a stack")
    handle = StackHandle(next(_numbers))
    state[handle] = Elements(dtype, None, np.int32(0), size, may_grow=True, is_bounded=size >= 0)
    return (handle,)


def _push(state: State, inputs: Sequence[Any], attrs: Mapping[str, Any]) -> tuple[Any, ...]:
    del attrs
    handle, value = inputs
    elements = _open(state, handle)
    if elements.size >= 0:
        if GUARD not in state:
            raise NotTraceable("a stack may overflow undetected")
        guard(state, elements.length, elements.size)
    state[handle] = elements.pushed(value)
    return (value,)


def _pop(state: State, inputs: Sequence[Any], attrs: Mapping[str, Any]) -> tuple[Any, ...]:
    del attrs
    handle = inputs[0]
    elements = _open(state, handle)
    guard(state, elements.length - np.int32(1), np.iinfo(np.int32).max)
    value, state[handle] = elements.popped()
    return (value,)


def _close(state: State, inputs: Sequence[Any], attrs: Mapping[str, Any]) -> tuple[Any, ...]:
    del attrs
    state.pop(inputs[0], None)
    return ()


def _open(state: State, handle: StackHandle) -> Elements:
    elements: Elements | None = state.get(handle)
    if elements is None:
        raise NotTraceable("a stack is used after it was closed")
    return elements


TRACED: Final[Mapping[str, TracedOp]] = {
    "StackV2": _make,
    "StackPushV2": _push,
    "StackPopV2": _pop,
    "StackCloseV2": _close,
}
"""By op: a function of state (which it changes), inputs and attrs; it returns all outputs."""

LOWERINGS: Final = structure_lowerings(
    TRACED, static={"StackV2": ("max_size",)}, element_type="elem_type"
)
