"""Patches of images and volumes: what lies under a window, for each of its places."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from graphmill.errors import InvalidArgumentError, UnimplementedError
from graphmill.runtime.kernel import kernel
from graphmill_plugins.kernels._support import shape_text
from graphmill_plugins.kernels.array.pad import pad_constant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.typing import ArrayNamespace, Value


def _window(size: int, kernel_size: int, stride: int, rate: int, padding: str) -> list[int]:
    """Return the number of places of a window and the padding before and after."""
    extent = kernel_size + (kernel_size - 1) * (rate - 1)
    if padding == "VALID":
        return [max((size - extent) // stride + 1, 0), 0, 0]
    count = -(-size // stride)
    missing = max((count - 1) * stride + extent - size, 0)
    return [count, missing // 2, missing - missing // 2]


def _patches(
    xp: ArrayNamespace,
    x: Value,
    ksizes: Sequence[int],
    strides: Sequence[int],
    rates: Sequence[int],
    padding: str,
) -> Value:
    """Return patches in the last dimension, elements of a patch in row-major order."""
    space = x.shape[1:-1]
    windows = [_window(*row, padding) for row in zip(space, ksizes, strides, rates, strict=True)]
    padded = pad_constant(
        xp, x, [(0, 0), *((before, after) for _, before, after in windows), (0, 0)], 0
    )
    index: list[Value] = [slice(None)]
    rank = len(space)
    for axis, ((count, _, _), size, stride, rate) in enumerate(
        zip(windows, ksizes, strides, rates, strict=True)
    ):
        places = np.arange(count)[:, None] * stride + np.arange(size)[None, :] * rate
        shape = [1] * (2 * rank)
        shape[axis], shape[rank + axis] = count, size
        index.append(places.reshape(shape))
    patches = padded[tuple(index)]
    counts = [count for count, _, _ in windows]
    return patches.reshape((x.shape[0], *counts, math.prod(ksizes) * x.shape[-1]))


def _check(x: Value, rank: int, **vectors: tuple[int, ...]) -> None:
    for name, vector in vectors.items():
        if len(vector) != rank:
            raise InvalidArgumentError(f"{name} must have {rank} elements, got {list(vector)}")
        if vector[0] != 1 or vector[-1] != 1:
            raise UnimplementedError(
                f"{name} must be 1 for batch and depth: only patches across space are supported; "
                f"got {list(vector)}"
            )
        if min(vector) <= 0:
            raise InvalidArgumentError(f"{name} must be positive, got {list(vector)}")
    if x.ndim != rank:
        raise InvalidArgumentError(f"input must be {rank}-dimensional, got {shape_text(x.shape)}")


@kernel("ExtractImagePatches")
def extract_image_patches(
    xp: ArrayNamespace,
    images: Value,
    *,
    ksizes: tuple[int, ...],
    strides: tuple[int, ...],
    rates: tuple[int, ...],
    padding: str,
) -> Value:
    """Put the patch under each place of a window into the depth dimension."""
    _check(images, 4, ksizes=ksizes, strides=strides, rates=rates)
    return _patches(xp, images, ksizes[1:3], strides[1:3], rates[1:3], padding)


@kernel("ExtractVolumePatches")
def extract_volume_patches(
    xp: ArrayNamespace,
    volume: Value,
    *,
    ksizes: tuple[int, ...],
    strides: tuple[int, ...],
    padding: str,
) -> Value:
    """Put the patch under each place of a window into the depth dimension."""
    _check(volume, 5, ksizes=ksizes, strides=strides)
    return _patches(xp, volume, ksizes[1:4], strides[1:4], (1, 1, 1), padding)
