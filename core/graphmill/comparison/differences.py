"""`TensorDifference`: how two values of a tensor differ, in units in the last place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.dtypes import as_dtype
from graphmill.errors import InvalidArgumentError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Which differences of floats are accepted; all other types must be equal.

    A value `a` and a reference `b` agree if `|a - b| <= atol + rtol * |b|`, as in
    `numpy.testing.assert_allclose`, or if they are at most `ulps` units in the last place apart.
    NaN agrees with NaN, and an infinity with itself.

    Raises:
        InvalidArgumentError: a bound is negative or not a number.
    """

    rtol: float = 1e-5
    atol: float = 1e-6
    ulps: float = 0.0

    def __post_init__(self) -> None:
        for name in ("rtol", "atol", "ulps"):
            if not getattr(self, name) >= 0:
                raise InvalidArgumentError(
                    f"{name} is {getattr(self, name)}; expected a number of at least 0"
                )


@dataclass(frozen=True, slots=True)
class TensorDifference:
    """The difference of two values of a tensor; the second one is the reference.

    Attributes:
        tensor: the name of the tensor.
        op: the op of its node; "" if unknown.
        reason: why the values cannot be compared element by element, such as other shapes; else "".
        size: the number of elements.
        num_outside: how many elements are outside of the tolerance.
        max_ulps: the largest difference in units in the last place of the reference's type.
        max_abs: the largest absolute difference.
        index: the position of the element with the largest difference in units in the last place.
        a, b: this element in both values, as text.
    """

    tensor: str
    op: str = ""
    reason: str = ""
    size: int = 0
    num_outside: int = 0
    max_ulps: float = 0.0
    max_abs: float = 0.0
    index: tuple[int, ...] = ()
    a: str = ""
    b: str = ""

    @property
    def is_outside(self) -> bool:
        """Whether any element is outside of the tolerance."""
        return bool(self.reason or self.num_outside)

    def __str__(self) -> str:
        name = f"{self.tensor} ({self.op})" if self.op else self.tensor
        if self.reason:
            return f"{name}: {self.reason}"
        if not self.max_ulps:
            return f"{name}: equal"
        where = f" at {list(self.index)}" if self.index else ""
        return (
            f"{name}: {self.num_outside} of {self.size} elements outside of the tolerance; at most "
            f"{self.max_ulps:.3g} units in the last place{where}: {self.a} and {self.b}"
        )


def difference_of(
    tensor: str, value: ArrayLike, reference: ArrayLike, tolerance: Tolerance, op: str = ""
) -> TensorDifference:
    """Compare a value of a tensor with a reference value.

    Args:
        tensor: the name of the tensor, for the result.
        value, reference: the two values.
        tolerance: which differences of floats are accepted.
        op: the op of its node, for the result.
    """
    a, b = np.asarray(value), np.asarray(reference)
    if a.shape != b.shape:
        reason = f"the shapes are {list(a.shape)} and {list(b.shape)}"
        return TensorDifference(tensor, op, reason, b.size)
    if (a.dtype != b.dtype) and not {a.dtype.kind, b.dtype.kind} <= set("OSU"):
        return TensorDifference(tensor, op, f"the types are {a.dtype} and {b.dtype}", b.size)
    if not b.size:
        return TensorDifference(tensor, op)
    shape = b.shape
    a, b = a.reshape(-1), b.reshape(-1)
    distances = _distances(a, b)
    outside = (distances > tolerance.ulps) & ~_is_close(a, b, tolerance)
    worst = int(np.argmax(distances))
    return TensorDifference(
        tensor,
        op,
        size=b.size,
        num_outside=int(np.count_nonzero(outside)),
        max_ulps=float(distances[worst]),
        max_abs=_largest_difference(a, b, distances == 0),
        index=tuple(int(number) for number in np.unravel_index(worst, shape)),
        a=_text(a[worst]),
        b=_text(b[worst]),
    )


def units_in_last_place(a: ArrayLike, b: ArrayLike) -> NDArray[np.float64]:
    """Return each element's difference in units in the last place, as float64.

    NaN is equal to NaN, zeros of both signs are equal, and NaN is infinitely far from a number. The
    distance of complex numbers is the larger one of their parts'. Integers differ by their
    difference; booleans, strings and other objects by 0 or 1.

    Args:
        a, b: arrays of one shape and type.
    """
    left, right = np.asarray(a), np.asarray(b)
    return _distances(left.reshape(-1), right.reshape(-1)).reshape(left.shape)


def _distances(a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.float64]:
    """Return the distances of arrays of one dimension."""
    if a.dtype.kind == "c":
        return np.maximum(_float_distance(a.real, b.real), _float_distance(a.imag, b.imag))
    if _is_float(a.dtype):
        return _float_distance(a, b)
    if a.dtype.kind in "iu":
        distance = np.abs(a.astype(np.float64) - b.astype(np.float64))
        return np.where(distance == 0, a != b, distance)  # large integers may round together
    return np.asarray(a != b, np.float64)


def _float_distance(a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.float64]:
    left, right = _rank(a), _rank(b)
    distance = np.where(left > right, left - right, right - left).astype(np.float64)
    nan_a, nan_b = np.isnan(a), np.isnan(b)
    return np.where(nan_a | nan_b, np.where(nan_a & nan_b, 0.0, np.inf), distance)


def _rank(values: NDArray[Any]) -> NDArray[np.uint64]:
    """Return the index of each number in the sorted sequence of all numbers of its type."""
    contiguous = np.ascontiguousarray(values)
    bits = contiguous.view(f"i{values.dtype.itemsize}").astype(np.int64)
    # Negative numbers are stored as sign and magnitude; both zeros have one position.
    lowest = -(1 << (8 * values.dtype.itemsize - 1))
    ordered = np.where(bits < 0, lowest - bits, bits)
    return ordered.astype(np.uint64) ^ np.uint64(1 << 63)


def _is_float(dtype: np.dtype[Any]) -> bool:
    # bfloat16 and the floats of 8 bits are not NumPy's own.
    return dtype.kind == "f" or (dtype.kind == "V" and as_dtype(dtype).is_floating)


def _is_close(a: NDArray[Any], b: NDArray[Any], tolerance: Tolerance) -> NDArray[np.bool_]:
    if not (_is_float(b.dtype) or b.dtype.kind == "c"):
        return np.asarray(a == b, bool)
    wide = np.complex128 if b.dtype.kind == "c" else np.float64
    with np.errstate(invalid="ignore"):  # bfloat16 warns about NaN
        left, right = a.astype(wide), b.astype(wide)
    result: NDArray[np.bool_] = np.isclose(
        left, right, tolerance.rtol, tolerance.atol, equal_nan=True
    )
    return result


def _largest_difference(a: NDArray[Any], b: NDArray[Any], is_equal: NDArray[np.bool_]) -> float:
    if b.dtype.kind not in "iufc" and not _is_float(b.dtype):
        return 0.0
    wide = np.complex128 if b.dtype.kind == "c" else np.float64
    with np.errstate(invalid="ignore"):
        differences = np.abs(a.astype(wide) - b.astype(wide))
    differences[is_equal] = 0.0  # infinities, and NaN in both
    return float(np.nan_to_num(differences, nan=np.inf).max())


def _text(element: Any) -> str:
    return repr(element.item() if isinstance(element, np.generic) else element)
