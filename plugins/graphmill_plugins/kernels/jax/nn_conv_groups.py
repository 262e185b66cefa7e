"""Convolve in groups of channels on XLA's CPU backend.

XLA's own algorithm for groups of several channels takes up to ten times as long as it should. So
neighbouring groups are merged to parts of at least 16 channels, with weights of zero between the
groups of a part, and each part is convolved by itself (`docs/explanation/jax-kernels-on-cpu.md` has
measurements). An infinity or NaN in a channel makes the outputs of the other groups of its part
NaN, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from graphmill_plugins._lazy_jax import jnp

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import Value

_MIN_CHANNELS: Final = 16  # of the input of a part
_MAX_PARTS: Final = 16  # more take long to compile
_MAX_MERGED: Final = 8  # groups of a part; it computes this many times the products needed


def groups_of_part(channels: int, groups: int) -> int:
    """Return the number of groups to merge, or 0 if XLA's own algorithm is better."""
    width = channels // groups
    merged = max(-(-_MIN_CHANNELS // max(width, 1)), -(-groups // _MAX_PARTS))
    return min(merged, groups) if merged <= _MAX_MERGED else 0


def convolve_parts(
    x: Value,
    kernel: Value,
    groups: int,
    merged: int,
    convolve: Callable[[Value, Value], Value],
) -> Value:
    """Convolve by parts of at most `merged` groups; `convolve` computes a part."""
    width, outputs = x.shape[-1] // groups, kernel.shape[-1] // groups
    parts = []
    for first in range(0, groups, merged):
        last = min(first + merged, groups)
        weights = kernel[..., first * outputs : last * outputs]
        image = x[..., first * width : last * width]
        parts.append(convolve(image, block_diagonal(weights, last - first)))
    return jnp.concatenate(parts, -1)


def block_diagonal(weights: Value, groups: int) -> Value:
    """Return weights (…, in, groups * out) as (…, groups * in, groups * out).

    The weights between channels of different groups are zero.
    """
    if groups == 1:
        return weights
    *taps, width, outputs = weights.shape
    split = weights.reshape(*taps, 1, width, groups, outputs // groups)
    is_own = np.eye(groups, dtype=np.bool_).reshape(groups, 1, groups, 1)
    return jnp.where(is_own, split, 0).reshape(*taps, groups * width, outputs)
