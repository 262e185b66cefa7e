"""Aligned and frozen arrays."""

from __future__ import annotations

import numpy as np
import pytest

from graphmill import errors
from graphmill.memory import ALIGNMENT, aligned_empty, freeze, is_frozen


@pytest.mark.parametrize("shape", [(), (0,), (3,), (5, 7)])
@pytest.mark.parametrize("dtype", ["f4", "?", "c16", "i1"])
def test_arrays_are_aligned(shape: tuple[int, ...], dtype: str) -> None:
    array = aligned_empty(shape, np.dtype(dtype))
    assert (array.shape, array.dtype) == (shape, np.dtype(dtype))
    assert not array.size or array.ctypes.data % ALIGNMENT == 0
    array[...] = 0


def test_objects_are_ordinary() -> None:
    assert aligned_empty((2,), np.dtype(object)).tolist() == [None, None]


@pytest.mark.parametrize("dtype", ["f4", "O"])
def test_more_memory_than_available_is_refused(dtype: str) -> None:
    with pytest.raises(errors.ResourceExhaustedError, match="cannot allocate"):
        aligned_empty((1 << 59,), np.dtype(dtype))


def test_frozen_memory_cannot_be_written() -> None:
    array = freeze(aligned_empty((100,), np.dtype("f4")))
    assert is_frozen(array)
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1
    with pytest.raises(ValueError, match="WRITEABLE"):
        array.flags.writeable = True


def test_writable_arrays_and_views_are_not_frozen() -> None:
    own = np.zeros(100)
    assert not is_frozen(own)
    view = own.view()
    view.flags.writeable = False
    assert not is_frozen(view)  # its owner can still write
    small = freeze(np.zeros(100))[:3]
    assert not is_frozen(small)  # would keep all of it


def test_an_array_that_owns_its_memory_can_be_frozen() -> None:
    assert is_frozen(freeze(np.zeros(3)))
