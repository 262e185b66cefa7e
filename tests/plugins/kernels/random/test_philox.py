"""All implementations of the generator return the same numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphmill_plugins.kernels.random import _philox

WORD = st.integers(0, (1 << 64) - 1)


@given(WORD, WORD, WORD, st.integers(1, 40))
def test_small_counter_batches_match_one_large_batch(
    key: int, low: int, high: int, count: int
) -> None:
    generator = _philox.Philox(key, low, high)
    many = _philox.blocks(np, generator, np.arange(64, dtype=np.uint64))
    few = [
        _philox.blocks(np, generator, np.arange(n, min(n + 3, 64), dtype=np.uint64))
        for n in range(0, 64, 3)
    ]
    np.testing.assert_array_equal(np.concatenate(few), many)
    np.testing.assert_array_equal(_philox.samples(np, generator, count), many.reshape(-1)[:count])


@given(WORD, WORD, WORD, st.integers(0, (1 << 63)))
def test_numbers_of_numpy_are_skipped_as_those_of_python_are(
    key: int, low: int, high: int, count: int
) -> None:
    expected = _philox.Philox(key, low, high).skip(count)
    with np.errstate(over="ignore"):
        found = _philox.Philox(key, np.uint64(low), np.uint64(high)).skip(count)
    assert (int(found.low), int(found.high)) == (expected.low, expected.high)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_pieces_for_several_threads_fit_together(dtype: str) -> None:
    generator, kind = _philox.seeded(3, 4), np.dtype(dtype)
    count = 5 * _philox._CHUNK + 7  # several chunks for each type
    for draw in (_philox.uniform, _philox.normal):
        whole = draw(np, generator, count, kind)
        assert whole.shape == (count,)
        size = 2 if kind.itemsize == 8 else 4
        for group in (0, _philox._CHUNK - 1, _philox._CHUNK, count // size - 5):
            later = generator.skip(group)
            np.testing.assert_array_equal(
                draw(np, later, 9, kind), whole[group * size : group * size + 9]
            )


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("count", [0, 1, 5, 1000])
def test_few_truncated_normals_equal_those_drawn_by_counter(dtype, count, monkeypatch):
    generators = [
        _philox.Philox(key, 1, 2) for key in range(12)
    ]  # some groups need a third counter
    few = [_philox.truncated_normal(each, count, np.dtype(dtype)) for each in generators]
    monkeypatch.setattr(_philox, "_MAX_FEW_GROUPS", 0)
    for generator, values in zip(generators, few, strict=True):
        expected = _philox.truncated_normal(generator, count, np.dtype(dtype))
        assert values.tobytes() == expected.tobytes()


@pytest.mark.jax
def test_programs_store_the_pairs_that_are_read_in_halves() -> None:
    import jax

    with jax.enable_x64(True):
        traced = jax.jit(
            lambda key: _philox.samples(jax.numpy, _philox.Philox(key, key, key), 4000)
        )
        text = traced.lower(np.uint64(1)).as_text()
    assert text.count("optimization_barrier") == 1
