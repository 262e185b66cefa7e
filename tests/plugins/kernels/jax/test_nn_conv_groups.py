"""Parts of several groups equal XLA's own convolution in groups."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

jax = pytest.importorskip("jax")
pytestmark = [pytest.mark.jax, pytest.mark.divided]

from graphmill_plugins.kernels.jax import nn_conv  # noqa: E402
from graphmill_plugins.kernels.jax.nn_conv_groups import (  # noqa: E402
    block_diagonal,
    convolve_parts,
    groups_of_part,
)
from graphmill_plugins.kernels.nn.window import make_axis  # noqa: E402

RNG = np.random.default_rng(4)
PLACES = [
    (make_axis(9, 3, 2, 1, "SAME"), make_axis(8, 3, 2, 1, "SAME")),
    (make_axis(7, 4, 3, 1, "EXPLICIT", 2, 1), make_axis(12, 3, 2, 1, "EXPLICIT", 0, 3)),
    (make_axis(9, 3, 2, 1, "VALID"),),
    (make_axis(5, 3, 2, 1, "SAME"), make_axis(6, 3, 2, 1, "VALID"), make_axis(7, 4, 3, 1, "SAME")),
]


@pytest.mark.parametrize("axes", PLACES, ids=range(len(PLACES)))
@pytest.mark.parametrize("merged", [1, 2, 3, 5])
def test_parts_equal_one_convolution(axes, merged):
    groups = 5
    x = RNG.standard_normal((2, *(axis.size for axis in axes), 2 * groups)).astype(np.float32)
    shape = (*(axis.kernel for axis in axes), 2, 3 * groups)
    kernel = RNG.standard_normal(shape).astype(np.float32)
    part = partial(nn_conv.convolve, axes=axes, groups=1)
    got = convolve_parts(x, kernel, groups, merged, part)
    expected = nn_conv.convolve(x, kernel, axes, groups)
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)


def test_weights_between_groups_are_zero():
    weights = np.array([[1, 2, 3, np.inf]], np.float32)
    expected = [[1, 2, 0, 0], [0, 0, 3, np.inf]]
    np.testing.assert_array_equal(block_diagonal(weights, 2), expected)


@pytest.mark.parametrize(
    ("channels", "groups", "merged"),
    [(128, 32, 4), (256, 32, 2), (512, 32, 2), (1024, 64, 4), (64, 2, 1), (12, 6, 6), (64, 32, 8)],
)
def test_parts_have_enough_channels_and_are_not_too_many(channels, groups, merged):
    assert groups_of_part(channels, groups) == merged


@pytest.mark.parametrize(("channels", "groups"), [(32, 32), (1024, 256)])
def test_parts_that_would_waste_too_much_are_not_made(channels, groups):
    assert groups_of_part(channels, groups) == 0
