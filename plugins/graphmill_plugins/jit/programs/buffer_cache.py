"""Record the JAX array whose memory a variable's value aliases.

A value that JAX computed is a view of a JAX array, which the next call can use without a copy. The
variable refers to the array weakly, so the array is freed when the value is replaced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import ref

if TYPE_CHECKING:
    from graphmill.spi import Variable


def remember_array(variable: Variable, view: Any, array: Any) -> None:
    """Record that `view`, which becomes the value of a variable, aliases `array`."""
    if type(view.base) is memoryview:  # the view references the array
        variable.compiler_cache = ref(view), ref(array)
    else:  # NumPy's buffers do not support the type: the view references only the memory
        holder = _Holder(array)
        variable.compiler_cache = ref(view, holder.drop), holder


def array_behind(variable: Variable, value: Any) -> Any:
    """Return the JAX array that a value aliases, or None."""
    cached = variable.compiler_cache
    return cached[1]() if cached is not None and cached[0]() is value else None


class _Holder:
    """Keeps an array alive as long as its view."""

    __slots__ = ("_array",)

    def __init__(self, array: Any) -> None:
        self._array = array

    def __call__(self) -> Any:
        return self._array

    def drop(self, _: object) -> None:
        self._array = None
