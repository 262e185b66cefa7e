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
from typing import TYPE_CHECKING, Final

import numpy as np

from graphmill_plugins._constants import is_prepared_once
from graphmill_plugins._lazy_jax import jnp, lax
from graphmill_plugins.kernels.jax._trace_once import trace_once

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.spi import Value
    from graphmill_plugins.kernels.nn.window import Axis


@dataclass(frozen=True, slots=True)
class _Tiles:
    """One tile size: the transforms of inputs, weights and outputs along an axis.

    Attributes:
        step: outputs of a tile along an axis; the tile reads two more inputs than that.
        inputs, outputs: return the transformed values of a tile's inputs or products.
        weights: the matrix that transforms weights.
    """

    step: int
    inputs: Callable[..., list[Value]]
    weights: tuple[tuple[float, ...], ...]
    outputs: Callable[..., list[Value]]

    @property
    def points(self) -> int:
        return self.step + 2


def _large_inputs(x0: Value, x1: Value, x2: Value, x3: Value, x4: Value, x5: Value) -> list[Value]:
    """Return the values of the tile's polynomial at the points 0, 1, -1, 2, -2, and its last one.

    Two points that differ in sign share their even and odd terms.
    """
    two, four, five = (lax.full_like(x0, number) for number in (2, 4, 5))
    even, odd = x4 - four * x2, x3 - four * x1
    even_of_2, odd_of_2 = x4 - x2, two * (x3 - x1)
    return [
        four * x0 - five * x2 + x4,
        even + odd,
        even - odd,
        even_of_2 + odd_of_2,
        even_of_2 - odd_of_2,
        four * x1 - five * x3 + x5,
    ]


def _large_outputs(m0: Value, m1: Value, m2: Value, m3: Value, m4: Value, m5: Value) -> list[Value]:
    """Return the sums of products at the points 0, 1, -1, 2, -2 and at infinity."""
    two, four, eight = (lax.full_like(m0, number) for number in (2, 4, 8))
    even, odd = m1 + m2, m1 - m2
    even_of_2, odd_of_2 = m3 + m4, m3 - m4
    return [
        m0 + even + even_of_2,
        odd + two * odd_of_2,
        even + four * even_of_2,
        odd + eight * odd_of_2 + m5,
    ]


_LARGE: Final = _Tiles(
    step=4,
    inputs=_large_inputs,
    weights=(
        (1 / 4, 0, 0),
        (-1 / 6, -1 / 6, -1 / 6),
        (-1 / 6, 1 / 6, -1 / 6),
        (1 / 24, 1 / 12, 1 / 6),
        (1 / 24, -1 / 12, 1 / 6),
        (0, 0, 1),
    ),
    outputs=_large_outputs,
)
_SMALL: Final = _Tiles(
    step=2,
    inputs=lambda x0, x1, x2, x3: [x0 - x2, x1 + x2, x2 - x1, x1 - x3],
    weights=((1, 0, 0), (0.5, 0.5, 0.5), (0.5, -0.5, 0.5), (0, 0, 1)),
    outputs=lambda m0, m1, m2, m3: [m0 + m1 + m2, m1 - m2 - m3],
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
    return _convolve(x, _transform(tiles, kernel), tiles, *axes)


@trace_once("tiles", "rows", "cols")
def _convolve(x: Value, weights: Value, tiles: _Tiles, rows: Axis, cols: Axis) -> Value:
    """Convolve with transformed weights.

    Values of a tile keep an axis of length one, along which the transformed ones are concatenated.
    """
    batch, channels, width = x.shape[0], x.shape[-1], weights.shape[-1]
    step, points = tiles.step, tiles.points
    tile_rows, tile_cols = (-(-axis.out // step) for axis in (rows, cols))
    pads = [
        (axis.before, count * step + 2 - axis.before - axis.size, 0)
        for axis, count in ((rows, tile_rows), (cols, tile_cols))
    ]
    x = lax.pad(x, np.zeros((), x.dtype), [(0, 0, 0), *pads, (0, 0, 0)])
    # The barriers stop XLA from recomputing the inner sums for every outer sum.
    partial = tiles.inputs(*_shifts(tiles, lax.expand_dims(x, (0, 1)), 3, tile_rows))
    partial = lax.optimization_barrier(lax.concatenate(partial, 0))
    grid = tiles.inputs(*_shifts(tiles, partial, 4, tile_cols))
    grid = lax.optimization_barrier(lax.concatenate(grid, 1))
    inputs = grid.reshape(points * points, batch * tile_rows * tile_cols, channels)
    products = lax.dot_general(inputs, weights, (((2,), (1,)), ((0,), (0,))))
    sums = lax.optimization_barrier(products)
    sums = sums.reshape(points, points, batch, tile_rows, 1, tile_cols, 1, width)
    partial = tiles.outputs(*_elements(sums, 0))
    partial = lax.optimization_barrier(lax.concatenate(partial, 4))
    out = lax.concatenate(tiles.outputs(*_elements(partial, 1)), 6)
    out = out.reshape(batch, tile_rows * step, tile_cols * step, width)
    return out[:, : rows.out, : cols.out]


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


def _elements(x: Value, axis: int) -> list[Value]:
    """Return the elements along an axis, which they keep."""
    return [lax.slice_in_dim(x, k, k + 1, axis=axis) for k in range(x.shape[axis])]
