"""Poolings equal slices of windows; gradients equal finite differences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphmill import errors
from graphmill_plugins.kernels.nn.pool.grad_kernels import avg_pool_gradient, max_pool_gradient
from graphmill_plugins.kernels.nn.pool.kernels import avg_pool, max_pool
from graphmill_plugins.kernels.nn.window import make_axis

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill_plugins.kernels.nn.window import Axis

RNG = np.random.default_rng(3)
spec = st.tuples(
    st.integers(1, 4), st.integers(1, 4), st.integers(1, 3), st.sampled_from(["SAME", "VALID"])
)


def axes_of(given_: tuple[int, int, int, str]) -> tuple[Axis, Axis]:
    height, width, stride, padding = given_
    return make_axis(5, height, stride, 1, padding), make_axis(6, width, stride, 1, padding)


def windows(x: Any, axes: tuple[Axis, Axis]) -> Any:
    """Yield row, column and the inputs of each window."""
    for row, col in np.ndindex(axes[0].out, axes[1].out):
        spans = []
        for axis, number in zip(axes, (row, col), strict=True):
            start = number * axis.stride - axis.before
            spans.append(slice(max(start, 0), start + axis.kernel))
        yield row, col, x[:, spans[0], spans[1]]


@given(spec)
def test_windows_are_reduced_without_their_padding(given_: tuple[int, int, int, str]) -> None:
    axes = axes_of(given_)
    x = RNG.standard_normal((2, 5, 6, 3))
    most, mean = max_pool(x, axes), avg_pool(x, axes)
    for row, col, window in windows(x, axes):
        np.testing.assert_array_equal(most[:, row, col], window.max(axis=(1, 2)))
        np.testing.assert_allclose(mean[:, row, col], window.mean(axis=(1, 2)))


@given(spec)
def test_gradients_follow_the_windows(given_: tuple[int, int, int, str]) -> None:
    axes = axes_of(given_)
    x = RNG.permutation(60).astype(np.float64).reshape(1, 5, 6, 2)
    out = max_pool(x, axes)
    gradient = RNG.standard_normal(out.shape)
    most = max_pool_gradient(x, out, gradient, axes)
    mean = avg_pool_gradient(x.shape, gradient, axes)
    change = RNG.standard_normal(x.shape) * 1e-6
    np.testing.assert_allclose(
        np.vdot(most, change), np.vdot(max_pool(x + change, axes) - out, gradient), atol=1e-9
    )
    np.testing.assert_allclose(
        np.vdot(mean, change), np.vdot(avg_pool(change, axes), gradient), atol=1e-9
    )


def test_the_first_of_equal_maxima_takes_the_gradient(call: Callable[..., Any]) -> None:
    x = np.full((1, 2, 2, 1), 3, np.float32)
    attrs = {"ksize": [1, 2, 2, 1], "strides": [1, 1, 1, 1], "padding": "VALID"}
    out = call("MaxPool", x, **attrs)
    got = call("MaxPoolGrad", x, out, np.full((1, 1, 1, 1), 5, np.float32), **attrs)
    assert got.ravel().tolist() == [5, 0, 0, 0]


def test_pooling_with_window_one_is_identity(call: Callable[..., Any]) -> None:
    x = np.arange(8, dtype=np.float32).reshape(1, 2, 2, 2)
    attrs = {"ksize": [1, 1, 1, 1], "strides": [1, 1, 1, 1], "padding": "SAME"}
    np.testing.assert_array_equal(call("MaxPool", x, **attrs), x)


def test_inputs_are_not_modified(call: Callable[..., Any]) -> None:
    x = RNG.standard_normal((1, 4, 4, 2))
    x.flags.writeable = False
    attrs = {"ksize": [1, 2, 2, 1], "strides": [1, 1, 1, 1], "padding": "SAME"}
    call("MaxPool", x, **attrs)
    call("AvgPool", x, **attrs)


@pytest.mark.parametrize(
    ("ksize", "error"),
    [
        ([1, 0, 2, 1], errors.InvalidArgumentError),
        ([1, 2, 2], errors.InvalidArgumentError),
        ([2, 2, 2, 1], errors.UnimplementedError),
        ([1, 1, 1, 2], errors.UnimplementedError),
    ],
)
def test_bad_windows_are_refused(
    call: Callable[..., Any], ksize: list[int], error: type[Exception]
) -> None:
    x = np.zeros((1, 4, 4, 2), np.float32)
    with pytest.raises(error):
        call("AvgPool", x, ksize=ksize, strides=[1, 1, 1, 1], padding="VALID")


@pytest.mark.jax
@pytest.mark.parametrize("width", [2, 30])
@pytest.mark.parametrize("op", ["MaxPool", "AvgPool"])
def test_numpy_and_jax_pools_agree(
    call: Callable[..., Any], call_jax: Callable[..., Any], op: str, width: int
) -> None:
    x = RNG.standard_normal((1, 7, 31, 2))
    attrs = {"ksize": [1, 3, width, 1], "strides": [1, 2, 1, 1], "padding": "SAME"}
    np.testing.assert_allclose(call_jax(op, x, **attrs), call(op, x, **attrs), atol=1e-12)
