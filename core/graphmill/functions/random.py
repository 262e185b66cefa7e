"""Random tensors, with the seeds that TensorFlow derives from those of the graph and of the op.

Semantics: tensorflow/python/ops/random_ops.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.dtypes import as_dtype
from graphmill.errors import InvalidArgumentError
from graphmill.functions._inputs import scope, shape_input
from graphmill.graph.infer_graph import infer_graph
from graphmill.graph.random_seed import get_seed
from graphmill.ops import math, random

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.graph.tensor import Tensor
    from graphmill.ops.inputs.arguments import DTypeLike, TensorLike


def random_uniform(
    shape: TensorLike,
    minval: TensorLike = 0,
    maxval: TensorLike | None = None,
    dtype: DTypeLike = "float32",
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Return numbers from `minval` (included) to `maxval` (excluded), all equally likely.

    Args:
        shape: the shape.
        minval, maxval: scalars; the default of `maxval` is 1, and there is none for integers.
        dtype: the element type.
        seed: the seed of the op; see `graphmill.get_seed`.
        name: name of the node.

    Raises:
        InvalidArgumentError: `maxval` is missing for an integer type.
    """
    target = as_dtype(dtype)
    if maxval is None:
        if target.is_integer:
            raise InvalidArgumentError(f"Must specify maxval for integer dtype {target.name}")
        maxval = 1
    with scope(name, "random_uniform", shape, minval, maxval) as (graph, prefix):
        is_unit = minval == 0 and maxval == 1 and isinstance(minval, int)
        seed1, seed2 = get_seed(seed, graph)
        sizes = shape_input(shape)
        if not is_unit or target.is_integer:
            low = graph.convert(minval, target, "min")
            high = graph.convert(maxval, target, "max")
        if target.is_integer:
            return random.random_uniform_int(sizes, low, high, seed=seed1, seed2=seed2, name=prefix)
        unit = random.random_uniform(sizes, dtype=target, seed=seed1, seed2=seed2)
        if is_unit:
            return unit
        if isinstance(minval, int) and minval == 0:
            return math.mul(unit, high)
        return math.add_v2(unit * (high - low), low, name=prefix)


def random_normal(
    shape: TensorLike,
    mean: TensorLike = 0.0,
    stddev: TensorLike = 1.0,
    dtype: DTypeLike = "float32",
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Return numbers of a normal distribution.

    Args:
        shape: the shape.
        mean, stddev: mean and standard deviation, which broadcast to the shape.
        dtype: the element type.
        seed: the seed of the op; see `graphmill.get_seed`.
        name: name of the node.
    """
    op = random.random_standard_normal
    return _normal(op, shape, mean, stddev, dtype, seed, name, "random_normal")


def truncated_normal(
    shape: TensorLike,
    mean: TensorLike = 0.0,
    stddev: TensorLike = 1.0,
    dtype: DTypeLike = "float32",
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Return numbers of a normal distribution within two standard deviations of the mean.

    Arguments as for `random_normal`.
    """
    op = random.truncated_normal
    return _normal(op, shape, mean, stddev, dtype, seed, name, "truncated_normal")


def random_shuffle(value: TensorLike, seed: int | None = None, name: str | None = None) -> Tensor:
    """Return a tensor with its slices along the first axis in a random order."""
    seed1, seed2 = get_seed(seed, infer_graph(value))
    return random.random_shuffle(value, seed=seed1, seed2=seed2, name=name)


def _normal(
    op: Callable[..., Tensor],
    shape: TensorLike,
    mean: TensorLike,
    stddev: TensorLike,
    dtype: DTypeLike,
    seed: int | None,
    name: str | None,
    default: str,
) -> Tensor:
    with scope(name, default, shape, mean, stddev) as (graph, prefix):
        center = graph.convert(mean, dtype, "mean")
        width = graph.convert(stddev, dtype, "stddev")
        seed1, seed2 = get_seed(seed, graph)
        noise = op(shape_input(shape), dtype=as_dtype(dtype), seed=seed1, seed2=seed2)
        return math.add_v2(noise * width, center, name=prefix)
