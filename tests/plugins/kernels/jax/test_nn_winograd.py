"""Winograd convolutions and matrix products equal XLA's own convolution."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

jax = pytest.importorskip("jax")
pytestmark = [pytest.mark.jax, pytest.mark.divided]

from graphmill_plugins._constants import is_prepared_once, marking  # noqa: E402
from graphmill_plugins.kernels.jax.nn_conv import KERNELS, convolve, gathered  # noqa: E402
from graphmill_plugins.kernels.jax.nn_winograd import is_worth_it, winograd  # noqa: E402
from graphmill_plugins.kernels.nn.window import make_axis  # noqa: E402

RNG = np.random.default_rng(5)


def normal(*shape: int):
    return RNG.standard_normal(shape).astype(np.float32)


def compiled(function, x, kernel, axes):
    """Run a lowering as one program, which compiles faster than separate ops."""
    return np.asarray(jax.jit(lambda x, kernel: function(x, kernel, axes))(x, kernel))


def direct(x, kernel, axes):
    return compiled(lambda *args: convolve(*args, 1), x, kernel, axes)


def error(got, expected) -> float:
    """Return the largest error relative to the largest value."""
    return float(np.abs(np.asarray(got) - expected).max() / np.abs(expected).max())


@pytest.mark.parametrize(
    ("batch", "size", "padding"),
    [(1, 13, "SAME"), (1, 14, "VALID"), (2, 19, "SAME"), (1, 26, "VALID")],
    ids=str,
)
def test_tiles_match_windows(batch, size, padding):
    x, kernel = normal(batch, size, size + 3, 5), normal(3, 3, 5, 4)
    axes = tuple(make_axis(length, 3, 1, 1, padding) for length in (size, size + 3))
    expected = direct(x, kernel, axes)
    assert error(compiled(winograd, x, kernel, axes), expected) < 1e-5


def test_equal_convolutions_are_one_function_of_a_program():
    x, kernel = normal(1, 13, 13, 4), normal(3, 3, 4, 4)
    axes = (make_axis(13, 3, 1, 1, "SAME"),) * 2

    def network(x, kernel):
        return winograd(winograd(x, kernel, axes), 2 * kernel, axes)

    text = jax.jit(network).lower(x, kernel).as_text()
    assert text.count("func.func private @_convolve") == 1
    assert text.count("call @_convolve") == 2


def test_explicit_padding_is_kept():
    x, kernel = normal(1, 16, 16, 3), normal(3, 3, 3, 2)
    axes = (make_axis(16, 3, 1, 1, "EXPLICIT", 2, 0), make_axis(16, 3, 1, 1, "EXPLICIT", 0, 3))
    expected = direct(x, kernel, axes)
    assert error(compiled(winograd, x, kernel, axes), expected) < 1e-5


@pytest.mark.parametrize(("stride", "dilation"), list(itertools.product((1, 2), (1, 2))))
def test_gathered_taps_match_windows(stride, dilation):
    x, kernel = normal(2, 9, 8, 6), normal(3, 2, 6, 4)
    axes = tuple(make_axis(size, taps, stride, dilation, "SAME") for size, taps in ((9, 3), (8, 2)))
    expected = direct(x, kernel, axes)
    assert error(compiled(gathered, x, kernel, axes), expected) < 1e-5


def conv2d(x, kernel, data_format: str):
    (made,) = (made for made in KERNELS if made.ops == ("Conv2D",))
    ones = (1,) * 4
    run = made.function(strides=ones, padding="SAME", data_format=data_format, dilations=ones)
    return run(x, kernel)


def equations(size: int, channels: int, *, is_marked: bool, data_format: str = "NHWC") -> str:
    shape = (1, size, size, channels) if data_format == "NHWC" else (1, channels, size, size)

    def program(x, kernel):
        with marking() as marks:
            if is_marked:
                marks.add([kernel])
            return conv2d(x, kernel, data_format)

    return str(jax.make_jaxpr(program)(normal(*shape), normal(3, 3, channels, channels)))


def test_constant_weights_are_transformed():
    assert "conv_general_dilated" not in equations(16, 32, is_marked=True)
    assert "conv_general_dilated" not in equations(16, 32, is_marked=True, data_format="NCHW")


def test_weights_that_may_change_are_not():
    assert "conv_general_dilated" in equations(16, 32, is_marked=False)


def test_thin_or_small_images_are_convolved_directly():
    assert "conv_general_dilated" in equations(16, 8, is_marked=True)
    assert "conv_general_dilated" in equations(9, 32, is_marked=True)


@pytest.mark.parametrize("dtype", [np.float64, np.float16])
def test_other_types_are_convolved_directly(dtype):
    axes = (make_axis(16, 3, 1, 1, "SAME"),) * 2
    with marking():
        assert is_worth_it(normal(1, 16, 16, 32), normal(3, 3, 32, 32), axes, 1)
        assert not is_worth_it(normal(1, 16, 16, 32).astype(dtype), normal(3, 3, 32, 32), axes, 1)


def test_marks_end_with_their_block():
    value = normal(2)
    assert not is_prepared_once(value)
    with marking():
        assert is_prepared_once(value)
        with marking("gpu"):
            assert not is_prepared_once(value)
        assert is_prepared_once(value)
    assert not is_prepared_once(value)
