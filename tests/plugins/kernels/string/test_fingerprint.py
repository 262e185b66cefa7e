"""Batched fingerprints equal single ones."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from graphmill_plugins.kernels.string._fingerprint import fingerprints
from graphmill_plugins.kernels.string.hash import fingerprint64


@given(st.lists(st.binary(max_size=90), max_size=40))
def test_many_are_as_one_by_one(items: list[bytes]) -> None:
    assert fingerprints(items, fingerprint64).tolist() == [fingerprint64(item) for item in items]


def test_every_length_up_to_the_longest() -> None:
    items = [bytes(range(1, size + 1)) for size in range(100)]
    assert fingerprints(items, fingerprint64).tolist() == [fingerprint64(item) for item in items]


def test_the_result_is_unsigned() -> None:
    assert fingerprints([b"a", b"b"], fingerprint64).dtype == np.uint64
