"""Checks of the largest magnitude in an array, on NumPy and in programs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphmill_plugins.lowerings.magnitudes import are_finite, are_within


def _on_numpy(check: Any, values: Any) -> bool:
    return bool(check(np, values))


def _in_a_program(check: Any, values: Any) -> bool:
    jax = pytest.importorskip("jax")
    with jax.enable_x64(True):
        return bool(jax.jit(lambda x: check(jax.numpy, x))(values))


_WAYS = [
    pytest.param(_on_numpy, id="numpy"),
    pytest.param(_in_a_program, id="program", marks=pytest.mark.jax),
]


@pytest.mark.parametrize("run", _WAYS)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64"])
def test_one_value_that_is_not_finite_is_found_wherever_it_is(
    run: Any, bad: float, dtype: str
) -> None:
    values = np.linspace(-4, 4, 3 * 11 * 7 * 3).astype(dtype).reshape(3, 11, 7, 3)
    assert run(are_finite, values)
    for place in (0, 1, 2, 15, 16, 100, 345, 691, 692):
        spoilt = values.copy()
        spoilt.reshape(-1)[place] = bad
        assert not run(are_finite, spoilt), place


@pytest.mark.parametrize("run", _WAYS)
def test_no_values_and_integers_are_finite(run: Any) -> None:
    assert run(are_finite, np.zeros((0, 3), np.float32))
    assert run(are_finite, np.array([-128, 127], np.int8))
    assert run(are_finite, np.array([3e38 + 3e38j], np.complex64))


@pytest.mark.parametrize("run", _WAYS)
def test_magnitudes_up_to_the_limit_are_within_it(run: Any) -> None:
    def within(_xp: Any, values: Any) -> Any:
        return are_within(_xp, values, 5.0)

    assert run(within, np.array([5.0, -5.0], np.float32))
    assert not run(within, np.array([5.0, -5.5], np.float32))
    assert not run(within, np.array([np.nan, 1.0], np.float32))
    assert run(within, np.zeros(0, np.float32))
