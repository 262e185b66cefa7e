"""Array ops that map to a JAX primitive."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill_plugins._lazy_jax import jax, jnp, lax
from graphmill_plugins.kernels._support import shape_text, to_ints
from graphmill_plugins.kernels.array.permute import check_bounds, check_not_empty

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import Value


@kernel("Bitcast", backend="jax", make=True)
def bitcast(
    T: np.dtype[Any],
    type: np.dtype[Any],  # noqa: A002 - the attr's name
) -> Callable[[Value], Value]:
    """Reinterpret the bytes as another type; a size ratio adds or removes a last dimension."""
    if "c" not in (T.kind, type.kind):
        return lambda x: lax.bitcast_convert_type(x, type)
    return partial(_complex_bitcast, T, type)


def _complex_bitcast(T: np.dtype[Any], type: np.dtype[Any], x: Value) -> Value:  # noqa: A002
    """Convert through bytes, because JAX has no bitcast of complex numbers."""
    ratio = max(T.itemsize, type.itemsize) // T.itemsize
    if ratio > 1 and x.shape[-1:] != (ratio,):
        raise InvalidArgumentError(
            f"Cannot bitcast from {T} to {type}: shape {shape_text(x.shape)} has to end in {ratio}"
        )
    parts = jnp.stack([x.real, x.imag], -1) if T.kind == "c" else x
    shape = x.shape[:-1] if ratio > 1 else x.shape
    pieces = T.itemsize // type.itemsize
    if pieces > 1:
        shape = (*shape, pieces)
    octets = lax.bitcast_convert_type(parts, np.uint8)
    if type.itemsize == 1:  # JAX adds no dimension for types of one byte
        return lax.bitcast_convert_type(octets.reshape(shape), type)
    if type.kind != "c":
        return lax.bitcast_convert_type(octets.reshape((*shape, type.itemsize)), type)
    half = np.dtype(f"f{type.itemsize // 2}")
    pairs = lax.bitcast_convert_type(octets.reshape((*shape, 2, half.itemsize)), half)
    return lax.complex(pairs[..., 0], pairs[..., 1])


def _bounds(side: str, sorted_inputs: Value, values: Value, out_type: np.dtype[Any]) -> Value:
    check_bounds(sorted_inputs, values)
    search = jax.vmap(partial(jnp.searchsorted, side=side))
    return search(sorted_inputs, values).astype(out_type)


@kernel("LowerBound", backend="jax")
def lower_bound(sorted_inputs: Value, values: Value, *, out_type: np.dtype[Any]) -> Value:
    """Return for each value the number of smaller elements in its sorted row."""
    return _bounds("left", sorted_inputs, values, out_type)


@kernel("UpperBound", backend="jax")
def upper_bound(sorted_inputs: Value, values: Value, *, out_type: np.dtype[Any]) -> Value:
    """Return for each value the number of elements in its sorted row that do not exceed it."""
    return _bounds("right", sorted_inputs, values, out_type)


@kernel("UnravelIndex", backend="jax", static=("dims",))
def unravel_index(indices: Value, dims: Value) -> Value:
    """Convert flat indices into one coordinate for each of `dims`."""
    check_not_empty(indices)
    coordinates = jnp.unravel_index(indices, to_ints(dims))
    return jnp.stack(coordinates).astype(dims.dtype)
