"""Kernel that shuffles indices without a list of them.

Semantics: tensorflow/core/kernels/random_index_shuffle_ops.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill_plugins.kernels._support import shape_text
from graphmill_plugins.kernels.random._index_shuffle import shuffled_indices

if TYPE_CHECKING:
    from graphmill.spi import Value

_WORD = (1 << 32) - 1


@kernel("RandomIndexShuffle", host=True)
def random_index_shuffle(index: Value, seed: Value, max_index: Value, rounds: int) -> Value:
    """Return the positions of indices in pseudorandom permutations of 0 to `max_index`.

    Raises:
        InvalidArgumentError: a shape is wrong, an index exceeds the largest one, or the
            number of rounds is odd or below 4.
    """
    if rounds < 4 or rounds % 2:
        raise InvalidArgumentError(f"rounds must be even and at least 4, got {rounds}")
    count = max(np.size(index), np.size(max_index), np.size(seed) // 3)
    _check_shapes(index, seed, max_index, count)
    indices = np.broadcast_to(index, (count,)).astype(np.uint64)
    largest = np.broadcast_to(max_index, (count,)).astype(np.uint64)
    for row in np.flatnonzero(indices > largest):
        position, bound = (np.broadcast_to(each, (count,))[row] for each in (index, max_index))
        raise InvalidArgumentError(f"index {position} exceeds the largest index, {bound}")
    shuffled = np.empty(count, np.uint64)
    for (bound, *key), rows in _permutations(largest, seed).items():
        first, second, third = key
        shuffled[rows] = shuffled_indices(indices[rows], (first, second, third), bound, rounds)
    result = shuffled.astype(index.dtype)
    is_scalar = np.ndim(index) == np.ndim(max_index) == 0 and np.ndim(seed) == 1
    return result[0] if is_scalar else result


def _permutations(largest: Value, seed: Value) -> dict[tuple[int, ...], Any]:
    """Return the rows of each permutation, which a largest index and a seed choose."""
    if seed.ndim == 1 and (largest == largest[:1]).all():
        return {(int(bound), *_words(seed)): slice(None) for bound in largest[:1]}
    rows: dict[tuple[int, ...], list[int]] = {}
    keys = np.broadcast_to(seed, (len(largest), 3))
    for row, (bound, key) in enumerate(zip(largest.tolist(), keys, strict=True)):
        rows.setdefault((bound, *_words(key)), []).append(row)
    return rows


def _words(key: Value) -> list[int]:
    return [word & _WORD for word in key.tolist()]


def _check_shapes(index: Value, seed: Value, max_index: Value, count: int) -> None:
    for what, value in (("index", index), ("max_index", max_index)):
        if np.shape(value) not in ((), (count,)):
            raise InvalidArgumentError(
                f"{what} must be a scalar or a vector of {count} elements, got shape "
                f"{shape_text(np.shape(value))}"
            )
    if np.shape(seed) not in ((3,), (count, 3)):
        raise InvalidArgumentError(
            f"seed must be of shape [3] or [{count},3], got {shape_text(np.shape(seed))}"
        )
