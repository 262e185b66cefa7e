"""Ops for single XLA instructions, which TensorFlow runs in compiled functions only.

Semantics: tensorflow/compiler/tf2xla/ops/xla_ops.cc and the operation semantics of XLA. Here they
are ordinary kernels, so graphs that contain them can be interpreted too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill_plugins.kernels._matmul import matmul_of
from graphmill_plugins.kernels._strings import encode
from graphmill_plugins.kernels._support import accumulator, check_size, shape_text, to_ints
from graphmill_plugins.kernels.linalg.decompositions import self_adjoint_eig_v2, svd
from graphmill_plugins.kernels.linalg.einsum import einsum
from graphmill_plugins.kernels.xla._dimensions import DotDimensions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.spi import ArrayNamespace, Value


@kernel("XlaOptimizationBarrier")
def optimization_barrier(_xp: ArrayNamespace, values: list[Value]) -> list[Value]:
    """Return the inputs."""
    return values


@kernel("XlaSharding", "XlaSetBound")
def sharded(_xp: ArrayNamespace, value: Value, *_: Value) -> Value:
    """Return the input: there is one device, so sharding does not change values or shapes."""
    return value


def _dot(
    xp: ArrayNamespace, lhs: Value, rhs: Value, dimension_numbers: str, dtype: np.dtype[Any]
) -> Value:
    dimensions = DotDimensions.parse(encode(dimension_numbers))
    dimensions.check(lhs.shape, rhs.shape)
    wide = accumulator(dtype)
    left, right = lhs.astype(wide), rhs.astype(wide)
    batch = tuple(lhs.shape[axis] for axis in dimensions.lhs_batch)
    left_free = dimensions.free(lhs.ndim, dimensions.lhs_batch, dimensions.lhs_contracting)
    right_free = dimensions.free(rhs.ndim, dimensions.rhs_batch, dimensions.rhs_contracting)
    rows = tuple(lhs.shape[axis] for axis in left_free)
    columns = tuple(rhs.shape[axis] for axis in right_free)
    check_size((*batch, *rows, *columns), itemsize=wide.itemsize)
    inner = int(np.prod([lhs.shape[axis] for axis in dimensions.lhs_contracting]))
    a = xp.transpose(left, (*dimensions.lhs_batch, *left_free, *dimensions.lhs_contracting))
    b = xp.transpose(right, (*dimensions.rhs_batch, *dimensions.rhs_contracting, *right_free))
    a = a.reshape((*batch, int(np.prod(rows)), inner))
    b = b.reshape((*batch, inner, int(np.prod(columns))))
    return matmul_of(xp)(a, b).reshape((*batch, *rows, *columns)).astype(dtype)


@kernel("XlaDot", expensive=True)
def xla_dot(
    xp: ArrayNamespace, lhs: Value, rhs: Value, dimension_numbers: str, T: np.dtype[Any]
) -> Value:
    """Contract and batch the dimensions that a `DotDimensionNumbers` message lists.

    Raises:
        InvalidArgumentError: the message cannot be parsed, or does not match the operands.
    """
    return _dot(xp, lhs, rhs, dimension_numbers, T)


@kernel("XlaDotV2", expensive=True)
def xla_dot_v2(
    xp: ArrayNamespace,
    lhs: Value,
    rhs: Value,
    dimension_numbers: str,
    preferred_element_type: np.dtype[Any],
) -> Value:
    """Contract and batch operands of two types, with sums in `preferred_element_type`."""
    return _dot(xp, lhs, rhs, dimension_numbers, preferred_element_type)


def _placed(xp: ArrayNamespace, x: Value, axis: int, source: Any, fill: Value) -> Value:
    """Return the elements at `source` along an axis, and `fill` where `source` is negative."""
    if not x.shape[axis]:
        shape = (*x.shape[:axis], len(source), *x.shape[axis + 1 :])
        return xp.broadcast_to(fill, shape)
    values = xp.take(x, np.maximum(source, 0), axis=axis)
    shape = (1,) * axis + (-1,) + (1,) * (x.ndim - axis - 1)
    return xp.where((source >= 0).reshape(shape), values, fill)


@kernel("XlaPad", static=("padding_low", "padding_high", "padding_interior"))
def xla_pad(
    xp: ArrayNamespace,
    x: Value,
    padding_value: Value,
    padding_low: Value,
    padding_high: Value,
    padding_interior: Value,
) -> Value:
    """Pad before, after and between elements; negative padding before or after removes elements."""
    amounts = [to_ints(value) for value in (padding_low, padding_high, padding_interior)]
    if any(len(numbers) != x.ndim for numbers in amounts) or padding_value.ndim:
        raise InvalidArgumentError(
            f"an input of shape {shape_text(x.shape)} needs a scalar padding_value and "
            f"{x.ndim} low, high and interior paddings, got {[list(part) for part in amounts]}"
        )
    if min(amounts[2], default=0) < 0:
        raise InvalidArgumentError(f"interior padding must not be negative: {list(amounts[2])}")
    sizes = [
        max(0, low + high + n + max(n - 1, 0) * inner)
        for n, low, high, inner in zip(x.shape, *amounts, strict=True)
    ]
    check_size(sizes, itemsize=x.dtype.itemsize)
    for axis, (low, _, inner) in enumerate(zip(*amounts, strict=True)):
        step = inner + 1
        offset = np.arange(sizes[axis]) - low
        inside = (offset >= 0) & (offset % step == 0) & (offset // step < x.shape[axis])
        x = _placed(xp, x, axis, np.where(inside, offset // step, -1), padding_value)
    return x


def _starts(xp: ArrayNamespace, indices: Value, shape: Sequence[int], sizes: Sequence[int]) -> Any:
    """Return the start indices of a slice, clamped so that it is inside the operand.

    Raises:
        InvalidArgumentError: the slice is larger than the operand, or its rank differs.
    """
    if indices.shape != (len(shape),) or len(sizes) != len(shape):
        raise InvalidArgumentError(
            f"a slice of shape {shape_text(shape)} needs {len(shape)} starts and sizes, got "
            f"{shape_text(indices.shape)} and {len(sizes)}"
        )
    room = [full - part for full, part in zip(shape, sizes, strict=True)]
    if min(room, default=0) < 0 or min(sizes, default=0) < 0:
        raise InvalidArgumentError(
            f"a slice of {shape_text(sizes)} does not fit into {shape_text(shape)}"
        )
    return xp.clip(indices.astype(np.int64), 0, np.array(room, np.int64))


@kernel("XlaDynamicSlice", static=("size_indices",))
def dynamic_slice(xp: ArrayNamespace, x: Value, start_indices: Value, size_indices: Value) -> Value:
    """Return the slice that begins at the start indices, which are clamped so that it fits."""
    sizes = to_ints(size_indices)
    starts = _starts(xp, start_indices, x.shape, sizes)
    for axis, size in enumerate(sizes):
        x = xp.take(x, starts[axis] + np.arange(size), axis=axis)
    return x


@kernel("XlaDynamicUpdateSlice")
def dynamic_update_slice(xp: ArrayNamespace, x: Value, update: Value, indices: Value) -> Value:
    """Write an update into the input at the indices, which are clamped so that it fits."""
    if update.ndim != x.ndim:
        raise InvalidArgumentError(
            f"the update must have the rank of the input: {shape_text(update.shape)} and "
            f"{shape_text(x.shape)}"
        )
    starts = _starts(xp, indices, x.shape, update.shape)
    rank = x.ndim
    region = tuple(
        (starts[axis] + np.arange(size)).reshape((1,) * axis + (-1,) + (1,) * (rank - axis - 1))
        for axis, size in enumerate(update.shape)
    )
    if xp is not np:
        return x.at[region].set(update)
    result = x.copy()
    result[region] = update
    return result


_LAYOUT = {
    "float16": (np.uint16, 5, 10),
    "bfloat16": (np.uint16, 8, 7),
    "float32": (np.uint32, 8, 23),
    "float64": (np.uint64, 11, 52),
}
"""For each type, the integer type of its size, and its exponent and mantissa bits."""


@kernel("XlaReducePrecision")
def reduce_precision(
    xp: ArrayNamespace, operand: Value, exponent_bits: int, mantissa_bits: int, T: np.dtype[Any]
) -> Value:
    """Round to a float format with fewer bits (ties to even), and convert back."""
    if exponent_bits < 1 or mantissa_bits < 0:
        raise InvalidArgumentError(
            f"exponent_bits must be >= 1 and mantissa_bits >= 0, got {exponent_bits} and "
            f"{mantissa_bits}"
        )
    kind, exponents, mantissas = _LAYOUT[T.name]
    one = np.asarray(1, kind)
    bits = operand.view(kind)
    sign = bits & (one << np.asarray(exponents + mantissas, kind))
    if mantissa_bits < mantissas:
        shift = np.asarray(mantissas - mantissa_bits, kind)
        last = (bits >> shift) & one
        bias = last + ((one << shift) >> one) - one
        bits = (bits + bias) & ~((one << shift) - one)
    whole = np.asarray((1 << exponents) - 1 << mantissas, kind)
    if exponent_bits < exponents:
        middle, reach = (1 << exponents - 1) - 1, (1 << exponent_bits - 1) - 1
        exponent = bits & whole
        highest = np.asarray(middle + reach << mantissas, kind)
        lowest = np.asarray(middle - reach << mantissas, kind)
        bits = xp.where(exponent > highest, sign | whole, bits)
        bits = xp.where(exponent <= lowest, sign, bits)
    return xp.where(xp.isnan(operand), operand, bits.view(T))


@kernel("XlaSort")
def xla_sort(xp: ArrayNamespace, x: Value) -> Value:
    """Sort along the last dimension."""
    return xp.sort(x, axis=-1)


@kernel("XlaKeyValueSort")
def key_value_sort(xp: ArrayNamespace, keys: Value, values: Value) -> tuple[Value, Value]:
    """Sort keys along the last dimension, and values in the same order."""
    if keys.shape != values.shape:
        raise InvalidArgumentError(
            "keys and values must have the same shape, got "
            f"{shape_text(keys.shape)} and {shape_text(values.shape)}"
        )
    order = xp.argsort(keys, axis=-1, stable=True)
    sorted_keys = xp.take_along_axis(keys, order, axis=-1)
    return sorted_keys, xp.take_along_axis(values, order, axis=-1)


@kernel("XlaEinsum", expensive=True)
def xla_einsum(xp: ArrayNamespace, a: Value, b: Value, equation: str, T: np.dtype[Any]) -> Value:
    """Contract two tensors according to an einsum equation."""
    return einsum(xp, equation, 2, T)([a, b])


@kernel("XlaBroadcastHelper", static=("broadcast_dims",))
def broadcast_helper(
    xp: ArrayNamespace, lhs: Value, rhs: Value, broadcast_dims: Value
) -> tuple[Value, Value]:
    """Insert dimensions of size one into the operand of lower rank, so that both broadcast.

    `broadcast_dims` maps each of its dimensions to a dimension of the other operand.

    Raises:
        InvalidArgumentError: their number is wrong, or one is out of range for the other operand.
    """
    del xp
    dims = to_ints(broadcast_dims)
    low, high = (lhs, rhs) if lhs.ndim < rhs.ndim else (rhs, lhs)
    if not dims:
        if lhs.ndim != rhs.ndim and low.ndim:
            raise InvalidArgumentError(
                "If broadcast_dims is empty, both arguments must have equal rank; argument shapes "
                f"are {shape_text(lhs.shape)} and {shape_text(rhs.shape)}"
            )
        return lhs, rhs
    if len(dims) != low.ndim or len(set(dims)) != len(dims):
        raise InvalidArgumentError(
            f"broadcast_dims must name {low.ndim} distinct dimensions, got {list(dims)}"
        )
    if any(not 0 <= dim < high.ndim for dim in dims):
        raise InvalidArgumentError(f"broadcast_dims must be in [0, {high.ndim}), got {list(dims)}")
    shape = [1] * high.ndim
    for dim, size in zip(dims, low.shape, strict=True):
        shape[dim] = size
    spread = low.reshape(shape)
    return (spread, rhs) if low is lhs else (lhs, spread)


@kernel("XlaSelfAdjointEig", expensive=True)
def xla_self_adjoint_eig(
    xp: ArrayNamespace, a: Value, lower: bool, T: np.dtype[Any]
) -> tuple[Value, Value]:
    """Return ascending eigenvalues and eigenvectors of self-adjoint matrices."""
    x = a if lower else xp.conj(xp.swapaxes(a, -1, -2))
    values, vectors = self_adjoint_eig_v2(xp, x, compute_v=True, T=T)
    return values, vectors


@kernel("XlaSvd", expensive=True)
def xla_svd(xp: ArrayNamespace, a: Value, T: np.dtype[Any]) -> tuple[Value, Value, Value]:
    """Return singular values, left and right singular vectors (as columns) of matrices."""
    return svd(xp, a, compute_uv=True, full_matrices=False, T=T)
