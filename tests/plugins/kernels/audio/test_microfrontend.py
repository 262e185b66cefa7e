"""AudioMicrofrontend refuses attrs for which TensorFlow's arithmetic is undefined."""

from __future__ import annotations

import numpy as np
import pytest

from graphmill.errors import InvalidArgumentError
from graphmill_plugins.kernels.audio._fixed_fft import RealTransform

AUDIO = np.zeros(500, np.int16)


@pytest.mark.parametrize(
    "attrs",
    [
        {"sample_rate": 0},
        {"window_size": 0},
        {"window_step": 0},
        {"window_step": 26},
        {"num_channels": 0},
        {"smoothing_bits": 32},
        {"scale_shift": -1},
        {"left_context": -1},
        {"frame_stride": 0},
        {"even_smoothing": float("nan")},
        {"upper_band_limit": float("inf")},
        {"lower_band_limit": 8000.0},
        {"enable_pcan": True, "pcan_offset": -1.0},
        {"enable_pcan": True, "gain_bits": 3},
        {"out_scale": 0},
    ],
    ids=str,
)
def test_attr_out_of_range_is_refused(call, attrs):
    with pytest.raises(InvalidArgumentError):
        call("AudioMicrofrontend", AUDIO, **attrs)


def test_microfrontend_of_silence_is_zero(call):
    assert not np.any(call("AudioMicrofrontend", AUDIO))


@pytest.mark.parametrize("length", [4, 8, 64, 512])
def test_fixed_point_transform_is_close_to_the_exact_one(length):
    samples = np.random.default_rng(2).integers(-30000, 30000, (3, length)).astype(np.int16)
    real, imaginary = RealTransform(length)(samples)
    exact = np.fft.rfft(samples) / length
    np.testing.assert_allclose(real + 1j * imaginary, exact, atol=12)
