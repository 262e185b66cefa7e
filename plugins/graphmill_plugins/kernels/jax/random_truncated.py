"""StatelessTruncatedNormal on JAX, with the numbers of the NumPy kernel.

Each group of outputs takes samples from its own range of counters until it is complete. Most groups
are complete with the first counter; a loop draws for the others, some at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill.spi import kernel
from graphmill_plugins._lazy_jax import jnp, lax
from graphmill_plugins.kernels.random import _philox
from graphmill_plugins.kernels.random.stateless import from_key, scrambled

if TYPE_CHECKING:
    from graphmill.spi import Value

_BOUND: Final = 2
_MIN_GROUPS: Final = 16  # the least number of groups that are drawn together
_PART: Final = 4  # a quarter of the groups is redrawn at a time; at first a sixth is incomplete


@kernel("StatelessTruncatedNormal", backend="jax", static=("shape",))
def stateless_truncated_normal(shape: Value, seed: Value, dtype: np.dtype[Any]) -> Value:
    """Return floats of the standard normal distribution truncated at 2."""
    sizes, count = _philox.output_shape(shape)
    return _truncated_normal(scrambled(jnp, seed), count, dtype).reshape(sizes)


@kernel("StatelessTruncatedNormalV2", backend="jax", static=("shape", "alg"))
def stateless_truncated_normal_v2(
    shape: Value, key: Value, counter: Value, alg: Value, dtype: np.dtype[Any]
) -> Value:
    """Return floats of the standard normal distribution truncated at 2."""
    sizes, count = _philox.output_shape(shape)
    return _truncated_normal(from_key(jnp, key, counter, alg), count, dtype).reshape(sizes)


def _truncated_normal(generator: _philox.Philox, count: int, dtype: np.dtype[Any]) -> Value:
    size = 2 if dtype == np.float64 else 4
    groups = -(-count // size)
    if not groups:
        return jnp.zeros(0, dtype)
    wide = np.dtype(np.float64 if size == 2 else np.float32)
    stride = np.uint64(size * _philox.RESERVED_PER_OUTPUT // 4)
    at_once = min(groups, groups // _PART + _MIN_GROUPS)

    def drawn(rows: Any, rounds: Any) -> Any:
        counters = rows.astype(np.uint64) * stride + rounds.astype(np.uint64)
        return _philox.normal_at(jnp, generator, counters, wide)

    def is_pending(filled: Any, rounds: Any) -> Any:
        return (filled < size) & (rounds < _philox.RESERVED_PER_OUTPUT)

    def draw_some(state: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        out, filled, rounds = state
        pending = is_pending(filled, rounds)
        rows = jnp.nonzero(pending, size=at_once, fill_value=groups)[0]
        found = _filled(drawn(rows, rounds[rows]), out[rows], filled[rows])
        return (
            out.at[rows].set(found[0], mode="drop"),
            filled.at[rows].set(found[1], mode="drop"),
            rounds.at[rows].add(1, mode="drop"),
        )

    none = jnp.zeros(groups, np.int32)
    first = drawn(jnp.arange(groups), none)
    out, filled = _filled(first, jnp.zeros((groups, size), wide), none)
    state = (out, filled, none + 1)
    out = lax.while_loop(lambda s: is_pending(*s[1:]).any(), draw_some, state)[0]
    return out.reshape(-1)[:count].astype(dtype)


def _filled(values: Any, out: Any, filled: Any) -> tuple[Any, Any]:
    """Append the accepted values (groups, size) to the outputs of their groups, in order."""
    size = values.shape[1]
    for value in values.T:
        is_accepted = (jnp.abs(value) < _BOUND) & (filled < size)
        is_place = is_accepted[:, None] & (jnp.arange(size) == filled[:, None])
        out = jnp.where(is_place, value[:, None], out)
        filled = filled + is_accepted
    return out, filled
