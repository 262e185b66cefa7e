"""Winograd's algorithm equals the direct sum; numbers that it cannot handle take the direct sum."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphmill_plugins.kernels.nn.conv import numpy_conv, numpy_winograd
from graphmill_plugins.kernels.nn.conv.numpy_winograd import weights_if_worth_it, winograd
from graphmill_plugins.kernels.nn.window import make_axis

RNG = np.random.default_rng(11)
AXIS = make_axis(16, 3, 1, 1, "SAME")


def normal(*shape: int, dtype: Any = np.float32) -> Any:
    return RNG.standard_normal(shape).astype(dtype)


def direct(x: Any, kernel: Any, rows: Any, cols: Any) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numpy_conv, "weights_if_worth_it", lambda *_: None)
        return numpy_conv.conv2d(x, kernel, rows, cols)


def transformed(kernel: Any) -> Any:
    weights = numpy_winograd._transformed_weights(kernel)
    assert weights is not None
    return weights


@given(
    st.integers(1, 3),
    st.integers(3, 11),
    st.integers(3, 11),
    st.integers(1, 5),
    st.integers(1, 5),
    st.sampled_from(["SAME", "VALID"]),
    st.sampled_from([1, 400, 1 << 19]),
)
def test_result_equals_the_direct_sum(
    images: int, height: int, width: int, depth: int, outputs: int, padding: str, block: int
) -> None:
    x, kernel = normal(images, height, width, depth), normal(3, 3, depth, outputs)
    axes = make_axis(height, 3, 1, 1, padding), make_axis(width, 3, 1, 1, padding)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numpy_winograd, "_BLOCK_BYTES", block)
        result = winograd(x, transformed(kernel), *axes)
    assert result.dtype == x.dtype
    np.testing.assert_allclose(result, direct(x, kernel, *axes), rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_error_is_a_few_units_of_the_type(dtype: Any) -> None:
    x, kernel = normal(1, 16, 16, 64, dtype=dtype), normal(3, 3, 64, 48, dtype=dtype)
    expected = direct(x.astype(np.longdouble), kernel.astype(np.longdouble), AXIS, AXIS)
    error = np.abs(winograd(x, transformed(kernel), AXIS, AXIS) - expected).max()
    assert error < 16 * np.finfo(dtype).eps * np.abs(expected).max()


def test_integers_are_exact() -> None:
    x = RNG.integers(-99, 99, (1, 16, 16, 32)).astype(np.float32)
    kernel = RNG.integers(-9, 9, (3, 3, 32, 32)).astype(np.float32)
    result = winograd(x, transformed(kernel), AXIS, AXIS)
    np.testing.assert_array_equal(result, direct(x, kernel, AXIS, AXIS))


def test_convolution_with_many_channels_takes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def counted(*arguments: Any) -> Any:
        calls.append(arguments)
        return winograd(*arguments)

    monkeypatch.setattr(numpy_conv, "winograd", counted)
    x, kernel = normal(1, 16, 16, 64), normal(3, 3, 64, 64)
    numpy_conv.conv2d(x, kernel, AXIS, AXIS)
    assert len(calls) == 1


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 3e38, -1e30])
@pytest.mark.parametrize("of_filter", [False, True])
def test_extreme_numbers_take_the_direct_sum(value: float, of_filter: bool) -> None:
    x, kernel = normal(1, 16, 16, 64), normal(3, 3, 64, 64)
    if of_filter:
        kernel[1, 2, 3, 4] = value
    else:
        x[0, 5, 6, 7] = value
    with np.errstate(all="ignore"):
        result = numpy_conv.conv2d(x, kernel, AXIS, AXIS)
        np.testing.assert_array_equal(result, direct(x, kernel, AXIS, AXIS))
    is_affected = ~np.isfinite(result).all(axis=(0, 3))
    if not of_filter and not np.isfinite(value):
        assert is_affected.sum() == 9  # the windows that contain the pixel, no others


@pytest.mark.parametrize(
    ("kernel", "stride", "dilation"), [(3, 2, 1), (3, 1, 2), (1, 1, 1), (5, 1, 1)]
)
def test_other_windows_take_the_direct_sum(kernel: int, stride: int, dilation: int) -> None:
    axis = make_axis(32, kernel, stride, dilation, "SAME")
    assert weights_if_worth_it(normal(kernel, kernel, 64, 64), 1, axis, axis) is None


@pytest.mark.parametrize(("size", "channels"), [(16, 4), (7, 512)])
def test_few_channels_or_windows_take_the_direct_sum(size: int, channels: int) -> None:
    axis = make_axis(size, 3, 1, 1, "SAME")
    assert weights_if_worth_it(normal(3, 3, channels, channels), 1, axis, axis) is None
