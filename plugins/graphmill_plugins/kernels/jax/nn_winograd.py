"""Convolve with 3 by 3 windows by Winograd's minimal filtering.

F(4x4, 3x3) makes a tile of 4 by 4 outputs with 36 products for each pair of channels instead of
144, F(2x2, 3x3) a tile of 2 by 2 with 16 instead of 36. The overhead is sums over the tiles of the
input and the output. Measured against XLA's own convolution: 1.7 to 2.5 times as fast from
14x14x256 to 56x56x64 (`docs/explanation/jax-kernels-on-cpu.md`). The largest error is about ten
times that of the direct sum for the larger tile (1e-5 of the largest output in float32), and equal
to it for the smaller tile. An infinity or NaN in the input makes all outputs in its tiles NaN.

The algorithm: A. Lavin, S. Gray, "Fast algorithms for convolutional neural networks" (2015); points
0, 1, -1, 2, -2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill_plugins._constants import is_prepared_once
from graphmill_plugins._lazy_jax import jnp, lax

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.spi import Value
    from graphmill_plugins.kernels.nn.window import Axis


@dataclass(frozen=True, slots=True)
class _Tiles:
    """The transform matrices of one tile size, for inputs, weights and outputs.

    Attributes:
        step: outputs of a tile along an axis; the tile reads two more inputs than that.
    """

    step: int
    inputs: tuple[tuple[int, ...], ...]
    weights: tuple[tuple[float, ...], ...]
    outputs: tuple[tuple[int, ...], ...]

    @property
    def points(self) -> int:
        return self.step + 2


_LARGE: Final = _Tiles(
    step=4,
    inputs=(
        (4, 0, -5, 0, 1, 0),
        (0, -4, -4, 1, 1, 0),
        (0, 4, -4, -1, 1, 0),
        (0, -2, -1, 2, 1, 0),
        (0, 2, -1, -2, 1, 0),
        (0, 4, 0, -5, 0, 1),
    ),
    weights=(
        (1 / 4, 0, 0),
        (-1 / 6, -1 / 6, -1 / 6),
        (-1 / 6, 1 / 6, -1 / 6),
        (1 / 24, 1 / 12, 1 / 6),
        (1 / 24, -1 / 12, 1 / 6),
        (0, 0, 1),
    ),
    outputs=(
        (1, 1, 1, 1, 1, 0),
        (0, 1, -1, 2, -2, 0),
        (0, 1, 1, 4, 4, 0),
        (0, 1, -1, 8, -8, 1),
    ),
)
_SMALL: Final = _Tiles(
    step=2,
    inputs=((1, 0, -1, 0), (0, 1, 1, 0), (0, -1, 1, 0), (0, 1, 0, -1)),
    weights=((1, 0, 0), (0.5, 0.5, 0.5), (0.5, -0.5, 0.5), (0, 0, 1)),
    outputs=((1, 1, 1, 0), (0, 1, -1, -1)),
)
_MIN_CHANNELS: Final = 32
_MIN_SIZE: Final = 12
_MAX_WEIGHTS: Final = 1 << 20  # elements; their transform is up to four times as large
_MIN_LARGE_TILES: Final = 32  # with fewer, reading the larger weights takes the time saved


def is_worth_it(x: Value, kernel: Value, axes: Sequence[Axis], groups: int) -> bool:
    """Return whether Winograd filtering is expected to be faster for channels-last `x`.

    The weights must be transformed only once, tiles must not be mostly padding, and the matrix
    products need enough channels.
    """
    return (
        len(axes) == 2
        and groups == 1
        and x.dtype == np.float32
        and all(axis.kernel == 3 and axis.stride == axis.dilation == 1 for axis in axes)
        and all(axis.out >= _MIN_SIZE for axis in axes)
        and min(kernel.shape[-2:]) >= _MIN_CHANNELS
        and math.prod(kernel.shape) <= _MAX_WEIGHTS
        and is_prepared_once(kernel)
    )


def winograd(x: Value, kernel: Value, axes: Sequence[Axis]) -> Value:
    """Convolve channels-last `x` (N, H, W, C) with `kernel` (3, 3, C, O) and stride one."""
    count = x.shape[0] * math.prod(-(-axis.out // _LARGE.step) for axis in axes)
    tiles = _LARGE if count >= _MIN_LARGE_TILES else _SMALL
    return _convolve(tiles, x, _transform(tiles, kernel), axes)


def _convolve(tiles: _Tiles, x: Value, weights: Value, axes: Sequence[Axis]) -> Value:
    batch, channels, width = x.shape[0], x.shape[-1], weights.shape[-1]
    step, points = tiles.step, tiles.points
    high, wide = (-(-axis.out // step) for axis in axes)
    pads = [
        (axis.before, count * step + 2 - axis.before - axis.size, 0)
        for axis, count in zip(axes, (high, wide), strict=True)
    ]
    x = lax.pad(x, np.zeros((), x.dtype), [(0, 0, 0), *pads, (0, 0, 0)])
    # The barriers stop XLA from recomputing the inner sums for every outer sum.
    rows = _stacked(tiles.inputs, _shifts(tiles, x, 1, high), 0)
    grid = _stacked(tiles.inputs, _shifts(tiles, rows, 3, wide), 1)
    inputs = grid.reshape(points * points, batch * high * wide, channels)
    products = lax.dot_general(inputs, weights, (((2,), (1,)), ((0,), (0,))))
    sums = lax.optimization_barrier(products).reshape(points, points, batch, high, wide, width)
    lines = _stacked(tiles.outputs, [sums[k] for k in range(points)], 3)
    out = jnp.stack(_sums(tiles.outputs, [lines[k] for k in range(points)]), 4)
    out = out.reshape(batch, high * step, wide * step, width)
    return out[:, : axes[0].out, : axes[1].out]


def _transform(tiles: _Tiles, kernel: Value) -> Value:
    """Return the transformed weights of each point of a tile: (points squared, C, O)."""
    factors = jnp.asarray(tiles.weights, kernel.dtype)
    precision = lax.Precision.HIGHEST
    weights = jnp.einsum("ik,klco,jl->ijco", factors, kernel, factors, precision=precision)
    return weights.reshape(-1, *kernel.shape[2:])


def _shifts(tiles: _Tiles, x: Value, axis: int, count: int) -> list[Value]:
    """Return for each position in a tile the elements of all tiles at it, along `axis`."""
    stop = (count - 1) * tiles.step + 1
    return [lax.slice_in_dim(x, k, k + stop, tiles.step, axis) for k in range(tiles.points)]


def _stacked(table: Sequence[Sequence[int]], values: Sequence[Value], axis: int) -> Value:
    return lax.optimization_barrier(jnp.stack(_sums(table, values), axis))


def _sums(table: Sequence[Sequence[int]], values: Sequence[Value]) -> list[Value]:
    """Return the weighted sum of `values` for each row of factors."""
    return [_sum(factors, values) for factors in table]


def _sum(factors: Sequence[int], values: Sequence[Value]) -> Any:
    total = None
    for factor, value in zip(factors, values, strict=True):
        if factor:
            part = value if abs(factor) == 1 else value * np.asarray(abs(factor), value.dtype)
            if total is None:
                total = part if factor > 0 else -part
            else:
                total = total + part if factor > 0 else total - part
    return total
