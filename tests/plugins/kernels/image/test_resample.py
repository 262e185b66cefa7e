"""Products of images and weights of rows and columns, in any order."""

from __future__ import annotations

import numpy as np
import pytest

from graphmill_plugins.kernels.image.resample import cubic_weights, resampled


@pytest.mark.parametrize("batch", [0, 1, 3])
@pytest.mark.parametrize("channels", [1, 3, 20])
@pytest.mark.parametrize("height", [5, 11, 23])
def test_rows_and_columns_are_multiplied(batch: int, channels: int, height: int) -> None:
    images = np.random.default_rng(height).random((batch, 11, 9, channels), np.float32)
    down, across = (
        cubic_weights(size, new, align_corners=False, half=True)
        for size, new in ((11, height), (9, 7))
    )
    expected = np.einsum("oh,bhwc,pw->bopc", *map(np.float64, (down, images, across)))
    result = resampled(np, images, down, across)
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, expected, atol=1e-6)
