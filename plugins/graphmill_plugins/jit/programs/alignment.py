"""Align large arrays so that JAX can use them without a copy."""

from __future__ import annotations

from typing import Any, Final

from graphmill.spi.compilers import ALIGNMENT, aligned_empty

COPIED_LATER: Final = 100 << 10
"""Size in bytes from which JAX copies unaligned arrays in the background."""


def aligned(value: Any) -> Any:
    """Return a large array aligned for JAX, copied only if necessary.

    JAX would copy it in the background and then also compute in another thread. Large blocks of
    that thread's memory are returned to the system after each step.
    """
    if value.nbytes < COPIED_LATER:
        return value
    if value.flags.c_contiguous and not value.__array_interface__["data"][0] % ALIGNMENT:
        return value
    copy = aligned_empty(value.shape, value.dtype)
    copy[...] = value
    return copy
