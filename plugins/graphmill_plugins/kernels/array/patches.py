"""Extract patches of images and volumes: the elements under each window."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from graphmill.errors import InvalidArgumentError, OutOfRangeError, UnimplementedError
from graphmill.spi import kernel
from graphmill_plugins.kernels._support import check_size, shape_text
from graphmill_plugins.kernels.array.pad import pad_constant
from graphmill_plugins.kernels.nn.window import make_axis

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.spi import ArrayNamespace, Value


def _patches(
    xp: ArrayNamespace,
    x: Value,
    ksizes: Sequence[int],
    strides: Sequence[int],
    rates: Sequence[int],
    padding: str,
) -> Value:
    """Return patches in the last dimension, elements of a patch in row-major order.

    Raises:
        InvalidArgumentError: a window is longer than the image and nothing is padded.
    """
    space = x.shape[1:-1]
    axes = [make_axis(*row, padding) for row in zip(space, ksizes, strides, rates, strict=True)]
    out = (x.shape[0], *(axis.out for axis in axes), math.prod(ksizes) * x.shape[-1])
    check_size(out, itemsize=x.dtype.itemsize)
    added = [one.before + one.after for one in axes]
    wide = (size + more for size, more in zip(space, added, strict=True))
    check_size((x.shape[0], *wide, x.shape[-1]), "the padded input", itemsize=x.dtype.itemsize)
    padded = pad_constant(xp, x, [(0, 0), *((one.before, one.after) for one in axes), (0, 0)], 0)
    index: list[Value] = [slice(None)]
    rank = len(space)
    for position, axis in enumerate(axes):
        starts, taps = np.arange(axis.out) * axis.stride, np.arange(axis.kernel) * axis.dilation
        indices = starts[:, None] + taps
        shape = [1] * (2 * rank)
        shape[position], shape[rank + position] = axis.out, axis.kernel
        index.append(indices.reshape(shape))
    patches = padded[tuple(index)]
    return patches.reshape(out)


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
            raise OutOfRangeError(f"{name} is out of range: must be positive, got {list(vector)}")
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
    """Put the patch at each window position into the depth dimension."""
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
    """Put the patch at each window position into the depth dimension."""
    _check(volume, 5, ksizes=ksizes, strides=strides)
    return _patches(xp, volume, ksizes[1:4], strides[1:4], (1, 1, 1), padding)
