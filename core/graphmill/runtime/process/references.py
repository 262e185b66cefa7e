"""Count references, to tell whether an array is held by nobody else and may be written to.

What a count is where only one object holds an array is measured and not written down, because
interpreters differ in how many references a call takes.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from graphmill.runtime.process import effects

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np


def counts_prove_ownership() -> bool:
    """Return whether a low count proves that nobody else holds an object.

    It does not without the GIL, where another thread may be taking a reference at this moment.
    """
    return effects.REFERENCE_COUNTS.is_enabled and effects.has_gil()


def references_from(slot: Any, owner: Any) -> int:
    """Return how many references there are to what a slot (a descriptor) of an object holds."""
    return sys.getrefcount(slot.__get__(owner))


def references_in(objects: Sequence[Any], index: int) -> int:
    """Return how many references there are to an element of a list."""
    return sys.getrefcount(objects[index])


def references_to(array: np.ndarray[Any, Any]) -> tuple[int, int]:
    """Return how many references there are to an array, and to the array that it is a view of."""
    base = array.base
    return sys.getrefcount(array), 0 if base is None else sys.getrefcount(base)
