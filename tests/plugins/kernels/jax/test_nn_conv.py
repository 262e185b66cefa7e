"""CPU lowerings of convolutions equal XLA's own convolution."""

from __future__ import annotations

import numpy as np
import pytest

jax = pytest.importorskip("jax")
pytestmark = [pytest.mark.jax, pytest.mark.divided]

from graphmill_plugins.kernels.jax import nn_conv  # noqa: E402
from graphmill_plugins.kernels.nn.conv.plan import ConvPlan  # noqa: E402
from graphmill_plugins.kernels.nn.window import make_axis  # noqa: E402

RNG = np.random.default_rng(4)
PLACES = [
    (make_axis(9, 3, 2, 1, "SAME"), make_axis(8, 3, 2, 1, "SAME")),
    (make_axis(11, 7, 2, 1, "SAME"), make_axis(10, 5, 3, 1, "VALID")),
    (make_axis(7, 4, 3, 1, "EXPLICIT", 2, 1), make_axis(12, 3, 2, 1, "EXPLICIT", 0, 3)),
    (make_axis(9, 3, 2, 1, "VALID"),),
    (make_axis(5, 3, 2, 1, "SAME"), make_axis(6, 3, 2, 1, "VALID"), make_axis(7, 4, 3, 1, "SAME")),
]


@pytest.mark.parametrize("axes", PLACES, ids=range(len(PLACES)))
@pytest.mark.parametrize("name", ["over_blocks", "gathered"])
def test_convolutions_of_few_channels_equal_xlas(axes, name):
    x = RNG.standard_normal((2, *(axis.size for axis in axes), 3)).astype(np.float32)
    kernel = RNG.standard_normal((*(axis.kernel for axis in axes), 3, 4)).astype(np.float32)
    got = getattr(nn_conv, name)(x, kernel, axes)
    expected = nn_conv.convolve(x, kernel, axes, 1)
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("channels", "groups", "parts"),
    [(32, 2, 2), (64, 8, 4), (128, 32, 8), (40, 5, 3), (256, 32, 16), (1024, 64, 16)],
)
def test_groups_are_convolved_by_parts(channels, groups, parts):
    run, x, kernel, axes = grouped(channels, groups)
    text = run.lower(x, kernel).as_text()
    assert text.count("stablehlo.convolution") == parts
    assert "feature_group_count = 1" in text
    expected = nn_conv.convolve(x, kernel, axes, groups)
    np.testing.assert_allclose(run(x, kernel), expected, rtol=1e-4, atol=1e-4)


def test_many_groups_of_few_channels_are_left_to_xla():
    run, x, kernel, _ = grouped(512, 256)
    assert "feature_group_count = 256" in run.lower(x, kernel).as_text()


def test_groups_of_one_channel_are_depthwise():
    run, x, kernel, axes = grouped(6, 6, outputs=2)
    assert "stablehlo.convolution" not in run.lower(x, kernel).as_text()
    expected = nn_conv.convolve(x, kernel, axes, 6)
    np.testing.assert_allclose(run(x, kernel), expected, rtol=1e-4, atol=1e-4)


def test_a_tap_of_a_depthwise_convolution_is_four_operations():
    def operations(taps):
        axis = make_axis(9, taps, 2, 1, "SAME")
        x, kernel = np.ones((1, 9, 9, 4), np.float32), np.ones((taps, taps, 4, 1), np.float32)
        traced = jax.make_jaxpr(
            lambda *args: nn_conv.shifted_depthwise(*args, rows=axis, cols=axis)
        )
        return len(traced(x, kernel).eqns)

    assert operations(5) - operations(3) == 4 * (25 - 9)


@pytest.mark.parametrize("multiplier", [1, 3])
@pytest.mark.parametrize(
    ("rows", "cols"),
    [
        (make_axis(13, 7, 1, 1, "SAME"), make_axis(12, 7, 1, 1, "VALID")),
        (make_axis(21, 6, 2, 1, "SAME"), make_axis(18, 5, 3, 1, "SAME")),
        (make_axis(9, 8, 1, 2, "SAME"), make_axis(17, 9, 1, 2, "VALID")),
        (make_axis(7, 11, 2, 1, "EXPLICIT", 4, 9), make_axis(9, 5, 1, 3, "EXPLICIT", 6, 0)),
    ],
)
def test_large_depthwise_windows_are_a_loop_over_their_rows(rows, cols, multiplier):
    x = RNG.standard_normal((2, rows.size, cols.size, 3)).astype(np.float32)
    kernel = RNG.standard_normal((rows.kernel, cols.kernel, 3, multiplier)).astype(np.float32)
    axes = {"rows": rows, "cols": cols}
    expected = nn_conv.grouped_depthwise(x, kernel, **axes)
    np.testing.assert_allclose(
        nn_conv.looped_depthwise(x, kernel, **axes), expected, rtol=1e-4, atol=1e-4
    )
    run = jax.jit(lambda *args: nn_conv.depthwise(*args, rows, cols))
    assert "stablehlo.while" in run.lower(x, kernel).as_text()
    np.testing.assert_allclose(run(x, kernel), expected, rtol=1e-4, atol=1e-4)


def test_small_depthwise_windows_are_no_loop():
    axis = make_axis(9, 5, 1, 1, "SAME")
    x, kernel = np.ones((1, 9, 9, 4), np.float32), np.ones((5, 5, 4, 1), np.float32)
    run = jax.jit(lambda *args: nn_conv.depthwise(*args, axis, axis))
    assert "stablehlo.while" not in run.lower(x, kernel).as_text()


def test_infinities_reach_only_the_windows_that_read_them():
    axis = make_axis(12, 7, 1, 1, "SAME")
    x = np.ones((1, 12, 12, 2), np.float32)
    x[0, 1, 2, 0], x[0, 9, 9, 1] = np.inf, np.nan
    kernel = RNG.random((7, 7, 2, 1), np.float32) + 1
    got = nn_conv.looped_depthwise(x, kernel, rows=axis, cols=axis)
    expected = nn_conv.shifted_depthwise(x, kernel, rows=axis, cols=axis)
    np.testing.assert_allclose(got, expected, rtol=1e-5)


def test_equal_depthwise_convolutions_are_one_function_of_a_program():
    axis = make_axis(9, 3, 1, 1, "SAME")
    x, kernel = np.ones((1, 9, 9, 4), np.float32), np.ones((3, 3, 4, 1), np.float32)

    def network(x, kernel):
        return nn_conv.depthwise(nn_conv.depthwise(x, kernel, axis, axis), kernel, axis, axis)

    text = jax.jit(network).lower(x, kernel).as_text()
    assert text.count("func.func private @depthwise") == 1
    assert text.count("call @depthwise") == 2


def grouped(channels, groups, outputs=None):
    """Return a compiled convolution in groups, its arguments and its axes."""
    axes = (make_axis(6, 3, 1, 1, "SAME"),) * 2
    depth = groups * (outputs or channels // groups)
    x = RNG.standard_normal((1, 6, 6, channels)).astype(np.float32)
    kernel = RNG.standard_normal((3, 3, channels // groups, depth)).astype(np.float32)
    plan = ConvPlan(x.shape, kernel.shape, (1, 6, 6, depth), axes)
    return jax.jit(lambda *args: nn_conv.run_convolution(*args, plan)), x, kernel, axes


@pytest.mark.parametrize("axes", PLACES, ids=range(len(PLACES)))
def test_convolutions_of_one_channel_equal_xlas(axes):
    x = RNG.standard_normal((2, *(axis.size for axis in axes), 1)).astype(np.float32)
    kernel = RNG.standard_normal((*(axis.kernel for axis in axes), 1, 4)).astype(np.float32)
    got = nn_conv.shifted_products(x, kernel, axes)
    expected = nn_conv.convolve(x, kernel, axes, 1)
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)


VOLUMES = [
    PLACES[4],
    tuple(make_axis(size, 3, 1, 1, "SAME") for size in (5, 6, 7)),
    tuple(make_axis(size, 2, 1, dilation, "VALID") for size, dilation in ((9, 3), (6, 1), (7, 2))),
    (make_axis(4, 1, 1, 1, "SAME"), make_axis(5, 3, 1, 1, "SAME"), make_axis(6, 3, 2, 1, "SAME")),
    tuple(make_axis(size, 3, 2, 1, "EXPLICIT", 2, 1) for size in (5, 6, 7)),
]


@pytest.mark.parametrize("axes", VOLUMES, ids=range(len(VOLUMES)))
def test_convolutions_of_volumes_equal_xlas(axes):
    x = RNG.standard_normal((2, *(axis.size for axis in axes), 6)).astype(np.float32)
    kernel = RNG.standard_normal((*(axis.kernel for axis in axes), 6, 4)).astype(np.float32)
    got = nn_conv.over_slices(x, kernel, axes)
    expected = nn_conv.convolve(x, kernel, axes, 1)
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)
