"""`Statistics`: a summary of the elements of a tensor, for values too large to read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.dtypes import as_dtype

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Statistics:
    """The elements of a numeric tensor.

    Attributes:
        num_elements: how many there are.
        num_nan, num_inf, num_zero: how many are NaN, infinite and zero.
        minimum, maximum, mean, std: those of the finite elements, as floats; None if there are
            none. For complex numbers, those of their absolute values.
    """

    num_elements: int
    num_nan: int = 0
    num_inf: int = 0
    num_zero: int = 0
    minimum: float | None = None
    maximum: float | None = None
    mean: float | None = None
    std: float | None = None

    @property
    def is_finite(self) -> bool:
        """Whether no element is NaN or infinite."""
        return not (self.num_nan or self.num_inf)

    def __str__(self) -> str:
        parts = []
        if self.minimum is not None:
            parts.append(
                f"min {self.minimum:.6g}, max {self.maximum:.6g}, mean {self.mean:.6g}, "
                f"std {self.std:.6g}"
            )
        counts = (("NaN", self.num_nan), ("Inf", self.num_inf), ("zero", self.num_zero))
        parts += [f"{count} {name}" for name, count in counts if count]
        return ", ".join(parts) or "no elements"


def statistics_of(array: NDArray[Any]) -> Statistics | None:
    """Return the statistics of an array; None if its elements are not numbers.

    Args:
        array: an array of any shape and type.
    """
    numbers = _as_numbers(array)
    if numbers is None:
        return None
    if not numbers.size:
        return Statistics(0)
    with np.errstate(all="ignore"):
        is_nan, is_inf = np.isnan(numbers), np.isinf(numbers)
        finite = numbers[~(is_nan | is_inf)]
        nan, inf, zero = (int(np.count_nonzero(x)) for x in (is_nan, is_inf, numbers == 0))
        if not finite.size:
            return Statistics(numbers.size, nan, inf, zero)
        if finite.dtype.kind == "c":
            finite = np.abs(finite)
        ends = float(finite.min()), float(finite.max())
        # Converted first: a sum of float16 overflows, and one of integers wraps.
        wide = finite.astype(np.float64)
        return Statistics(
            numbers.size, nan, inf, zero, *ends, float(wide.mean()), float(wide.std())
        )


def is_finite(array: NDArray[Any]) -> bool:
    """Return whether no element of an array is NaN or infinite; true if it has no floats."""
    if array.dtype.kind in "iubOSU":
        return True
    numbers = _as_numbers(array)
    with np.errstate(all="ignore"):
        return numbers is None or bool(np.isfinite(numbers).all())


def _as_numbers(array: NDArray[Any]) -> NDArray[Any] | None:
    """Return an array in a type that NumPy computes with; None if its elements are not numbers."""
    kind = array.dtype.kind
    if kind in "iufc":
        return array
    if kind == "b":
        return array.astype(np.uint8)
    if kind == "O" or kind in "SU":
        return None
    try:
        dtype = as_dtype(array.dtype)
    except TypeError:
        return None
    if dtype.is_floating:  # bfloat16 and the floats of 8 bits
        return array.astype(np.float32)
    return array.astype(np.int64) if dtype.is_integer else None
