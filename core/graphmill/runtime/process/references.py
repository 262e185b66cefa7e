"""Count references, to determine whether an array has no other holder and may be overwritten.

The count of an array with a single holder is measured, because interpreters differ in the number of
references that a call takes.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from graphmill.runtime.process import effects

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np


def counts_prove_ownership() -> bool:
    """Return whether a low count proves that an object has no other holder.

    Without the GIL it does not: another thread may be taking a reference at the same moment.
    """
    return effects.REFERENCE_COUNTS.is_enabled and effects.has_gil()


def references_from(slot: Any, owner: Any) -> int:
    """Return the number of references to the value of a slot (a descriptor) of an object."""
    return sys.getrefcount(slot.__get__(owner))


def references_in(objects: Sequence[Any], index: int) -> int:
    """Return the number of references to an element of a list."""
    return sys.getrefcount(objects[index])


def references_to(array: np.ndarray[Any, Any]) -> tuple[int, int]:
    """Return the numbers of references to an array, and to the array that it is a view of."""
    base = array.base
    return sys.getrefcount(array), 0 if base is None else sys.getrefcount(base)
