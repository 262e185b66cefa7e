"""Window positions equal those counted one by one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphmill import errors
from graphmill_plugins.kernels.nn.window import make_axis, make_windows

pytestmark = pytest.mark.divided

sizes = st.integers(1, 12)
small = st.integers(1, 4)


@given(sizes, small, small, small, st.sampled_from(["SAME", "VALID"]))
def test_taps_are_where_the_definition_says(
    size: int, kernel: int, stride: int, dilation: int, padding: str
) -> None:
    span = (kernel - 1) * dilation + 1
    if padding == "VALID" and span > size:
        return
    axis = make_axis(size, kernel, stride, dilation, padding)
    expected = -(-size // stride) if padding == "SAME" else (size - span) // stride + 1
    assert axis.out == expected
    for tap in range(kernel):
        places = [window * stride + tap * dilation for window in range(axis.out)]
        assert list(range(axis.padded))[axis.taps(tap)] == places
        windows, inputs = axis.overlap(tap)
        real = [
            (window, place - axis.before)
            for window, place in enumerate(places)
            if 0 <= place - axis.before < size
        ]
        assert [pair[0] for pair in real] == list(range(axis.out))[windows]
        assert [pair[1] for pair in real] == list(range(size))[inputs]


@given(sizes, small, small, st.integers(0, 3), st.integers(0, 3))
def test_counts_leave_padding_out(
    size: int, kernel: int, stride: int, before: int, after: int
) -> None:
    if kernel > size + before + after:
        return
    axis = make_axis(size, kernel, stride, 1, "EXPLICIT", before, after)
    for window, count in enumerate(axis.counts()):
        places = range(window * stride - before, window * stride - before + kernel)
        assert count == sum(0 <= place < size for place in places)


def test_a_window_longer_than_the_input_is_refused() -> None:
    with pytest.raises(errors.InvalidArgumentError, match="would be negative: -2"):
        make_axis(2, 5, 1, 1, "VALID")


def test_an_overshoot_below_a_stride_gives_no_output() -> None:
    assert make_axis(2, 5, 3, 1, "VALID").out == 0


@pytest.mark.parametrize(
    ("attrs", "error", "text"),
    [
        ({"strides": (1, 1, 1)}, errors.InvalidArgumentError, "must specify 4 dimensions"),
        ({"strides": (2, 1, 1, 1)}, errors.UnimplementedError, "batch and depth"),
        ({"strides": (1, 0, 1, 1)}, errors.InvalidArgumentError, "must be positive"),
        ({"data_format": "NCHW_VECT_C"}, errors.UnimplementedError, "int8 kernels"),
        ({"data_format": "HWNC"}, errors.InvalidArgumentError, "Invalid data format"),
        ({"explicit_paddings": (0,) * 8}, errors.InvalidArgumentError, "must be empty"),
        (
            {"padding": "EXPLICIT", "explicit_paddings": (1,) + (0,) * 7},
            errors.InvalidArgumentError,
            "batch or depth",
        ),
        (
            {"padding": "EXPLICIT", "explicit_paddings": (0,) * 6},
            errors.InvalidArgumentError,
            "must contain 8 values",
        ),
    ],
)
def test_invalid_attrs_are_distinguished(
    attrs: dict[str, object], error: type[Exception], text: str
) -> None:
    good = {"strides": (1, 1, 1, 1), "padding": "SAME", "data_format": "NHWC"}
    with pytest.raises(error, match=text):
        make_windows("Conv2D", **{**good, **attrs})  # type: ignore[arg-type]


@given(st.integers(1, 5), st.integers(1, 5), small, st.integers(0, 200))
def test_wide_dilations_match_unclamped_windows(
    size: int, kernel: int, stride: int, more: int
) -> None:
    dilation = 60 + more  # wider than any of these windows needs
    axis = make_axis(size, kernel, stride, dilation, "SAME")
    span = (kernel - 1) * dilation + 1
    before = max(0, (axis.out - 1) * stride + span - size) // 2
    assert axis.padded < 400
    for window in range(axis.out):
        for tap in range(kernel):
            expected = window * stride + tap * dilation - before
            found = window * stride + tap * axis.dilation - axis.before
            assert (found if 0 <= found < size else None) == (
                expected if 0 <= expected < size else None
            )
