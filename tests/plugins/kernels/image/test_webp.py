"""Animated WebP files without alpha are decoded; TensorFlow's kernel corrupts memory."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

image = pytest.importorskip("PIL.Image")

if TYPE_CHECKING:
    from collections.abc import Callable


def test_frames_of_an_opaque_animation_are_decoded(call: Callable[..., Any]) -> None:
    pixels = np.random.default_rng(3).integers(0, 256, (3, 4, 5, 3), np.uint8)
    first, *others = [image.fromarray(frame) for frame in pixels]
    file = io.BytesIO()
    first.save(file, "WEBP", save_all=True, append_images=others, lossless=True)
    contents = np.array(file.getvalue(), object)
    np.testing.assert_array_equal(call("DecodeWebP", contents, channels=3), pixels)
