"""Initial values of variables, as in `tf.compat.v1.initializers`.

    w = graphmill.Variable(graphmill.initializers.glorot_uniform(seed=1)([784, 10]), name="w")

An initializer is an object that is called with a shape (and optionally a type), and adds the nodes
of the value to the default graph. Names, arguments, seeds and values are TensorFlow's; those of
`orthogonal` depend on the QR decomposition. Semantics: tensorflow/python/ops/init_ops.py.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill import functions, ops
from graphmill.dtypes import as_dtype
from graphmill.errors import InvalidArgumentError
from graphmill.graph.infer_graph import infer_graph

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.dtypes import DType
    from graphmill.graph.tensor import Tensor
    from graphmill.ops.inputs.arguments import DTypeLike

    Shape = Sequence[int]

__all__ = [
    "Initializer",
    "constant",
    "glorot_normal",
    "glorot_uniform",
    "he_normal",
    "he_uniform",
    "identity",
    "lecun_normal",
    "lecun_uniform",
    "ones",
    "orthogonal",
    "random_normal",
    "random_uniform",
    "truncated_normal",
    "uniform_unit_scaling",
    "variance_scaling",
    "zeros",
]

# Standard deviation of the standard normal distribution when it is cut off at -2 and 2.
_TRUNCATED_STDDEV: Final = 0.87962566103423978
_MODES: Final = ("fan_in", "fan_out", "fan_avg")
_DISTRIBUTIONS: Final = ("normal", "uniform", "truncated_normal", "untruncated_normal")


class Initializer:
    """A callable that adds the nodes of an initial value.

    Attributes:
        dtype: the element type, unless the call gives another one.
    """

    def __init__(self, make: Callable[[Shape, DType], Tensor], dtype: DTypeLike) -> None:
        """Create an initializer from a function of the shape and the element type."""
        self._make = make
        self.dtype = as_dtype(dtype)

    def __call__(self, shape: Shape, dtype: DTypeLike | None = None) -> Tensor:
        """Return the initial value.

        Args:
            shape: its sizes, all known.
            dtype: its element type, by default that of the initializer.

        Raises:
            InvalidArgumentError: a size is unknown, or the initializer does not support the shape.
        """
        sizes = [-1 if size is None else int(size) for size in shape]
        if min(sizes, default=0) < 0:
            raise InvalidArgumentError(
                f"the shape {shape} of an initial value is not known; give all sizes"
            )
        return self._make(sizes, self.dtype if dtype is None else as_dtype(dtype))


def zeros(dtype: DTypeLike = "float32") -> Initializer:
    """Return an initializer of zeros."""
    return Initializer(functions.zeros, dtype)


def ones(dtype: DTypeLike = "float32") -> Initializer:
    """Return an initializer of ones."""
    return Initializer(functions.ones, dtype)


def constant(
    value: Any = 0, dtype: DTypeLike = "float32", verify_shape: bool = False
) -> Initializer:
    """Return an initializer with given values.

    Args:
        value: a number, list or array; if it has fewer elements than the shape, its last element is
            repeated.
        dtype: the element type.
        verify_shape: whether the value must have exactly the shape.

    Raises:
        InvalidArgumentError: on the call, if the value has more elements than the shape, or another
            shape with `verify_shape`.
    """

    def make(shape: Shape, target: DType) -> Tensor:
        values = np.asarray(value)
        if verify_shape and values.shape != tuple(shape):
            raise InvalidArgumentError(
                f"the value has the shape {list(values.shape)}, expected {list(shape)}"
            )
        size = math.prod(shape)
        if values.size > size or (not values.size and size):
            raise InvalidArgumentError(
                f"a value of {values.size} elements cannot fill the shape {list(shape)}"
            )
        flat = values.ravel()
        filled = np.concatenate([flat, np.repeat(flat[-1:], size - flat.size)]).reshape(shape)
        return infer_graph().constant(filled.tolist(), target, shape=shape)

    return Initializer(make, dtype)


def random_uniform(
    minval: Any = 0.0, maxval: Any = None, seed: int | None = None, dtype: DTypeLike = "float32"
) -> Initializer:
    """Return an initializer of numbers from `minval` to `maxval` (by default 1), excluded."""
    return Initializer(
        lambda shape, target: functions.random_uniform(shape, minval, maxval, target, seed), dtype
    )


def random_normal(
    mean: Any = 0.0, stddev: Any = 1.0, seed: int | None = None, dtype: DTypeLike = "float32"
) -> Initializer:
    """Return an initializer of numbers of a normal distribution."""
    return Initializer(
        lambda shape, target: functions.random_normal(shape, mean, stddev, target, seed), dtype
    )


def truncated_normal(
    mean: Any = 0.0, stddev: Any = 1.0, seed: int | None = None, dtype: DTypeLike = "float32"
) -> Initializer:
    """Return an initializer of a normal distribution within two standard deviations."""
    return Initializer(
        lambda shape, target: functions.truncated_normal(shape, mean, stddev, target, seed), dtype
    )


def uniform_unit_scaling(
    factor: float = 1.0, seed: int | None = None, dtype: DTypeLike = "float32"
) -> Initializer:
    """Return an initializer whose products with inputs keep the scale of the inputs."""

    def make(shape: Shape, target: DType) -> Tensor:
        limit = math.sqrt(3 / max(float(math.prod(shape[:-1])), 1.0)) * factor
        return functions.random_uniform(shape, -limit, limit, target, seed)

    return Initializer(make, dtype)


def variance_scaling(
    scale: float = 1.0,
    mode: str = "fan_in",
    distribution: str = "truncated_normal",
    seed: int | None = None,
    dtype: DTypeLike = "float32",
) -> Initializer:
    """Return an initializer whose variance is `scale` divided by the number of units.

    Args:
        scale: the scale, above 0.
        mode: which units are counted: "fan_in" (inputs), "fan_out" (outputs), "fan_avg" (mean).
        distribution: "truncated_normal" (also "normal"), "untruncated_normal" or "uniform".
        seed: the seed of the op.
        dtype: the element type.

    Raises:
        InvalidArgumentError: an argument has another value.
    """
    distribution = distribution.lower()
    if scale <= 0:
        raise InvalidArgumentError(f"`scale` must be a positive float, got {scale}")
    if mode not in _MODES:
        raise InvalidArgumentError(f"`mode` should be one of {_MODES}, got {mode!r}")
    if distribution not in _DISTRIBUTIONS:
        raise InvalidArgumentError(
            f"`distribution` should be one of {_DISTRIBUTIONS}, got {distribution!r}"
        )

    def make(shape: Shape, target: DType) -> Tensor:
        inputs, outputs = _fans(shape)
        units = {"fan_in": inputs, "fan_out": outputs, "fan_avg": (inputs + outputs) / 2}[mode]
        variance = scale / max(1.0, units)
        if distribution == "uniform":
            limit = math.sqrt(3.0 * variance)
            return functions.random_uniform(shape, -limit, limit, target, seed)
        if distribution == "untruncated_normal":
            return functions.random_normal(shape, 0.0, math.sqrt(variance), target, seed)
        stddev = math.sqrt(variance) / _TRUNCATED_STDDEV
        return functions.truncated_normal(shape, 0.0, stddev, target, seed)

    return Initializer(make, dtype)


def glorot_uniform(seed: int | None = None, dtype: DTypeLike = "float32") -> Initializer:
    """Return Glorot's (Xavier's) initializer with a uniform distribution."""
    return variance_scaling(1.0, "fan_avg", "uniform", seed, dtype)


def glorot_normal(seed: int | None = None, dtype: DTypeLike = "float32") -> Initializer:
    """Return Glorot's (Xavier's) initializer with a truncated normal distribution."""
    return variance_scaling(1.0, "fan_avg", "truncated_normal", seed, dtype)


def he_uniform(seed: int | None = None) -> Initializer:
    """Return He's initializer with a uniform distribution."""
    return variance_scaling(2.0, "fan_in", "uniform", seed)


def he_normal(seed: int | None = None) -> Initializer:
    """Return He's initializer with a truncated normal distribution."""
    return variance_scaling(2.0, "fan_in", "truncated_normal", seed)


def lecun_uniform(seed: int | None = None) -> Initializer:
    """Return LeCun's initializer with a uniform distribution."""
    return variance_scaling(1.0, "fan_in", "uniform", seed)


def lecun_normal(seed: int | None = None) -> Initializer:
    """Return LeCun's initializer with a truncated normal distribution."""
    return variance_scaling(1.0, "fan_in", "truncated_normal", seed)


def orthogonal(
    gain: float = 1.0, seed: int | None = None, dtype: DTypeLike = "float32"
) -> Initializer:
    """Return an initializer of matrices with orthonormal rows or columns, times `gain`.

    All axes but the last are one axis of the matrix.

    Raises:
        InvalidArgumentError: on the call, if the shape has fewer than two axes.
    """

    def make(shape: Shape, target: DType) -> Tensor:
        _check_rank(shape, len(shape) >= 2, "at least two axes")
        rows, columns = math.prod(shape[:-1]), shape[-1]
        tall = [max(rows, columns), min(rows, columns)]
        noise = functions.random_normal(tall, dtype=target, seed=seed)
        q, r = ops.linalg.qr(noise, full_matrices=False)
        q = q * ops.math.sign(ops.array.diag_part(r))  # so that the result is unique
        if rows < columns:
            q = functions.transpose(q)
        return gain * functions.reshape(q, list(shape))

    return Initializer(make, dtype)


def identity(gain: float = 1.0, dtype: DTypeLike = "float32") -> Initializer:
    """Return an initializer of identity matrices, times `gain`.

    Raises:
        InvalidArgumentError: on the call, if the shape does not have two axes.
    """

    def make(shape: Shape, target: DType) -> Tensor:
        _check_rank(shape, len(shape) == 2, "two axes")
        rows, columns = shape
        matrix = functions.eye(rows, columns, dtype=target)
        return matrix if gain == 1.0 else gain * matrix

    return Initializer(make, dtype)


def _fans(shape: Shape) -> tuple[float, float]:
    """Return the numbers of inputs and outputs of a unit with weights of a shape."""
    if not shape:
        return 1.0, 1.0
    if len(shape) == 1:
        return float(shape[0]), float(shape[0])
    receptive = math.prod(shape[:-2])
    return float(shape[-2] * receptive), float(shape[-1] * receptive)


def _check_rank(shape: Shape, is_valid: bool, expected: str) -> None:
    if not is_valid:
        raise InvalidArgumentError(
            f"The tensor to initialize must have {expected}, its shape is {list(shape)}"
        )
