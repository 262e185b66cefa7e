"""Compare one result with the expected one."""

from __future__ import annotations

from typing import Any

import numpy as np


def compare(have: Any, want: Any, mode: str, rtol: float, atol: float) -> tuple[float, str]:
    """Return the largest error relative to the tolerance, and a description of the problem or "".

    `mode` is "allclose", "exact", "stats" (mean and deviation only) or "shape".
    """
    if have.shape != want.shape:
        return np.inf, f"shape {have.shape}, expected {want.shape}"
    if mode == "shape":
        return 0.0, ""
    if have.dtype.kind in "SUO" or want.dtype.kind in "SUO":
        same = _as_bytes(have) == _as_bytes(want)
        return (0.0, "") if same else (np.inf, "strings differ")
    if have.dtype != want.dtype:
        return np.inf, f"dtype {have.dtype}, expected {want.dtype}"
    if mode == "exact" or want.dtype.kind in "iub":
        wrong = int(np.count_nonzero(have != want))
        return (np.inf, f"{wrong} of {want.size} values differ") if wrong else (0.0, "")
    if mode == "stats":
        have, want = (np.array([x.mean(dtype=float), x.std(dtype=float)]) for x in (have, want))
    return _close(_wide(have), _wide(want), rtol, atol)


def _close(have: Any, want: Any, rtol: float, atol: float) -> tuple[float, str]:
    finite = np.isfinite(want)
    if not np.array_equal(have[~finite], want[~finite], equal_nan=True):
        return np.inf, "infinities or NaNs differ"
    error = np.abs(have[finite] - want[finite])
    worst = float((error / (atol + rtol * np.abs(want[finite]))).max(initial=0.0))
    if worst <= 1:  # false for NaN
        return worst, ""
    return worst, f"largest error {error.max():.3g}, {worst:.3g} of what is allowed"


def _wide(array: Any) -> Any:
    return array.astype(complex if array.dtype.kind == "c" else float)


def _as_bytes(array: Any) -> list[bytes]:
    return [x if isinstance(x, bytes) else str(x).encode() for x in array.ravel().tolist()]
