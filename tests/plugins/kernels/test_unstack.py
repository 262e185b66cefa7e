"""Elements that queues store are copied from their tensors (clause S10)."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from graphmill import dtypes
from graphmill.errors import CancelledError
from graphmill.runtime.steps.step_runner import running
from graphmill_plugins.kernels.unstack import copied_rows


@pytest.mark.parametrize("shape", [(0, 3), (5,), (700, 3), (3, 5000), (4, 0), (2, 3, 4)])
def test_copied_rows_own_their_memory(shape: tuple[int, ...]) -> None:
    tensor = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    before = tensor.copy()
    found = copied_rows(tensor, dtypes.float32)
    tensor[...] = -1
    assert len(found) == len(before)
    for one, row in zip(found, before, strict=True):
        np.testing.assert_array_equal(one, row)
        assert np.shape(one) == row.shape


def test_retained_row_does_not_pin_the_whole_array() -> None:
    small = copied_rows(np.ones((10_000, 2), np.float32), dtypes.float32)
    large = copied_rows(np.ones((10, 20_000), np.float32), dtypes.float32)
    assert small[7].base.nbytes <= 4_096
    assert large[7].base.nbytes == large[7].nbytes


def test_strings_of_a_vector_are_arrays_without_axes() -> None:
    texts = np.array([b"a", b"bc"], object)
    found = copied_rows(texts, dtypes.string)
    texts[...] = b""
    assert [one.shape for one in found] == [(), ()]
    assert [one.item() for one in found] == [b"a", b"bc"]


def test_copy_of_many_rows_ends_when_the_step_is_cancelled() -> None:
    with running(SimpleNamespace(is_cancelled=True)), pytest.raises(CancelledError):
        copied_rows(np.ones((10_000, 2), np.float32), dtypes.float32)
