"""Compare one result with the expected one."""

from __future__ import annotations

from typing import Any

import numpy as np


def compare(actual: Any, expected: Any, mode: str, rtol: float, atol: float) -> tuple[float, str]:
    """Return the largest error relative to the tolerance, and a description of the problem or "".

    `mode` is "allclose", "exact", "stats" (mean and deviation only) or "shape".
    """
    if actual.shape != expected.shape:
        return np.inf, f"shape {actual.shape}, expected {expected.shape}"
    if mode == "shape":
        return 0.0, ""
    if actual.dtype.kind in "SUO" or expected.dtype.kind in "SUO":
        same = _as_bytes(actual) == _as_bytes(expected)
        return (0.0, "") if same else (np.inf, "strings differ")
    if actual.dtype != expected.dtype:
        return np.inf, f"dtype {actual.dtype}, expected {expected.dtype}"
    if mode == "exact" or expected.dtype.kind in "iub":
        wrong = int(np.count_nonzero(actual != expected))
        return (np.inf, f"{wrong} of {expected.size} values differ") if wrong else (0.0, "")
    if mode == "stats":
        actual, expected = (
            np.array([x.mean(dtype=float), x.std(dtype=float)]) for x in (actual, expected)
        )
    return _close(_wide(actual), _wide(expected), rtol, atol)


def _close(actual: Any, expected: Any, rtol: float, atol: float) -> tuple[float, str]:
    finite = np.isfinite(expected)
    if not np.array_equal(actual[~finite], expected[~finite], equal_nan=True):
        return np.inf, "infinities or NaNs differ"
    error = np.abs(actual[finite] - expected[finite])
    worst = float((error / (atol + rtol * np.abs(expected[finite]))).max(initial=0.0))
    if worst <= 1:  # false for NaN
        return worst, ""
    return worst, f"largest error {error.max():.3g}, {worst:.3g} of what is allowed"


def _wide(array: Any) -> Any:
    return array.astype(complex if array.dtype.kind == "c" else float)


def _as_bytes(array: Any) -> list[bytes]:
    return [x if isinstance(x, bytes) else str(x).encode() for x in array.ravel().tolist()]
