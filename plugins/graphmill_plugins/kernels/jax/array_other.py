"""Array ops whose JAX form is a primitive of its own."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jax import lax

from graphmill.runtime.kernel import kernel
from graphmill_plugins.kernels._support import to_ints
from graphmill_plugins.kernels.array_order import check_bounds

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    from graphmill.typing import ArrayNamespace, Value


@kernel("Bitcast", backend="jax", make=True)
def bitcast(
    _xp: ArrayNamespace,
    type: np.dtype[Any],  # noqa: A002 - the attr's name
) -> Callable[[Value], Value]:
    """Read the same bytes as another type; a size ratio becomes or consumes a last dimension."""
    return lambda x: lax.bitcast_convert_type(x, type)


def _bounds(side: str, sorted_inputs: Value, values: Value, out_type: np.dtype[Any]) -> Value:
    check_bounds(sorted_inputs, values)
    search = jax.vmap(partial(jnp.searchsorted, side=side))
    return search(sorted_inputs, values).astype(out_type)


@kernel("LowerBound", backend="jax")
def lower_bound(
    _xp: ArrayNamespace, sorted_inputs: Value, values: Value, *, out_type: np.dtype[Any]
) -> Value:
    """Return for each value of a row the number of sorted elements below it."""
    return _bounds("left", sorted_inputs, values, out_type)


@kernel("UpperBound", backend="jax")
def upper_bound(
    _xp: ArrayNamespace, sorted_inputs: Value, values: Value, *, out_type: np.dtype[Any]
) -> Value:
    """Return for each value of a row the number of sorted elements not above it."""
    return _bounds("right", sorted_inputs, values, out_type)


@kernel("UnravelIndex", backend="jax", static=("dims",))
def unravel_index(_xp: ArrayNamespace, indices: Value, dims: Value) -> Value:
    """Convert flat indices into one coordinate for each of `dims`."""
    places = jnp.unravel_index(indices, to_ints(dims))
    return jnp.stack(places).astype(dims.dtype)
