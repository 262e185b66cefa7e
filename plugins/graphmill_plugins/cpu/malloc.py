"""Have the C library keep what one step frees for the next one (decision 0015)."""

from __future__ import annotations

import os
import sys
from functools import cache
from typing import Final

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h
_KEPT: Final = 256 << 20  # bytes that are free at the end of the heap and not given back
_ON_THE_HEAP: Final = (
    128 << 20,
    32 << 20,
)  # up to this size; older versions refuse more than 32 MB
_USERS_CHOICE: Final = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_")


@cache
def keep_freed_memory() -> bool:
    """Set glibc's thresholds once for the process; return whether that was done.

    It is not done with another C library, nor where the environment has settings of its own.
    """
    if sys.platform != "linux" or _is_set_by_user():
        return False
    import ctypes  # NumPy has loaded it

    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return any(mallopt(_M_MMAP_THRESHOLD, size) for size in _ON_THE_HEAP) and bool(
        mallopt(_M_TRIM_THRESHOLD, _KEPT)
    )


def _is_set_by_user() -> bool:
    tunables = os.environ.get("GLIBC_TUNABLES", "")
    return "glibc.malloc" in tunables or any(name in os.environ for name in _USERS_CHOICE)
