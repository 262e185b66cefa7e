"""Align large arrays so that JAX can use them without a copy."""

from __future__ import annotations

from typing import Any, Final

from graphmill.spi.compilers import ALIGNMENT, aligned_empty

COPIED_LATER: Final = 100 << 10
"""Bytes from which JAX copies in the background what is not aligned."""


def aligned(value: Any) -> Any:
    """Return a large array aligned for JAX, copied only if necessary.

    JAX itself would copy it in the background, and then compute in another thread, too, with
    memory of that thread: large blocks of it are given back to the system after each step.
    """
    if value.nbytes < COPIED_LATER:
        return value
    if value.flags.c_contiguous and not value.__array_interface__["data"][0] % ALIGNMENT:
        return value
    copy = aligned_empty(value.shape, value.dtype)
    copy[...] = value
    return copy
