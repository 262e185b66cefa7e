"""Batch normalization, local response normalization, bias."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from graphmill import errors

if TYPE_CHECKING:
    from collections.abc import Callable

RNG = np.random.default_rng(5)


def vectors(channels: int) -> list[Any]:
    return [
        RNG.standard_normal(channels).astype(np.float32),
        RNG.standard_normal(channels).astype(np.float32),
        RNG.standard_normal(channels).astype(np.float32),
        RNG.uniform(0.5, 2, channels).astype(np.float32),
    ]


@pytest.mark.parametrize("data_format", ["NHWC", "NCHW"])
def test_inference_scales_and_shifts(call: Callable[..., Any], data_format: str) -> None:
    x = RNG.standard_normal((2, 3, 4, 5)).astype(np.float32)
    scale, offset, mean, variance = vectors(5)
    images = x if data_format == "NHWC" else np.moveaxis(x, 3, 1)
    out = call(
        "FusedBatchNormV3",
        images,
        scale,
        offset,
        mean,
        variance,
        is_training=False,
        epsilon=0.01,
        data_format=data_format,
    )
    y = out[0] if data_format == "NHWC" else np.moveaxis(out[0], 1, 3)
    expected = (x - mean) / np.sqrt(variance + 0.01) * scale + offset
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)


def test_training_corrects_the_variance_that_is_kept(call: Callable[..., Any]) -> None:
    x = RNG.standard_normal((2, 3, 4, 5)).astype(np.float32)
    scale, offset, _, _ = vectors(5)
    none = np.zeros(0, np.float32)
    out = call("FusedBatchNormV3", x, scale, offset, none, none, is_training=True)
    axes = (0, 1, 2)
    np.testing.assert_allclose(out[1], x.mean(axes), atol=1e-6)
    np.testing.assert_allclose(out[2], x.var(axes, ddof=1), rtol=1e-5)
    np.testing.assert_allclose(out[4], x.var(axes), rtol=1e-5)


def test_a_strided_input_gives_the_same(call: Callable[..., Any]) -> None:
    x = RNG.standard_normal((2, 6, 4, 5)).astype(np.float32)
    for part in (x[:, ::2], x[:, :, :1], x[:0]):
        got = call("FusedBatchNormV3", part, *(statistics := vectors(5)), is_training=False)[0]
        again = call("FusedBatchNormV3", part.copy(), *statistics, is_training=False)[0]
        np.testing.assert_array_equal(got, again)


def test_vectors_of_the_wrong_length_are_refused(call: Callable[..., Any]) -> None:
    x = np.zeros((2, 3, 4, 5), np.float32)
    with pytest.raises(errors.InvalidArgumentError, match="scale must have the same number"):
        call("FusedBatchNormV3", x, *vectors(4), is_training=False)


@pytest.mark.parametrize("beta", [0.5, 0.75, 1.0, 0.6])
def test_local_response_normalization_divides_by_neighbours(
    call: Callable[..., Any], beta: float
) -> None:
    x = RNG.standard_normal((1, 1, 1, 6)).astype(np.float32)
    got = call("LRN", x, depth_radius=1, bias=2.0, alpha=0.5, beta=beta)
    for channel in range(6):
        near = x[..., max(channel - 1, 0) : channel + 2]
        norm = (2 + 0.5 * (near**2).sum()) ** beta
        np.testing.assert_allclose(got[..., channel], x[..., channel] / norm, rtol=1e-5)


def test_bias_is_added_to_the_channels(call: Callable[..., Any]) -> None:
    x = np.zeros((2, 3, 4), np.int32)
    bias = np.arange(3, dtype=np.int32)
    got = call("BiasAdd", x, bias, data_format="NCHW")
    np.testing.assert_array_equal(got[0, :, 0], bias)
    with pytest.raises(errors.InvalidArgumentError, match="as many biases"):
        call("BiasAdd", x, bias)
