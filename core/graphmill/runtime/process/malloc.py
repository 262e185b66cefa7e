"""Make the C library reuse the memory that one step frees in the next step (decision 0015)."""

from __future__ import annotations

import os
import sys
from functools import cache
from typing import Any, Final

from graphmill.runtime.process import effects

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h
_MAX_FREE_BYTES: Final = 256 << 20  # bytes that are free at the end of the heap and not returned
_ON_THE_HEAP: Final = (
    128 << 20,
    32 << 20,
)  # up to this size; older versions refuse more than 32 MB
_VARIABLES: Final = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_")


@cache
def keep_freed_memory() -> bool:
    """Let glibc keep freed memory for reuse, once for the process; return whether it does."""
    if not effects.MALLOC.is_enabled or why_not():
        return False
    mallopt = _mallopt()
    return any(mallopt(_M_MMAP_THRESHOLD, size) for size in _ON_THE_HEAP) and bool(
        mallopt(_M_TRIM_THRESHOLD, _MAX_FREE_BYTES)
    )


def why_not() -> str:
    """Return why the thresholds are not set in this process; "" if they are."""
    if sys.platform != "linux" or _mallopt() is None:
        return "the C library is not glibc"
    return _setting_of_user()


def _mallopt() -> Any:
    import ctypes  # NumPy has loaded it

    return getattr(ctypes.CDLL(None), "mallopt", None)


def _setting_of_user() -> str:
    for name in _VARIABLES:
        if name in os.environ:
            return f"the environment sets {name}"
    tunables = os.environ.get("GLIBC_TUNABLES", "")
    return "GLIBC_TUNABLES configures malloc" if "glibc.malloc" in tunables else ""
