"""Batched fingerprints equal single ones."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphmill import errors
from graphmill.runtime.steps.step_runner import running
from graphmill_plugins.kernels.string._fingerprint import fingerprints
from graphmill_plugins.kernels.string.hash import fingerprint64, hash64

if TYPE_CHECKING:
    from collections.abc import Callable


@given(st.lists(st.binary(max_size=90), max_size=40))
def test_batch_equals_single_calls(items: list[bytes]) -> None:
    assert fingerprints(items, fingerprint64).tolist() == [fingerprint64(item) for item in items]


def test_every_short_length_has_its_fingerprint() -> None:
    items = [bytes(range(1, size + 1)) for size in range(100)]
    assert fingerprints(items, fingerprint64).tolist() == [fingerprint64(item) for item in items]


def test_long_strings_have_their_fingerprints() -> None:
    sizes = [0, 63, 64, 65, 127, 128, 129, 191, 192, 193, 500, 1023, 1024, 1025, 3000]
    items = [bytes(index * size % 251 for index in range(size)) for size in sizes]
    assert fingerprints(items, fingerprint64).tolist() == [fingerprint64(item) for item in items]


def test_few_long_strings_are_hashed_as_one_by_one(call: Callable[..., Any]) -> None:
    items = [bytes([index]) * (100 + index) for index in range(9)]
    got = call("StringToHashBucketFast", np.array(items, object), num_buckets=1 << 40)
    assert got.tolist() == [fingerprint64(item) % (1 << 40) for item in items]


def test_the_result_is_unsigned() -> None:
    assert fingerprints([b"a", b"b"], fingerprint64).dtype == np.uint64


@pytest.mark.parametrize("function", [fingerprint64, hash64])
def test_hashing_a_long_string_ends_when_the_step_is_cancelled(
    function: Callable[[bytes], int],
) -> None:
    """A string of 64 KiB has the hash of its blocks; hashing it stops between blocks."""
    text = bytes(1 << 17)
    assert function(text) == function(bytes(1 << 17))
    with running(SimpleNamespace(is_cancelled=True)), pytest.raises(errors.CancelledError):
        function(text)


def test_many_rows_have_the_fingerprints_of_single_ones(call: Callable[..., Any]) -> None:
    rows = np.arange(300, dtype=np.int64).reshape(100, 3)
    got = call("Fingerprint", rows, np.array(b"farmhash64", object))
    expected = [fingerprint64(row.tobytes()).to_bytes(8, "little") for row in rows]
    assert [bytes(row) for row in got] == expected
