"""Read and change shapes, broadcast, and make tensors of one value."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.dtypes import as_dtype
from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill.spi.kernels import shape_of_value
from graphmill_plugins.kernels._support import (
    INT32_MAX,
    MAX_AXES,
    check_axis_count,
    check_size,
    checked_axis,
    checked_shape,
    is_numpy,
    is_string,
    on_objects,
    shape_text,
    to_ints,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.spi import ArrayNamespace, Shape, Value


# Shapes are static while a compiler traces. So these kernels return NumPy arrays on every backend,
# and arithmetic on shapes is evaluated during tracing.


@kernel("Shape", host_memory=("output",), make=True)
def shape_(
    _xp: ArrayNamespace, T: np.dtype[Any], out_type: np.dtype[Any]
) -> Callable[[Value], Value]:
    """Return the shape as a vector."""
    dtype = as_dtype(T)

    def read(x: Value) -> Value:
        shape = shape_of_value(x, dtype)
        _check_sizes(shape, out_type)
        return np.array(shape, out_type)

    return read


@kernel("ShapeN", host_memory=("output",), make=True)
def shape_n(
    _xp: ArrayNamespace, T: np.dtype[Any], out_type: np.dtype[Any]
) -> Callable[[list[Value]], list[Value]]:
    """Return the shapes of several tensors."""
    read = shape_(_xp, T, out_type)
    return lambda values: [read(value) for value in values]


def _check_sizes(sizes: Sequence[int], out_type: np.dtype[Any]) -> None:
    if out_type.itemsize == 4 and sizes and max(sizes) > INT32_MAX:
        raise InvalidArgumentError(f"Shape output type is 32-bit but dims are {list(sizes)}")


@kernel("Size", host_memory=("output",), make=True)
def size(
    _xp: ArrayNamespace, T: np.dtype[Any], out_type: np.dtype[Any]
) -> Callable[[Value], Value]:
    """Return the number of elements."""
    scalar, dtype = out_type.type, as_dtype(T)

    def count(x: Value) -> Value:
        elements = math.prod(shape_of_value(x, dtype))
        if elements > INT32_MAX:
            _check_sizes((elements,), out_type)
        return scalar(elements)

    return count


@kernel("Rank", host_memory=("output",), make=True)
def rank(_xp: ArrayNamespace, T: np.dtype[Any]) -> Callable[[Value], Value]:
    """Return the number of dimensions."""
    dtype = as_dtype(T)
    return lambda x: np.int32(len(shape_of_value(x, dtype)))


@kernel("Reshape", static=("shape",), make=True)
def reshape(_xp: ArrayNamespace, T: np.dtype[Any]) -> Callable[[Value, Value], Value]:
    """Change the shape; one size may be -1 and is inferred.

    Raises:
        InvalidArgumentError: the numbers of elements differ, or a size of -1 cannot be inferred.
    """

    def change(x: Value, shape: Value) -> Value:
        if shape.size > MAX_AXES:
            check_axis_count(shape, "shape")
        sizes = shape.tolist()
        if shape.ndim != 1:
            if shape.ndim:
                raise InvalidArgumentError(
                    f"sizes input must be 1-D, not of shape {shape_text(shape.shape)}"
                )
            sizes = [sizes]  # a scalar counts as a vector of one size
        if sizes and min(sizes) < -1:
            index, bad = next((i, s) for i, s in enumerate(sizes) if s < -1)
            raise InvalidArgumentError(f"Size {index} must be non-negative, not {bad}")
        try:
            return x.reshape(sizes)
        except (ValueError, TypeError, ZeroDivisionError):
            return _reshape_empty(x, sizes)

    return on_objects(change, T)


def _reshape_empty(x: Value, sizes: list[Any]) -> Value:
    """Reshape an empty tensor to sizes with -1 and 0; ignore 0 in both, like TensorFlow.

    Raises:
        InvalidArgumentError: the numbers of elements differ, or a size of -1 cannot be inferred.
    """
    if sizes.count(-1) == 1 and 0 in sizes and not x.size:
        product = math.prod(size for size in sizes if size > 0)
        inferred = math.prod(size for size in x.shape if size) // product
        return x.reshape([inferred if size == -1 else size for size in sizes])
    raise InvalidArgumentError(_reshape_message(x, sizes))


def _reshape_message(x: Value, sizes: list[Any]) -> str:
    if sizes.count(-1) > 1:
        return f"Only one input size may be -1, not both of {sizes}"
    if -1 not in sizes:
        return (
            f"Input to reshape is a tensor with {x.size} values, but the requested shape "
            f"{sizes} has {math.prod(sizes)} (input shape: {shape_text(x.shape)})"
        )
    product = math.prod(size for size in sizes if size > 0)
    return (
        f"Input to reshape is a tensor with {x.size} values, but the requested shape {sizes} "
        f"requires a multiple of {product}"
    )


@kernel("ExpandDims", static=("dim",), make=True)
def expand_dims(_xp: ArrayNamespace, T: np.dtype[Any]) -> Callable[[Value, Value], Value]:
    """Insert a dimension of size 1."""

    def insert(x: Value, dim: Value) -> Value:
        axis = checked_axis(dim.item(), x.ndim + 1, "dim")
        shape = x.shape
        return x.reshape((*shape[:axis], 1, *shape[axis:]))

    return on_objects(insert, T)


@kernel("Squeeze", make=True)
def squeeze(
    _xp: ArrayNamespace, T: np.dtype[Any], squeeze_dims: tuple[int, ...]
) -> Callable[[Value], Value]:
    """Remove dimensions of size 1, all or the given ones.

    Raises:
        InvalidArgumentError: a given dimension is out of range or of another size.
    """

    def remove(x: Value) -> Value:
        shape = x.shape
        if not squeeze_dims:
            return x.reshape([size for size in shape if size != 1])
        axes = {checked_axis(axis, len(shape), "squeeze_dims") for axis in squeeze_dims}
        for axis in axes:
            if shape[axis] != 1:
                raise InvalidArgumentError(
                    f"Can not squeeze dim[{axis}], expected a dimension of 1, got {shape[axis]}"
                )
        return x.reshape([size for axis, size in enumerate(shape) if axis not in axes])

    return on_objects(remove, T)


@kernel("EnsureShape", make=True)
def ensure_shape(_xp: ArrayNamespace, T: np.dtype[Any], shape: Shape) -> Callable[[Value], Value]:
    """Return the input if its shape fits; -1 stands for any size.

    Raises:
        InvalidArgumentError: it does not fit.
    """
    dtype = as_dtype(T)

    def check(x: Value) -> Value:
        actual = shape_of_value(x, dtype)
        if shape is None or actual == shape:
            return x
        if len(actual) != len(shape) or any(
            expected not in (-1, size) for expected, size in zip(shape, actual, strict=True)
        ):
            raise InvalidArgumentError(
                f"Shape of tensor {shape_text(actual)} is not compatible with expected shape "
                f"{shape_text(shape)}."
            )
        return x

    return check


@kernel("Transpose", static=("perm",), make=True)
def transpose(_xp: ArrayNamespace, T: np.dtype[Any]) -> Callable[[Value, Value], Value]:
    """Reorder the dimensions; a view where the namespace has views."""

    def reorder(x: Value, perm: Value) -> Value:
        axes = _checked_permutation(perm, x.ndim)
        return x.transpose(axes)

    return on_objects(reorder, T)


@kernel("ConjugateTranspose", static=("perm",), make=True)
def conjugate_transpose(xp: ArrayNamespace, T: np.dtype[Any]) -> Callable[[Value, Value], Value]:
    """Reorder the dimensions and conjugate complex elements."""
    reorder = transpose(xp, T)
    if T.kind != "c":
        return reorder
    return lambda x, perm: xp.conj(reorder(x, perm))


def _checked_permutation(perm: Value, rank: int) -> list[int]:
    """Return a permutation as a list."""
    if perm.shape != (rank,):
        raise InvalidArgumentError(
            f"transpose expects a vector of size {rank}. But input(1) is a vector of size "
            f"{perm.size} and shape {shape_text(perm.shape)}"
        )
    axes: list[int] = perm.tolist()
    for axis in axes:
        if not -rank <= axis < rank:
            raise InvalidArgumentError(f"{axis} is out of range [0 .. {rank})")
    if len({axis % rank for axis in axes}) != rank:
        raise InvalidArgumentError(f"perm {axes} is not a permutation of 0 .. {rank - 1}")
    return axes


@kernel("BroadcastTo", static=("shape",), make=True)
def broadcast_to(xp: ArrayNamespace, T: np.dtype[Any]) -> Callable[[Value, Value], Value]:
    """Repeat along dimensions of size 1; a read-only view where the namespace has views."""

    def repeat(x: Value, shape: Value) -> Value:
        sizes = checked_shape(shape)
        check_size(sizes, itemsize=T.itemsize)
        try:
            return xp.broadcast_to(x, sizes)
        except ValueError:
            raise InvalidArgumentError(
                f"Incompatible shapes: cannot broadcast {shape_text(x.shape)} to "
                f"{shape_text(sizes)}"
            ) from None

    return on_objects(repeat, T)


@kernel("BroadcastArgs", static=("s0", "s1"))
def broadcast_args(_xp: ArrayNamespace, s0: Value, s1: Value) -> Value:
    """Return the shape that two shapes broadcast to; negative sizes are accepted."""
    pairs = _pairs(s0, s1)
    return np.array([b if a == 1 else a for a, b in pairs], s0.dtype)


def _pairs(s0: Value, s1: Value) -> list[tuple[int, int]]:
    """Return the sizes that two shapes have along each axis of the longer one.

    Raises:
        InvalidArgumentError: they do not broadcast, or one is not a vector.
    """
    for name, pair_shape in (("s0", s0), ("s1", s1)):
        if pair_shape.ndim != 1:
            raise InvalidArgumentError(
                f"In[{name}] must be a vector, got shape {shape_text(pair_shape.shape)}"
            )
    count = max(len(s0), len(s1))
    x, y = ((1,) * (count - len(s)) + tuple(to_ints(s)) for s in (s0, s1))
    pairs = list(zip(x, y, strict=True))
    if any(a != b and 1 not in (a, b) for a, b in pairs):
        raise _incompatible(s0, s1)
    return pairs


def _incompatible(s0: Value, s1: Value) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"Incompatible shapes: {shape_text(to_ints(s0))} vs. {shape_text(to_ints(s1))}"
    )


@kernel("BroadcastGradientArgs", static=("s0", "s1"))
def broadcast_gradient_args(_xp: ArrayNamespace, s0: Value, s1: Value) -> tuple[Value, Value]:
    """Return the dimensions over which gradients of broadcast operands are summed.

    Semantics: tensorflow/core/util/bcast.h.
    """
    pairs = _pairs(s0, s1)
    are_same = s0.shape == s1.shape and all(a == b for a, b in pairs)
    reduce_x = [axis for axis, (a, _) in enumerate(pairs) if a == 1 and not are_same]
    reduce_y = [axis for axis, (_, b) in enumerate(pairs) if b == 1 and not are_same]
    return np.array(reduce_x, s0.dtype), np.array(reduce_y, s0.dtype)


@kernel("Fill", static=("dims",))
def fill(xp: ArrayNamespace, dims: Value, value: Value, *, T: np.dtype[Any]) -> Value:
    """Make a tensor of one value."""
    sizes = checked_shape(dims.reshape(-1) if dims.ndim == 0 else dims, "dims")
    if shape := shape_of_value(value, as_dtype(T)):
        if shape != (1,):  # a vector of one element counts as a scalar
            raise InvalidArgumentError(f"value must be a scalar, got shape {shape_text(shape)}")
        value = value.reshape(())
    check_size(sizes, itemsize=T.itemsize)
    if T.kind != "O" and not is_numpy(xp):
        return xp.full(sizes, value, T)
    result = np.empty(sizes, T)
    if T.kind == "O" and isinstance(value, np.ndarray):
        value = value[()]
    result.fill(value)
    return result


@kernel("ZerosLike", make=True)
def zeros_like(xp: ArrayNamespace, T: np.dtype[Any]) -> Callable[[Value], Value]:
    """Make zeros, or empty strings, of the input's shape."""
    if is_string(T):
        return lambda x: np.full(x.shape, b"", object)
    return lambda x: xp.zeros(x.shape, T)


@kernel("OnesLike", make=True)
def ones_like(xp: ArrayNamespace, T: np.dtype[Any]) -> Callable[[Value], Value]:
    """Make ones of the input's shape."""
    return lambda x: xp.ones(x.shape, T)


@kernel("Bitcast", backend="numpy", make=True)
def bitcast(
    T: np.dtype[Any],
    type: np.dtype[Any],  # noqa: A002 - the attr's name
) -> Callable[[Value], Value]:
    """Reinterpret the bytes as another type; a size ratio adds or removes a last dimension."""
    if T.itemsize == type.itemsize:
        return lambda x: x.view(type)
    if T.itemsize > type.itemsize:
        ratio = T.itemsize // type.itemsize
        return lambda x: np.array(x, order="C", ndmin=1).view(type).reshape((*x.shape, ratio))
    ratio = type.itemsize // T.itemsize

    def join(x: Value) -> Value:
        if x.ndim == 0 or x.shape[-1] != ratio:
            raise InvalidArgumentError(
                f"Cannot bitcast from {T} to {type}: shape {shape_text(x.shape)} has to end in "
                f"{ratio}"
            )
        return np.ascontiguousarray(x).view(type).reshape(x.shape[:-1])

    return join


@kernel("TileGrad", static=("multiples",))
def tile_grad(xp: ArrayNamespace, x: Value, multiples: Value) -> Value:
    """Sum the tiles of a tiled tensor."""
    times = to_ints(multiples)
    pairs = [(count, size // count) for count, size in zip(times, x.shape, strict=True)]
    tiles = x.reshape([size for pair in pairs for size in pair])
    return xp.sum(tiles, axis=tuple(range(0, 2 * x.ndim, 2)), dtype=x.dtype)


@kernel("Tile", static=("multiples",), make=True)
def tile(xp: ArrayNamespace, T: np.dtype[Any]) -> Callable[[Value, Value], Value]:
    """Repeat the whole tensor along each dimension.

    Raises:
        InvalidArgumentError: there is not one multiple for each dimension, or one is negative.
    """

    def repeat(x: Value, multiples: Value) -> Value:
        times = checked_shape(multiples, "multiples")
        if len(times) != x.ndim:
            raise InvalidArgumentError(
                f"Expected multiples argument to be a vector of length {x.ndim} but got length "
                f"{len(times)}"
            )
        shape = [count * size for count, size in zip(times, x.shape, strict=True)]
        check_size(shape, itemsize=T.itemsize)
        spread = x.reshape([size for s in x.shape for size in (1, s)])
        full = [size for pair in zip(times, x.shape, strict=True) for size in pair]
        if is_numpy(xp):  # a tenth of the time of `broadcast_to` for a small tensor
            tiles = np.empty(full, x.dtype)
            tiles[...] = spread
            return tiles.reshape(shape)
        return xp.broadcast_to(spread, full).reshape(shape)

    return on_objects(repeat, T)
