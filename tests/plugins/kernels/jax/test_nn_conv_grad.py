"""Gradients by spread products, flipped kernels and slices match sums over the taps."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

jax = pytest.importorskip("jax")
pytestmark = [pytest.mark.jax, pytest.mark.divided]

from graphmill import errors  # noqa: E402
from graphmill_plugins.kernels.jax import _conv_gradients, nn_conv_grad  # noqa: E402
from graphmill_plugins.kernels.jax._conv_gradients import (  # noqa: E402
    convolved_blocks,
    convolved_phases,
    flipped_convolution,
    flipped_depthwise,
    flipped_images,
    gradient_by_image,
    gradient_by_rows,
    gradient_by_shifts,
    gradient_over_slices,
    gradient_product,
    is_for_shifts,
    spread_products,
    summed_depthwise_gradient,
    taps_axis,
    transposed,
)
from graphmill_plugins.kernels.jax.nn_conv import shifted_depthwise  # noqa: E402
from graphmill_plugins.kernels.nn.conv.numpy_grad import (  # noqa: E402
    input_gradient,
    kernel_gradient,
    transposed_axis,
)
from graphmill_plugins.kernels.nn.conv.plan import ConvPlan  # noqa: E402
from graphmill_plugins.kernels.nn.window import make_axis  # noqa: E402


@st.composite
def axis(draw, most_stride=4, most_dilation=1):
    most = (9, 5, most_stride, most_dilation)
    size, kernel, stride, dilation = (draw(st.integers(1, one)) for one in most)
    padding = draw(st.sampled_from(["SAME", "VALID", "EXPLICIT"]))
    pads = draw(st.tuples(st.integers(0, 3), st.integers(0, 3)))
    try:
        made = make_axis(size, kernel, stride, dilation, padding, *pads)
    except errors.InvalidArgumentError:
        made = None
    assume(made is not None)
    assume(made.out > 0)
    return made


@settings(max_examples=12, deadline=None)
@given(rows=axis(), cols=axis(), depth=st.integers(1, 2), width=st.integers(1, 3))
def test_any_window_gives_the_sums_of_its_taps(rows, cols, depth, width):
    rng = np.random.default_rng(1)
    gradient = rng.standard_normal((2, rows.out, cols.out, width))
    weights = rng.standard_normal((rows.kernel, cols.kernel, depth, width))
    with jax.enable_x64(True), jax.disable_jit():
        got = np.asarray(spread_products(gradient, weights, (rows, cols)))
    expected = input_gradient(weights, gradient, (rows, cols), depth)
    np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-10)


@settings(max_examples=20, deadline=None)
@given(rows=axis(), cols=axis(), depth=st.integers(1, 3), width=st.integers(1, 3))
def test_gradients_by_blocks_are_sums_over_taps(rows, cols, depth, width):
    assume(rows.kernel % rows.stride == cols.kernel % cols.stride == 0)
    check_input_gradient(convolved_blocks, (rows, cols), depth, width)


@settings(max_examples=20, deadline=None)
@given(rows=axis(), cols=axis(), depth=st.integers(1, 3), width=st.integers(1, 3))
def test_gradients_by_phases_are_sums_over_taps(rows, cols, depth, width):
    assume(rows.kernel >= rows.stride and cols.kernel >= cols.stride)
    check_input_gradient(convolved_phases, (rows, cols), depth, width)


@settings(max_examples=20, deadline=None)
@given(rows=axis(1), cols=axis(1), depth=st.integers(1, 3), width=st.integers(1, 3))
def test_gradients_by_flipped_kernels_of_images_are_sums_over_taps(rows, cols, depth, width):
    assume(all(min(one.before, one.after) >= 0 for one in map(transposed_axis, (rows, cols))))
    check_input_gradient(flipped_images, (rows, cols), depth, width)


def check_input_gradient(form, axes, depth, width):
    rng = np.random.default_rng(6)
    gradient = rng.standard_normal((2, *(one.out for one in axes), width))
    weights = rng.standard_normal((*(one.kernel for one in axes), depth, width))
    with jax.enable_x64(True), jax.disable_jit():
        got = np.asarray(form(gradient, weights, axes))
    expected = input_gradient(weights, gradient, axes, 1)
    np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    ("gradient", "taps", "depth", "stride", "form"),
    [
        ((4, 34, 38, 64), 5, 32, 2, convolved_phases),
        ((1, 200, 200, 16), 4, 16, 2, convolved_blocks),
        ((1, 128, 128, 64), 2, 32, 2, spread_products),  # windows do not overlap
        ((16, 14, 14, 128), 5, 64, 2, spread_products),  # many channels
        ((4, 34, 38, 64), 5, 3, 2, spread_products),  # too few outputs for four convolutions
        ((4, 64, 64, 32), 5, 32, 3, spread_products),  # nine convolutions
        ((4, 17, 17, 32), 4, 16, 2, spread_products),  # the products stay in the cache
        ((1, 260, 188, 8), 5, 3, 1, flipped_images),
    ],
)
def test_form_of_an_input_gradient(gradient, taps, depth, stride, form):
    axes = tuple(make_axis(out * stride, taps, stride, 1, "SAME") for out in gradient[1:3])
    shape = (gradient[0], *(axis.size for axis in axes), depth)
    plan = ConvPlan(shape, (taps, taps, depth, gradient[-1]), gradient, axes)
    assert nn_conv_grad._input_gradient_on_cpu(plan) is form


def test_infinities_reach_only_the_inputs_of_their_windows():
    axes = (make_axis(12, 4, 2, 1, "SAME"), make_axis(10, 4, 2, 1, "SAME"))
    gradient = np.ones((1, 6, 5, 2), np.float32)
    gradient[0, 2, 1, 0] = np.inf
    weights = np.random.default_rng(1).random((4, 4, 3, 2), np.float32) + 1
    expected = spread_products(gradient, weights, axes)
    for form in (convolved_blocks, convolved_phases):
        np.testing.assert_allclose(form(gradient, weights, axes), expected, rtol=1e-5)


def test_windows_along_one_axis_are_spread_too():
    """Spread products also compute windows along one axis, as in one-dimensional convolutions."""
    place = make_axis(7, 3, 2, 1, "SAME")
    gradient = np.ones((1, place.out, 1), np.float32)
    weights = np.float32([1, 10, 100]).reshape(3, 1, 1)
    got = np.asarray(spread_products(gradient, weights, (place,)))
    assert got.ravel().tolist() == [10, 101, 10, 101, 10, 101, 10]


@settings(max_examples=12, deadline=None)
@given(rows=axis(), cols=axis(), depth=st.integers(1, 2), width=st.integers(1, 3))
def test_gradients_by_rows_of_taps_are_sums_over_windows(rows, cols, depth, width):
    rng = np.random.default_rng(8)
    x = rng.standard_normal((2, rows.size, cols.size, depth))
    gradient = rng.standard_normal((2, rows.out, cols.out, width))
    with jax.enable_x64(True), jax.disable_jit():
        got = np.asarray(gradient_by_rows(x, gradient, (rows, cols)))
    expected = kernel_gradient(x, gradient, (rows, cols), 1)
    np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-10)


@settings(max_examples=30, deadline=None)
@given(
    rows=axis(most_dilation=3),
    cols=axis(most_dilation=3),
    depth=st.integers(1, 2),
    images=st.integers(1, 7),  # pieces of two, of more than four
)
def test_gradients_by_a_convolution_of_the_image_are_sums_over_windows(rows, cols, depth, images):
    assume(all(taps_axis(one).size > 0 for one in (rows, cols)))
    rng = np.random.default_rng(8)
    x = rng.standard_normal((images, rows.size, cols.size, depth))
    gradient = rng.standard_normal((images, rows.out, cols.out, 3))
    with (
        jax.enable_x64(True),
        jax.disable_jit(),
        mock.patch.object(_conv_gradients, "_MAX_IMAGES", 2),
    ):
        got = np.asarray(gradient_by_image(x, gradient, (rows, cols)))
    expected = kernel_gradient(x, gradient, (rows, cols), 1)
    np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "before", "form"),
    [
        (12, 3, 1, 1, gradient_by_image),
        (12, 3, 2, 0, gradient_by_image),  # the last row is not read
        (2, 2, 4, 3, None),  # the only window is in the padding
    ],
)
def test_form_of_a_gradient_of_weights(size, kernel, stride, before, form):
    place = make_axis(size, kernel, stride, 1, "EXPLICIT", before, 0)
    shape, out = (2, size, size, 32), (2, place.out, place.out, 48)
    plan = ConvPlan(shape, (kernel, kernel, 32, 48), out, (place, place))
    assert nn_conv_grad._filter_gradient_on_cpu(plan) is form


@settings(max_examples=20, deadline=None)
@given(rows=axis(1), cols=axis(1), depth=st.integers(1, 3), width=st.integers(1, 3))
def test_gradients_by_shifts_are_sums_over_windows(rows, cols, depth, width):
    rng = np.random.default_rng(8)
    x = rng.standard_normal((2, rows.size, cols.size, depth))
    gradient = rng.standard_normal((2, rows.out, cols.out, width))
    with jax.enable_x64(True), jax.disable_jit():
        got = np.asarray(gradient_by_shifts(x, gradient, (rows, cols)))
    expected = kernel_gradient(x, gradient, (rows, cols), 1)
    np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    ("depth", "width", "size", "kernel", "stride", "dilation", "expected"),
    [
        (24, 8, 16, 3, 1, 1, True),
        (24, 8, 16, 3, 2, 1, False),
        (64, 24, 16, 3, 1, 1, False),  # too many outputs
        (12, 8, 16, 3, 1, 1, False),  # hardly more inputs
        (24, 8, 200, 3, 1, 1, False),  # the shifted gradients leave the cache
        (24, 8, 16, 7, 1, 1, False),  # too many taps
        (24, 8, 16, 3, 1, 2, False),
    ],
)
def test_gradients_are_shifted_where_they_are_few(
    depth, width, size, kernel, stride, dilation, expected
):
    place = make_axis(size, kernel, stride, dilation, "SAME")
    gradient = (4, place.out, place.out, width)
    assert is_for_shifts(depth, gradient, [place, place]) is expected


@settings(max_examples=12, deadline=None)
@given(
    rows=axis(),
    cols=axis(),
    depth=st.integers(1, 3),
    multiplier=st.integers(1, 2),
    unrolled=st.sampled_from([0, 25]),
)
def test_gradients_of_depthwise_windows_are_transposes(rows, cols, depth, multiplier, unrolled):
    rng = np.random.default_rng(5)
    axes = {"rows": rows, "cols": cols}
    x = rng.standard_normal((2, rows.size, cols.size, depth))
    weights = rng.standard_normal((rows.kernel, cols.kernel, depth, multiplier))
    gradient = rng.standard_normal((2, rows.out, cols.out, depth * multiplier))
    with (
        jax.enable_x64(True),
        jax.disable_jit(),
        mock.patch.object(_conv_gradients, "_MAX_UNROLLED_TAPS", unrolled),
    ):
        of_weights = summed_depthwise_gradient(x, gradient, **axes)
        expected = transposed(
            lambda kernel: shifted_depthwise(x, kernel, **axes), weights.shape, gradient
        )
        np.testing.assert_allclose(of_weights, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("taps", [3, 7])
def test_the_kernel_of_the_gradient_of_depthwise_weights_can_be_compiled(taps, call_jax):
    rng = np.random.default_rng(7)
    x, gradient = rng.standard_normal((2, 12, 12, 3)), rng.standard_normal((2, 12, 12, 6))
    place = make_axis(12, taps, 1, 1, "SAME")
    got = call_jax(
        "DepthwiseConv2dNativeBackpropFilter",
        x.astype(np.float32),
        (taps, taps, 3, 2),
        gradient.astype(np.float32),
        strides=[1, 1, 1, 1],
        padding="SAME",
    )
    with jax.enable_x64(True):
        expected = transposed(
            lambda kernel: shifted_depthwise(x, kernel, rows=place, cols=place),
            (taps, taps, 3, 2),
            gradient,
        )
    np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("multiplier", [1, 3])
@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("dilation", [1, 2])
def test_the_gradient_of_the_input_of_depthwise_windows_is_flipped(multiplier, padding, dilation):
    rng = np.random.default_rng(6)
    axes = {
        "rows": make_axis(9, 3, 1, dilation, padding),
        "cols": make_axis(8, 4, 1, dilation, padding),
    }
    weights = rng.standard_normal((3, 4, 2, multiplier))
    out = (axes["rows"].out, axes["cols"].out, 2 * multiplier)
    gradient = rng.standard_normal((2, *out))
    with jax.enable_x64(True):
        got = flipped_depthwise(gradient, weights, **axes)
        expected = transposed(
            lambda image: shifted_depthwise(image, weights, **axes), (2, 9, 8, 2), gradient
        )
        np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-10)


VOLUME = [make_axis(*sizes, "SAME") for sizes in ((4, 3, 1, 1), (5, 3, 1, 1), (6, 2, 1, 2))]


def test_gradients_of_volumes_are_those_of_images():
    rng = np.random.default_rng(2)
    x = rng.standard_normal((2, 4, 5, 6, 2))
    weights, gradient = rng.standard_normal((3, 3, 2, 2, 3)), rng.standard_normal((2, 4, 5, 6, 3))
    with jax.enable_x64(True):
        of_input = np.asarray(flipped_convolution(gradient, weights, VOLUME))
        of_weights = np.asarray(gradient_over_slices(x, gradient, VOLUME, weights.shape))
    expected = input_gradient(weights, gradient, tuple(VOLUME), 2)
    np.testing.assert_allclose(of_input, expected, rtol=1e-10, atol=1e-10)
    expected = kernel_gradient(x, gradient, tuple(VOLUME), 1)
    np.testing.assert_allclose(of_weights, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("stride", [1, 2, 3])
def test_the_gradient_of_weights_of_one_tap_is_a_product(stride):
    rng = np.random.default_rng(3)
    axes = tuple(make_axis(size, 1, stride, 1, "VALID") for size in (7, 6))
    x = rng.standard_normal((2, 7, 6, 2))
    gradient = rng.standard_normal((2, *(axis.out for axis in axes), 3))
    with jax.enable_x64(True):
        got = np.asarray(gradient_product(x, gradient, axes))
    expected = kernel_gradient(x, gradient, axes, 1)
    np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-10)
