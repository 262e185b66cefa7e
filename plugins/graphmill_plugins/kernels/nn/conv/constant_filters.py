"""Cache what a kernel computes from a constant filter, for as long as the filter lives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar
from weakref import ref

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Array = NDArray[Any]

Result = TypeVar("Result")


def never_changes(array: Array) -> bool:
    """Return whether no one can write to the memory of an array: it is frozen, or of `bytes`.

    The values of constants are such arrays, those of variables are not.
    """
    owner: Any = array
    while isinstance(owner, np.ndarray):
        if owner.flags.writeable:
            return False
        owner = owner.base
    return owner is None or isinstance(owner, bytes)


class FilterCache(Generic[Result]):
    """Results of a function of filters, each kept until the filter is freed.

    Filters that may change are computed anew in each call.

    Threads: any thread may call `get`. Two that miss at once both compute; the results are equal.

    Args:
        compute: the function of a filter.
    """

    def __init__(self, compute: Callable[[Array], Result]) -> None:
        self._compute = compute
        self._entries: dict[int, tuple[ref[Array], Result]] = {}

    def get(self, kernel: Array) -> Result:
        """Return the function's result for a filter."""
        key = id(kernel)
        entry = self._entries.get(key)
        if entry is not None and entry[0]() is kernel:
            return entry[1]
        result = self._compute(kernel)
        if never_changes(kernel):
            entries = self._entries
            self._entries[key] = ref(kernel, lambda _: entries.pop(key, None)), result
        return result

    def __len__(self) -> int:
        return len(self._entries)
