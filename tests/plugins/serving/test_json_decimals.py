"""The texts of floating-point numbers, as TensorFlow Serving writes them."""

from __future__ import annotations

import numpy as np
import pytest

from graphmill_plugins.serving.rest.json_decimals import decimals


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.2, "0.2"),
        (1.0, "1.0"),
        (-0.0, "-0.0"),
        (9000000, "9e+06"),
        (0.00003, "3e-05"),
        (16777217, "16777216.0"),
        (1 / 3, "0.333333343"),
        (3.4028235e38, "3.40282347e+38"),
        (float("nan"), "NaN"),
        (float("inf"), "Infinity"),
        (float("-inf"), "-Infinity"),
    ],
)
def test_floats_are_written_as_tensorflow_serving_does(value, text):
    assert decimals(np.array([value, 1.5], np.float32)) == [text, "1.5"]


def test_texts_give_the_same_numbers_when_read_again():
    for dtype, bits in ((np.float32, np.uint32), (np.float64, np.uint64)):
        rng = np.random.default_rng(0)
        values = rng.integers(0, np.iinfo(bits).max, 2000, bits).view(dtype)
        values = values[np.isfinite(values)]
        assert (np.array([*map(float, decimals(values))]).astype(dtype) == values).all()
