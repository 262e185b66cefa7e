"""The algorithms that `jax_algorithms.py` compares: each shape with its alternatives."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from graphmill_plugins.kernels.jax import math_cumulative, nn_conv, nn_pool, nn_pool_grad
from graphmill_plugins.kernels.jax.nn_winograd import _LARGE, _SMALL, _convolve, _transform
from graphmill_plugins.kernels.nn.window import make_axis

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NO_YNN = {"xla_cpu_experimental_ynn_fusion_type": ""}
"""Compiler options that select Eigen instead of YNNPACK for dots and convolutions."""


@dataclass(slots=True)
class Case:
    """One shape of one computation.

    Attributes:
        arrays: makes the inputs.
        alternatives: functions of the inputs, or pairs of one and compiler options.
        chosen: the alternative that the kernels take.
        tensorflow: the same as an expression over `tf` and the inputs `a`, or "".
    """

    name: str
    arrays: Callable[[], list[Any]]
    alternatives: dict[str, Any]
    chosen: str = ""
    tensorflow: str = ""


def cases() -> Iterator[Case]:
    yield from dense()
    yield from depthwise()
    yield from pool_gradients()
    yield from cumulative()
    yield from indexed()
    yield from ranked()


def normal(*shapes: tuple[int, ...]) -> list[Any]:
    random = np.random.default_rng(0)
    return [random.standard_normal(shape).astype(np.float32) for shape in shapes]


def dense() -> Iterator[Case]:
    """Yield dense convolution cases; `chosen` is the selected alternative."""
    for n, size, c, o, k, stride, chosen in (
        (1, 56, 64, 64, 3, 1, "winograd 4"),
        (1, 28, 128, 128, 3, 1, "winograd 4"),
        (1, 14, 256, 256, 3, 1, "winograd 2"),
        (8, 14, 256, 256, 3, 1, "winograd 4"),
        (1, 7, 512, 512, 3, 1, "gathered"),
        (1, 35, 48, 64, 5, 1, "xla"),
        (1, 224, 3, 64, 7, 2, "xla"),
        (32, 28, 1, 16, 3, 1, "gathered"),
    ):
        axes = tuple(make_axis(size, k, stride, 1, "SAME") for _ in range(2))
        own = partial(_own, axes=axes)
        ways: dict[str, Any] = {
            "xla": own,
            "xla no ynn": (own, NO_YNN),
            "gathered": partial(_gathered, axes=axes),
        }
        weights = (k, k, c, o)
        if k == 3 and stride == 1 and c > 1:
            for tiles in (_LARGE, _SMALL):
                ways[f"winograd {tiles.step}"] = partial(_tiled, tiles=tiles, axes=axes)
        name = f"conv {n}x{size}x{size}x{c} {k}x{k}/{stride} {o}"
        yield Case(
            name,
            partial(_with_transforms, (n, size, size, c), weights),
            ways,
            chosen,
            f"tf.nn.conv2d(a[0], a[1], {stride}, 'SAME')",
        )


def _with_transforms(image: tuple[int, ...], weights: tuple[int, ...]) -> list[Any]:
    """Return image, weights and transformed weights, whose transform is done once."""
    x, kernel = normal(image, weights)
    if weights[0] != 3:
        return [x, kernel, np.zeros(0), np.zeros(0)]
    return [x, kernel, *(np.asarray(_transform(t, jnp.asarray(kernel))) for t in (_LARGE, _SMALL))]


def _own(x: Any, kernel: Any, _large: Any, _small: Any, *, axes: Any) -> Any:
    return nn_conv.convolve(x, kernel, axes, 1)


def _gathered(x: Any, kernel: Any, _large: Any, _small: Any, *, axes: Any) -> Any:
    return nn_conv.gathered(x, kernel, axes)


def _tiled(x: Any, _kernel: Any, large: Any, small: Any, *, tiles: Any, axes: Any) -> Any:
    return _convolve(tiles, x, large if tiles is _LARGE else small, axes)


def depthwise() -> Iterator[Case]:
    shapes = (
        ((1, 112, 32), 3),
        ((1, 28, 192), 3),
        ((8, 56, 144), 3),
        ((1, 28, 192), 7),
        ((1, 28, 96), 13),
    )
    for (n, size, c), taps in shapes:
        axes = tuple(make_axis(size, taps, 1, 1, "SAME") for _ in range(2))
        rows, cols = axes
        yield Case(
            f"depthwise {n}x{size}x{size}x{c} {taps}x{taps}/1",
            partial(normal, (n, size, size, c), (taps, taps, c, 1)),
            {
                "xla": partial(nn_conv.grouped_depthwise, rows=rows, cols=cols),
                "shifted": partial(nn_conv.shifted_depthwise, rows=rows, cols=cols),
                "rows": partial(nn_conv.looped_depthwise, rows=rows, cols=cols),
            },
            "shifted" if taps == 3 else "rows",
            "tf.nn.depthwise_conv2d(a[0], a[1], [1, 1, 1, 1], 'SAME')",
        )


def pool_gradients() -> Iterator[Case]:
    for n, size, c, k, stride in ((32, 14, 32, 2, 2), (8, 112, 64, 3, 2), (8, 35, 192, 3, 1)):
        axes = tuple(make_axis(size, k, stride, 1, "SAME") for _ in range(2))
        out = axes[0].out
        yield Case(
            f"max pool grad {n}x{size}x{size}x{c} {k}x{k}/{stride}",
            partial(_pooled, axes, (n, size, size, c), (n, out, out, c)),
            {
                "xla": partial(_select_and_scatter, axes=axes),
                "taps": partial(nn_pool_grad._max_gradient_by_taps, axes=axes),
            },
            "taps",
            "tf.raw_ops.MaxPoolGrad(orig_input=a[0], orig_output=a[1], grad=a[2], "
            f"ksize=[1, {k}, {k}, 1], strides=[1, {stride}, {stride}, 1], padding='SAME')",
        )


def _pooled(axes: Any, *shapes: tuple[int, ...]) -> list[Any]:
    x, gradient = normal(*shapes)
    return [x, np.asarray(nn_pool.max_pool(jnp.asarray(x), axes)), gradient]


def _select_and_scatter(x: Any, _out: Any, gradient: Any, axes: Any) -> Any:
    window, strides, pads = nn_pool.window_arguments(axes)
    start = np.float32(-np.inf)
    _, transpose = jax.vjp(
        lambda value: lax.reduce_window(value, start, lax.max, window, strides, pads), x
    )
    return transpose(gradient)[0]


def cumulative() -> Iterator[Case]:
    for shape, axis in (((1000,), 0), ((64, 512), 1), ((512, 64), 0), ((16, 128, 128), 1)):
        loop = partial(math_cumulative._loop, axis=axis, combine=jnp.add, start=0)
        yield Case(
            f"cumsum {'x'.join(map(str, shape))} axis {axis}",
            partial(normal, shape),
            {
                "xla": partial(jnp.cumsum, axis=axis),
                "associative": partial(lax.associative_scan, jnp.add, axis=axis),
                "loop": loop,
            },
            "loop",
            f"tf.cumsum(a[0], {axis})",
        )


def indexed() -> Iterator[Case]:
    for rows, width, count in ((1000, 1, 100), (10000, 64, 100), (200, 16, 10)):
        yield Case(
            f"segment sum {rows}x{width} to {count}",
            partial(_segments, rows, width, count),
            {
                "xla": partial(_scatter, count=count),
                "sorted": partial(_scatter, count=count, indices_are_sorted=True),
                "one-hot": partial(_one_hot, count=count),
            },
            "xla",
            f"tf.math.unsorted_segment_sum(a[0], a[1], {count})",
        )


def _segments(rows: int, width: int, count: int) -> list[Any]:
    ids = np.sort(np.random.default_rng(1).integers(0, count, rows)).astype(np.int32)
    return [*normal((rows, width)), ids]


def _scatter(x: Any, ids: Any, *, count: int, **keywords: Any) -> Any:
    return jnp.zeros((count, x.shape[1]), x.dtype).at[ids].add(x, mode="drop", **keywords)


def _one_hot(x: Any, ids: Any, *, count: int) -> Any:
    return (ids[None, :] == jnp.arange(count, dtype=ids.dtype)[:, None]).astype(x.dtype) @ x


def ranked() -> Iterator[Case]:
    for shape, k in (((64, 1000), 5), ((32, 10000), 10), ((100000,), 100)):
        yield Case(
            f"top-k {'x'.join(map(str, shape))} k {k}",
            partial(normal, shape),
            {"xla": lambda x, k=k: lax.top_k(x, k), "sort": partial(_sorted, k=k)},
            "xla",
            f"tf.math.top_k(a[0], {k})",
        )


def _sorted(x: Any, *, k: int) -> Any:
    places = lax.broadcasted_iota(np.int32, x.shape, x.ndim - 1)
    values, order = lax.sort((-x, places), num_keys=1)
    return -values[..., :k], order[..., :k]
