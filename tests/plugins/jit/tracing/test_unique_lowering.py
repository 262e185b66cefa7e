"""The traced `Unique` maps equal values to their first occurrence, despite hash collisions."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

jax = pytest.importorskip("jax")

from graphmill import dtypes  # noqa: E402 - after the skip
from graphmill_plugins.jit.ir.errors import NotTraceable  # noqa: E402 - needs JAX
from graphmill_plugins.jit.tracing import unique_lowering as module  # noqa: E402 - needs JAX

pytestmark = pytest.mark.jax
NODE: Any = SimpleNamespace(output_types=[dtypes.int32, dtypes.int64])
NUMBERS = st.one_of(st.integers(0, 5), st.integers(-(2**31), 2**31 - 2))


def program() -> Any:
    return jax.jit(lambda values: module.distinct(NODE, values))


PROGRAM = program()


def found(values: Any, call: Any = PROGRAM) -> Any:
    with jax.enable_x64(True):
        numbers, places = call(values)
    return np.asarray(numbers), np.asarray(places)


def check(values: Any, call: Any = PROGRAM) -> None:
    numbers, places = found(values, call)
    first = {}
    for place, value in enumerate(values.tolist()):
        first.setdefault(value, place)
    assert places.tolist() == [first[value] for value in values.tolist()]
    none = module.no_row(values.dtype)
    expected = [v if first[v] == n else none for n, v in enumerate(values.tolist())]
    assert numbers.tolist() == expected
    assert (numbers.dtype, places.dtype) == (values.dtype, np.int64)


@given(st.lists(NUMBERS, min_size=12, max_size=12))
def test_equal_numbers_find_the_first(values: list[int]) -> None:
    check(np.array(values, np.int32))


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("count", [0, 1, 2, 3000])
def test_any_count_of_values_is_deduplicated(dtype: str, count: int) -> None:
    check((np.random.default_rng(3).zipf(1.3, count) % 1000).astype(dtype))


def test_values_with_equal_hashes_try_another_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_hashes", lambda values, round_: values.astype(np.uint32) * 0)
    check(np.array([4, 2, 4, 9, 2, 2, 7], np.int32), program())


@pytest.mark.parametrize("values", [np.zeros((2, 2), np.int32), np.zeros(2, np.float32)])
def test_invalid_row_indices_are_refused(values: Any) -> None:
    with pytest.raises(NotTraceable, match=r"a vector|float32"):
        found(values)
