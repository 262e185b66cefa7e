"""NumPy convolutions equal loops over windows, and their gradients are adjoints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphmill import errors
from graphmill_plugins.kernels.nn.conv import numpy_conv, numpy_grad
from graphmill_plugins.kernels.nn.conv.image_windows import pad_image
from graphmill_plugins.kernels.nn.window import make_axis

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill_plugins.kernels.nn.window import Axis

RNG = np.random.default_rng(7)


def normal(*shape: int) -> Any:
    return RNG.standard_normal(shape)


def naive(x: Any, kernel: Any, rows: Axis, cols: Axis) -> Any:
    """Convolve by definition, group by group."""
    padded = pad_image(x, rows, cols)
    depth, width = kernel.shape[2:]
    groups = x.shape[3] // depth
    out = np.zeros((len(x), rows.out, cols.out, width))
    for row, col in np.ndindex(rows.out, cols.out):
        lines = row * rows.stride + np.arange(rows.kernel) * rows.dilation
        places = col * cols.stride + np.arange(cols.kernel) * cols.dilation
        window = padded[:, lines][:, :, places]
        for group in range(groups):
            inner = window[..., group * depth : (group + 1) * depth]
            outer = slice(group * width // groups, (group + 1) * width // groups)
            out[:, row, col, outer] = np.tensordot(inner, kernel[..., outer], 3)
    return out


geometry = st.tuples(
    st.integers(1, 4),
    st.integers(1, 4),
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(1, 2),
    st.sampled_from(["SAME", "VALID"]),
    st.sampled_from([1, 2]),
    st.integers(1, 3),
)


def axes_of(spec: tuple[Any, ...]) -> tuple[Axis, Axis]:
    kh, kw, sh, sw, dilation, padding, _, _ = spec
    return (
        make_axis(9, kh, sh, dilation, padding),
        make_axis(10, kw, sw, dilation, padding),
    )


@given(geometry)
def test_convolution_is_the_sum_over_windows(spec: tuple[Any, ...]) -> None:
    rows, cols = axes_of(spec)
    x, kernel = normal(spec[7], 9, 10, 4), normal(spec[0], spec[1], 4 // spec[6], 6)
    np.testing.assert_allclose(
        numpy_conv.conv2d(x, kernel, rows, cols), naive(x, kernel, rows, cols), atol=1e-12
    )


@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("images", [1, 2, 7])
@pytest.mark.parametrize("stride", [1, 2])
def test_blocks_of_rows_and_images_change_nothing(
    monkeypatch: pytest.MonkeyPatch, stride: int, images: int, dilation: int
) -> None:
    rows = make_axis(9, 3, stride, dilation, "SAME")
    cols = make_axis(10, 2, stride, dilation, "SAME")
    x, kernel = normal(images, 9, 10, 4), normal(3, 2, 4, 5)
    expected = naive(x, kernel, rows, cols)
    monkeypatch.setattr(numpy_conv, "_MIN_PIXELS", 1)
    monkeypatch.setattr(numpy_conv, "_MIN_SHARED", 1)
    for size in (1, 1000, 5000, 1 << 20):
        monkeypatch.setattr(numpy_conv, "_BLOCK_BYTES", size)
        got = numpy_conv.conv2d(x, kernel, rows, cols)
        np.testing.assert_allclose(got, expected, atol=1e-12)


def test_products_of_many_small_images_take_all_of_them() -> None:
    rows, cols = make_axis(3, 3, 1, 1, "SAME"), make_axis(4, 2, 1, 1, "VALID")
    x, kernel = normal(90, 3, 4, 4), normal(3, 2, 4, 5)
    x[5, 1, 2, 3] = np.inf
    x[7, 0, 0, 0] = np.nan
    with np.errstate(invalid="ignore"):
        expected = naive(x, kernel, rows, cols)
        got = numpy_conv.conv2d(x, kernel, rows, cols)
    np.testing.assert_allclose(got, expected, atol=1e-12)


@pytest.mark.parametrize(
    ("images", "height", "width", "overlap"),
    [
        (1, 1, 1, 0),
        (1, 33, 40, 24),
        (1, 112, 112, 2),
        (8, 28, 28, 2),
        (300, 7, 7, 2),
        (2, 3, 500, 9),
    ],
)
def test_blocks_hold_each_output_once(images: int, height: int, width: int, overlap: int) -> None:
    shape = (images, height, width, 64)
    counts = np.zeros(shape[:2], int)
    for block in numpy_conv._blocks_of_windows(shape, 3 * 128 * 4, 9 * 128 * 64, overlap):
        counts[block] += 1
        pixels = counts[block].size * width
        is_last = block[0].stop >= images and block[1].stop == height
        assert is_last or pixels >= min(numpy_conv._MIN_PIXELS, images * height * width) // 2
    assert (counts == 1).all()


@given(geometry)
def test_depthwise_is_a_convolution_of_each_channel(spec: tuple[Any, ...]) -> None:
    rows, cols = axes_of(spec)
    multiplier = spec[6]
    x, kernel = normal(spec[7], 9, 10, 3), normal(spec[0], spec[1], 3, multiplier)
    expected = naive(x, kernel.reshape(*kernel.shape[:2], 1, 3 * multiplier), rows, cols)
    np.testing.assert_allclose(numpy_conv.depthwise(x, kernel, rows, cols), expected, atol=1e-12)


@pytest.mark.parametrize("dilation", [1, 2, 3])
@pytest.mark.parametrize("stride", [2, 3, 4])
def test_copied_columns_change_nothing(
    monkeypatch: pytest.MonkeyPatch, stride: int, dilation: int
) -> None:
    rows = make_axis(9, 2, stride, 1, "SAME")
    cols = make_axis(23, 5, stride, dilation, "SAME")
    x, kernel = normal(2, 9, 23, 3), normal(2, 5, 3, 1)
    x[0, 4, 7, 1] = np.inf  # a tap that a window does not have must not multiply it
    copied = numpy_conv.depthwise(x, kernel, rows, cols)
    monkeypatch.setattr(numpy_conv, "_MIN_LOOP", 1)
    in_place = numpy_conv.depthwise(x, kernel, rows, cols)
    np.testing.assert_allclose(copied, in_place, atol=1e-12)


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("images", [1, 2, 7])
def test_depthwise_pieces_change_nothing(
    monkeypatch: pytest.MonkeyPatch, images: int, stride: int
) -> None:
    rows, cols = make_axis(9, 3, stride, 1, "SAME"), make_axis(10, 2, stride, 1, "SAME")
    x, kernel = normal(images, 9, 10, 4), normal(3, 2, 4, 1)
    whole = numpy_conv.depthwise(x, kernel, rows, cols)
    monkeypatch.setattr(numpy_conv, "_MIN_SHARED_DEPTHWISE", 1)
    for work in (1 << 26, 100, 1):
        monkeypatch.setattr(numpy_conv, "_MAX_DEPTHWISE_WORK", work)
        np.testing.assert_array_equal(numpy_conv.depthwise(x, kernel, rows, cols), whole)


def test_large_depthwise_convolution_is_divided_among_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows, cols = make_axis(64, 3, 1, 1, "SAME"), make_axis(64, 3, 1, 1, "SAME")
    pieces = []
    monkeypatch.setattr(numpy_conv.HELPERS, "run", pieces.extend)
    numpy_conv.depthwise(normal(1, 64, 64, 16), normal(3, 3, 16, 1), rows, cols)
    assert not pieces
    numpy_conv.depthwise(normal(1, 64, 64, 64), normal(3, 3, 64, 1), rows, cols)
    assert len(pieces) == 2 * numpy_conv.HELPERS.processors


@given(geometry)
def test_gradients_are_the_adjoints(spec: tuple[Any, ...]) -> None:
    """<conv(x, k), g> = <x, input gradient> = <k, kernel gradient>, with groups and dilations."""
    rows, cols = axes_of(spec)
    groups = spec[6]
    x, kernel = normal(2, 9, 10, 4), normal(spec[0], spec[1], 4 // groups, 6)
    gradient = normal(2, rows.out, cols.out, 6)
    product = np.vdot(naive(x, kernel, rows, cols), gradient)
    by_input = numpy_grad.input_gradient(kernel, gradient, (rows, cols), 4)
    by_kernel = numpy_grad.kernel_gradient(x, gradient, (rows, cols), groups)
    assert by_input.shape == x.shape
    assert by_kernel.shape == kernel.shape
    np.testing.assert_allclose(np.vdot(x, by_input), product, atol=1e-9)
    np.testing.assert_allclose(np.vdot(kernel, by_kernel), product, atol=1e-9)


@given(geometry)
def test_depthwise_gradients_are_the_adjoints(spec: tuple[Any, ...]) -> None:
    rows, cols = axes_of(spec)
    multiplier = spec[6]
    x, kernel = normal(2, 9, 10, 3), normal(spec[0], spec[1], 3, multiplier)
    gradient = normal(2, rows.out, cols.out, 3 * multiplier)
    product = np.vdot(numpy_conv.depthwise(x, kernel, rows, cols), gradient)
    by_input = numpy_grad.depthwise_input_gradient(kernel, gradient, rows, cols)
    by_kernel = numpy_grad.depthwise_kernel_gradient(x, gradient, rows, cols, multiplier)
    np.testing.assert_allclose(np.vdot(x, by_input), product, atol=1e-9)
    np.testing.assert_allclose(np.vdot(kernel, by_kernel), product, atol=1e-9)


def test_volumes_are_sums_of_planes() -> None:
    axes = (
        make_axis(5, 2, 2, 1, "SAME"),
        make_axis(9, 1, 1, 1, "SAME"),
        make_axis(10, 1, 1, 1, "SAME"),
    )
    x, kernel = normal(1, 5, 9, 10, 3), normal(2, 1, 1, 3, 2)
    padded = np.pad(x, ((0, 0), (axes[0].before, axes[0].after), (0, 0), (0, 0), (0, 0)))
    expected = padded[:, 0:5:2] @ kernel[0, 0, 0] + padded[:, 1:6:2] @ kernel[1, 0, 0]
    np.testing.assert_allclose(numpy_conv.conv3d(x, kernel, *axes), expected, atol=1e-12)


ATTRS = {"strides": [1, 1, 1, 1], "padding": "SAME"}


def test_channels_first_is_the_same_convolution(call: Callable[..., Any]) -> None:
    x, kernel = normal(2, 5, 6, 3), normal(3, 2, 3, 4)
    last = call("Conv2D", x, kernel, **ATTRS)
    first = call("Conv2D", np.moveaxis(x, 3, 1), kernel, data_format="NCHW", **ATTRS)
    np.testing.assert_allclose(np.moveaxis(first, 1, 3), last)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_floats_are_summed_in_float32(call: Callable[..., Any], dtype: str) -> None:
    from graphmill import dtypes

    kind = dtypes.as_dtype(dtype).as_numpy_dtype
    # 2048 + 1 is 2048 in float16: a sum in float16 would stay there.
    x = np.ones((1, 1, 1, 4096)).astype(kind)
    out = call("Conv2D", x, np.ones((1, 1, 4096, 1)).astype(kind), **ATTRS)
    assert out.dtype == kind
    assert float(out.item()) == 4096


def test_inputs_are_not_modified(call: Callable[..., Any]) -> None:
    for op, kernel in (
        ("Conv2D", normal(3, 3, 2, 2)),
        ("DepthwiseConv2dNative", normal(3, 3, 2, 1)),
    ):
        x = normal(1, 4, 4, 2)
        for value in (x, kernel):
            value.flags.writeable = False
        call(op, x, kernel, **ATTRS)


@pytest.mark.parametrize(
    ("x", "kernel", "text"),
    [
        ((1, 4, 4, 3), (3, 3, 2, 4), "evenly divisible by filter depth: 3 vs 2"),
        ((1, 4, 4, 4), (3, 3, 2, 3), "number of groups: 3 vs 2"),
        ((4, 4, 3), (3, 3, 3, 4), "must be 4-dimensional"),
        ((1, 4, 4, 3), (3, 3, 0, 4), "filter depth"),
    ],
)
def test_shapes_that_do_not_fit(
    call: Callable[..., Any], x: tuple[int, ...], kernel: tuple[int, ...], text: str
) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=text):
        call("Conv2D", np.zeros(x, np.float32), np.zeros(kernel, np.float32), **ATTRS)


@pytest.mark.jax
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("dilation", [1, 2])
def test_numpy_and_jax_convolutions_agree(
    call: Callable[..., Any], call_jax: Callable[..., Any], groups: int, dilation: int
) -> None:
    x, kernel = normal(2, 7, 8, 4), normal(3, 2, 4 // groups, 6)
    attrs = {
        "strides": [1, 2, 1, 1],
        "padding": "SAME",
        "dilations": [1, dilation, dilation, 1],
    }
    np.testing.assert_allclose(
        call_jax("Conv2D", x, kernel, **attrs), call("Conv2D", x, kernel, **attrs), atol=1e-12
    )


@pytest.mark.jax
@pytest.mark.parametrize("groups", [1, 2])
def test_numpy_and_jax_transposed_convolutions_agree(
    call: Callable[..., Any], call_jax: Callable[..., Any], groups: int
) -> None:
    attrs = {"strides": [1, 2, 2, 1], "padding": "VALID", "dilations": [1, 1, 2, 1]}
    kernel, gradient = normal(3, 2, 4 // groups, 6), normal(2, 3, 3, 6)
    sizes = (2, 8, 8, 4)
    np.testing.assert_allclose(
        call_jax("Conv2DBackpropInput", sizes, kernel, gradient, **attrs),
        call("Conv2DBackpropInput", np.array(sizes, np.int32), kernel, gradient, **attrs),
        atol=1e-12,
    )
