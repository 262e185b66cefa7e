"""Detect elements of tensor arrays that are read or written once too often, or too early.

The marks of a tensor array say which elements were written and read. They are static as long as all
indices are. A loop carries them as an array of bytes, and a misuse there fails
`static_values.GUARD`, so that the interpreter runs the nodes again and reports it.

Where an array grows in a loop or at an index that is not static, its new elements have no marks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill_plugins._jax import jax_module
from graphmill_plugins.jit.ir.errors import NotTraceable
from graphmill_plugins.jit.tracing.elements import is_all
from graphmill_plugins.jit.tracing.static_values import GUARD, is_static

if TYPE_CHECKING:
    from collections.abc import Hashable

    from graphmill_plugins.jit.lowerings.tensor_array import TensorArrayHandle

    State = dict[Hashable, Any]

_WRITTEN: Final = 1
_READ: Final = 2


@dataclass(frozen=True, slots=True)
class ElementMarks:
    """State key of the marks of a tensor array: a `uint8` for each element, a sum of flags.

    Attributes:
        handle: the tensor array.
        is_summary: whether it is the key of a bool instead: whether any element was written.
    """

    handle: TensorArrayHandle
    is_summary: bool = False

    @property
    def forward(self) -> ElementMarks | None:
        """The key of the array whose gradients this one accumulates, if any."""
        forward = self.handle.forward
        return None if forward is None else ElementMarks(forward, self.is_summary)


@dataclass(frozen=True, slots=True)
class _Rule:
    """What the marks of an element must be, and what an operation adds to them.

    Attributes:
        forbidden, required: flags that an element must not have, or must have.
        added: flags that it has afterwards.
        is_excused: whether the required flags are not needed, as a traced or static bool.
    """

    forbidden: int
    added: int
    required: int = 0
    is_excused: Any = np.False_

    @property
    def is_once(self) -> bool:
        """Whether the operation cannot be done to one element twice."""
        return bool(self.forbidden & self.added)

    def holds(self, marks: Any) -> Any:
        """Return whether the operation may be done to elements with these marks, one by one."""
        is_allowed = (marks & np.uint8(self.forbidden)) == 0
        if not self.required:
            return is_allowed
        return is_allowed & (((marks & np.uint8(self.required)) != 0) | self.is_excused)

    def after(self, marks: Any) -> Any:
        """Return the marks after the operation."""
        return marks | np.uint8(self.added)


def start_marks(state: State, handle: TensorArrayHandle, size: int) -> None:
    """Add the marks of a new array, whose elements are neither written nor read."""
    if GUARD in state:
        state[ElementMarks(handle)] = np.zeros(size, np.uint8)
        state[ElementMarks(handle, is_summary=True)] = np.bool_(False)


def note_write(state: State, handle: TensorArrayHandle, indices: Any) -> None:
    """Note that elements are written, which may be done once unless they are added up.

    Raises:
        NotTraceable: one of them was written or read before; the kernel reports it.
    """
    _note(state, handle, indices, _Rule(_READ if handle.adds else _READ | _WRITTEN, _WRITTEN))
    summary = ElementMarks(handle, is_summary=True)
    is_known = is_static(state.get(summary, np.True_)) and state.get(summary, np.True_)
    if np.size(indices) and not is_known:
        state[summary] = np.True_


def note_read(
    state: State, handle: TensorArrayHandle, indices: Any, *, has_shape: bool = False
) -> None:
    """Note that elements are read, which may be done once if this clears them.

    Args:
        state: the state, which is changed.
        handle: the array.
        indices: the index or indices.
        has_shape: whether the shape of an element that was not written is known; such an element
            is zero.

    Raises:
        NotTraceable: one of them was cleared, or has no value; the kernel reports it.
    """
    forbidden = _READ if handle.clears else 0
    if has_shape or handle.adds:  # gradients are zero where nothing was added
        rule = _Rule(forbidden, _READ)
    else:
        summary = state.get(ElementMarks(handle, is_summary=True), np.False_)
        rule = _Rule(forbidden, _READ, _WRITTEN, summary if handle.has_one_shape else np.False_)
    _note(state, handle, indices, rule)


def _note(state: State, handle: TensorArrayHandle, indices: Any, rule: _Rule) -> None:
    key = ElementMarks(handle)
    marks = state.get(key)
    if marks is None:
        return
    if is_static(marks) and is_static(indices) and is_static(rule.is_excused):
        state[key] = _noted(marks, np.ravel(indices), rule)
    elif marks.size:
        holds, state[key] = _traced(jax_module().numpy.asarray(marks), indices, rule)
        state[GUARD] = state[GUARD] & holds


def _noted(marks: Any, indices: Any, rule: _Rule) -> Any:
    """Return static marks after an operation, and after an array of dynamic size has grown."""
    missing = int(indices.max(initial=-1)) + 1 - marks.size
    marks = np.pad(marks, (0, max(missing, 0)))
    is_repeated = rule.is_once and np.unique(indices).size < indices.size
    if is_repeated or not np.all(rule.holds(marks[indices])):
        raise NotTraceable(
            "it reads an element of a tensor array after it was cleared or before it was written, "
            "or writes one twice"
        )
    marks[indices] = rule.after(marks[indices])
    return marks


def _traced(marks: Any, indices: Any, rule: _Rule) -> tuple[Any, Any]:
    """Return whether an operation may be done, and the marks after it."""
    numpy, lax = jax_module().numpy, jax_module().lax
    if is_all(indices, marks.size):
        return rule.holds(marks).all(), rule.after(marks)
    has_mark = indices < marks.size
    if np.ndim(indices) == 0:
        # The new mark depends on the old one, so that XLA can update the array in place.
        old = lax.dynamic_index_in_dim(marks, indices, 0, keepdims=False)
        new = numpy.where(has_mark, rule.after(old), old)
        after = lax.dynamic_update_index_in_dim(marks, new, indices, 0)
        return rule.holds(old) | ~has_mark, after
    old = numpy.take(marks, indices, mode="clip")
    holds = (rule.holds(old) | ~has_mark).all()
    if rule.is_once:
        holds &= numpy.all(numpy.diff(numpy.sort(indices)) != 0)
    return holds, marks.at[indices].set(rule.after(old), mode="drop")
