"""Stochastic rounding has the correct distribution and depends only on key and counter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

COUNTER = np.array([3, 4], np.uint64)


def cast(call: Callable[..., Any], x: Any, key: int = 7) -> Any:
    key_vector = np.array([key], np.uint64)
    return call("StochasticCastToInt", x, key_vector, COUNTER, np.int32(1), Tout=np.int32)


@pytest.mark.parametrize("number", [0.25, -0.25, 3.9, -7.5])
def test_the_mean_of_rounded_numbers_is_the_number(call: Callable[..., Any], number: float) -> None:
    rounded = cast(call, np.full(20_000, number, np.float32))
    assert set(rounded.tolist()) == {int(np.floor(number)), int(np.ceil(number))}
    assert abs(rounded.mean() - number) < 0.02  # more than five standard deviations


def test_key_and_counter_determine_the_result(call: Callable[..., Any]) -> None:
    x = np.full(100, 0.5, np.float32)
    np.testing.assert_array_equal(cast(call, x), cast(call, x))
    assert (cast(call, x) != cast(call, x, key=8)).any()
