"""Compiled steps receive large inputs in aligned memory, which JAX uses without a copy (S6)."""

from __future__ import annotations

import numpy as np
import pytest

from graphmill.memory import ALIGNMENT, aligned_empty
from graphmill_plugins.jit.programs.memory import COPIED_LATER, aligned

SIZE = COPIED_LATER  # elements of one byte


def shifted(size: int, shift: int) -> np.ndarray:
    memory = aligned_empty((size + shift,), np.dtype(np.uint8))[shift:]
    memory[...] = np.arange(size) % 251
    return memory


def test_a_large_array_that_is_not_aligned_is_copied():
    value = shifted(SIZE, 16)
    got = aligned(value)
    assert got is not value
    assert got.ctypes.data % ALIGNMENT == 0
    assert np.array_equal(got, value)


def test_a_large_array_that_is_not_contiguous_is_copied():
    value = shifted(2 * SIZE, 0)[::2]
    got = aligned(value)
    assert got.flags.c_contiguous
    assert np.array_equal(got, value)


@pytest.mark.parametrize(("size", "shift"), [(SIZE, 0), (SIZE - 1, 16)])
def test_others_are_taken_as_they_are(size, shift):
    value = shifted(size, shift)
    assert aligned(value) is value


def test_scalars_are_taken_too():
    value = np.float32(1)
    assert aligned(value) is value
