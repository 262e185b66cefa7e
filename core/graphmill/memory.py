"""Array memory: aligned for compiled code, and frozen so that arrays can be shared."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from graphmill.errors import ResourceExhaustedError

ALIGNMENT = 64
"""Alignment in bytes with which XLA can use an array without a copy; also a cache line."""


def aligned_empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Return an uninitialized array whose memory is aligned to `ALIGNMENT`.

    The array does not own its memory (`flags.owndata`): its base does, and nothing else references
    the base. Arrays of objects are not aligned.

    Raises:
        ResourceExhaustedError: there is not enough memory.
    """
    nbytes = math.prod(shape) * dtype.itemsize
    try:
        if dtype.hasobject:
            return np.empty(shape, dtype)
        raw = np.empty(nbytes + ALIGNMENT, np.uint8)
    except (MemoryError, ValueError) as error:
        raise ResourceExhaustedError(
            f"cannot allocate {nbytes} bytes for a tensor of {dtype} with shape {shape}"
        ) from error
    return aligned_view(raw, shape, dtype)


def aligned_view(
    raw: np.ndarray[Any, Any], shape: tuple[int, ...], dtype: np.dtype[Any]
) -> np.ndarray[Any, Any]:
    """Return the aligned array within `raw`, a buffer as `aligned_empty` allocates it."""
    nbytes = math.prod(shape) * dtype.itemsize
    shift = -raw.__array_interface__["data"][0] % ALIGNMENT
    return raw[shift : shift + nbytes].view(dtype).reshape(shape)


class TransferredMemory:
    """Memory whose ownership was transferred to one array: nothing else reads or writes it.

    Args:
        owner: object that keeps the memory alive.
        address: address of the memory.
        shape, dtype: shape and dtype of the array.
    """

    __slots__ = ("__array_interface__", "_owner")

    def __init__(
        self, owner: object, address: int, shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> None:
        self._owner = owner
        self.__array_interface__ = {
            "data": (address, False),
            "shape": shape,
            "typestr": dtype.str,
            "version": 3,
        }


def freeze(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Make `array` and its base permanently read-only, and return the array.

    Call it for a new array to which there is no other reference. The array can then be stored and
    shared without a copy (see `is_frozen`).
    """
    array.setflags(write=False)  # three times as fast as through `flags`
    base = array.base
    if isinstance(base, np.ndarray):
        base.setflags(write=False)
    return array


def is_frozen(array: np.ndarray[Any, Any]) -> bool:
    """Return whether `array` is permanently read-only and covers most of its base's memory.

    A small view of a large frozen array does not count, as it would keep the whole base alive.
    """
    base = array.base
    if array.flags.writeable or base is None:
        return base is None and not array.flags.writeable
    is_read_only = isinstance(base, np.ndarray) and not base.flags.writeable and base.base is None
    return is_read_only and 2 * array.nbytes + ALIGNMENT >= base.nbytes
