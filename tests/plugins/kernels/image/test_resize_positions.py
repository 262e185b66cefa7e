"""Positions of pixels are computed once for each pair of sizes."""

from __future__ import annotations

from graphmill_plugins.kernels.image.resize import linear_neighbors, nearest_pixels

LARGE = 5000


def test_linear_neighbors_are_kept() -> None:
    assert linear_neighbors(7, 5, False, True) is linear_neighbors(7, 5, False, True)
    shares = [linear_neighbors(7, 5, *how)[2].tolist() for how in ((False, True), (True, False))]
    assert shares[0] != shares[1]


def test_nearest_pixels_are_kept() -> None:
    assert nearest_pixels(9, 4, False, True) is nearest_pixels(9, 4, False, True)
    assert nearest_pixels(9, 4, False, True).tolist() == [1, 3, 5, 7]
    assert nearest_pixels(8, 4, False, True).tolist() == [1, 3, 5, 7]
    assert nearest_pixels(9, 4, True, False).tolist() == [0, 3, 5, 8]


def test_positions_of_large_images_are_not_kept() -> None:
    assert linear_neighbors(7, LARGE, False, True) is not linear_neighbors(7, LARGE, False, True)
    assert nearest_pixels(7, LARGE, False, True) is not nearest_pixels(7, LARGE, False, True)
