"""SparseCrossHashed: cross the features of several columns row by row, and hash each combination.

Semantics: tensorflow/core/kernels/sparse_cross_op.cc. Integers are hashed by the lower four of
their bytes; those of dense inputs are their own hashes unless the hash is strong.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill_plugins.kernels._support import scalar_int, shape_text
from graphmill_plugins.kernels.sparse.cross import combine_columns, cross_rows, joined_hashes
from graphmill_plugins.kernels.string._fingerprint import MAX_SCALAR_HASHES, fingerprints
from graphmill_plugins.kernels.string._sip_hash import sip_hashes
from graphmill_plugins.kernels.string.hash import fingerprint64

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.spi import Value
    from graphmill_plugins.kernels.sparse.cross import Column

_MAX_INT64: Final = (1 << 63) - 1
_MASK: Final = (1 << 64) - 1
_HASHED_BYTES: Final = 4  # of an integer


@kernel("SparseCrossHashed", host=True)
def sparse_cross_hashed(
    indices: list[Value],
    values: list[Value],
    shapes: list[Value],
    dense_inputs: list[Value],
    num_buckets: Value,
    strong_hash: Value,
    salt: Value,
) -> tuple[Value, Value, Value]:
    """Cross columns, and return the bucket of each combination, or its hash without buckets.

    Raises:
        InvalidArgumentError: `salt` does not have two elements, a scalar input is not a scalar, or
            the parts of a sparse input do not match.
    """
    if salt.shape != (2,):
        raise InvalidArgumentError(f"salt must have shape [2], got {shape_text(salt.shape)}")
    buckets = scalar_int("num_buckets", num_buckets)
    is_strong = bool(scalar_int("strong_hash", strong_hash))
    columns = combine_columns(indices, values, shapes, dense_inputs)
    key0, key1 = (number & _MASK for number in salt.tolist())
    hash_items: Callable[[Sequence[bytes]], Any] = _fingerprints
    if is_strong:
        hash_items = partial(sip_hashes, key0=key0, key1=key1)
    hashes = [
        _hashes(column.features, hash_items, is_plain=index >= len(values) and not is_strong)
        for index, column in enumerate(columns)
    ]

    def combine(_: list[Column], picks: list[Value]) -> Value:
        combined = hashes[0][picks[0]]
        for part, chosen in zip(hashes[1:], picks[1:], strict=True):
            combined = joined_hashes(combined, part[chosen])
        return (combined % np.uint64(buckets if buckets > 0 else _MAX_INT64)).astype(np.int64)

    return cross_rows(columns, combine)


def _fingerprints(items: Sequence[bytes]) -> Any:
    if len(items) > MAX_SCALAR_HASHES:
        return fingerprints(items, fingerprint64)
    return list(map(fingerprint64, items))


def _hashes(
    features: Value, hash_items: Callable[[Sequence[bytes]], Any], *, is_plain: bool
) -> Value:
    """Return the hash of each feature; an integer itself if `is_plain`."""
    if features.dtype.kind == "O":
        return np.asarray(hash_items(features.tolist()), np.uint64)
    if is_plain:
        return features.astype(np.uint64)
    items = [item.to_bytes(8, "little", signed=True)[:_HASHED_BYTES] for item in features.tolist()]
    return np.asarray(hash_items(items), np.uint64)
