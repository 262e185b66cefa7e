"""Helpers for ragged tensors: checks of splits, row indices, ragged variants.

A ragged tensor is passed as its row splits, outermost first, and its dense values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError
from graphmill_plugins.kernels._support import check_size, shape_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.spi import ArrayNamespace, Value


def check_splits(splits: Value, count: int, what: str = "splits") -> None:
    """Check row splits of `count` values.

    Raises:
        InvalidArgumentError: they are not a vector, do not begin at 0, descend, or do not end at
            `count`.
    """
    if splits.ndim != 1 or splits.size == 0:
        raise InvalidArgumentError(
            f"{what} must be a vector of at least one element, got shape {shape_text(splits.shape)}"
        )
    if splits[0] != 0:
        raise InvalidArgumentError(f"{what} must start with 0, not {splits[0]}")
    if (splits[1:] < splits[:-1]).any():
        raise InvalidArgumentError(f"{what} must not decrease, got {splits.tolist()}")
    if splits[-1] != count:
        raise InvalidArgumentError(
            f"{what} must end with the number of values, got {splits[-1]} instead of {count}"
        )


def check_nested(nested: Sequence[Value], values: Value) -> None:
    """Check all splits of a ragged tensor; see `check_splits`."""
    if nested and not values.ndim:
        raise InvalidArgumentError("the values of a ragged tensor may not be a scalar")
    for splits in nested:
        if splits.ndim != 1:
            raise InvalidArgumentError(
                f"Invalid ragged splits: ragged splits must be rank 1 but is rank {splits.ndim}"
            )
    counts = [*(len(splits) - 1 for splits in nested[1:]), *values.shape[:1]]
    for level, (splits, count) in enumerate(zip(nested, counts, strict=False)):
        check_splits(splits, count, f"row splits of level {level}")


def spans(starts: Any, lengths: Any) -> Any:
    """Return the concatenated ranges with given starts and lengths."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    check_size((total,), "the list of indices", itemsize=24)  # three of their size at a time
    return np.arange(total) + np.repeat(starts - (ends - lengths), lengths)


def splits_of(lengths: Any, dtype: np.dtype[Any]) -> Any:
    """Return the splits of rows of these lengths."""
    out = np.zeros(len(lengths) + 1, dtype)
    np.cumsum(lengths, out=out[1:])
    return out


@dataclass(frozen=True, slots=True, eq=False)
class RaggedVariant:
    """A ragged tensor in a scalar of dtype variant, which lists and queues can hold."""

    dtype: ClassVar[np.dtype[Any]] = dtypes.variant.as_numpy_dtype
    shape: ClassVar[tuple[int, ...]] = ()
    ndim: ClassVar[int] = 0

    nested_splits: tuple[Any, ...]
    values: Any

    def zeros_like(self, xp: ArrayNamespace) -> RaggedVariant:
        """Return zeros with the same splits."""
        return RaggedVariant(self.nested_splits, xp.zeros_like(self.values))

    def add(self, xp: ArrayNamespace, other: Any) -> RaggedVariant:
        """Return the sum of two ragged tensors with the same splits."""
        if not (isinstance(other, RaggedVariant) and self._has_splits_of(other)):
            raise InvalidArgumentError("ragged tensors are added only if their splits are equal")
        return RaggedVariant(self.nested_splits, xp.add(self.values, other.values))

    def _has_splits_of(self, other: RaggedVariant) -> bool:
        pairs = zip(self.nested_splits, other.nested_splits, strict=False)
        return len(self.nested_splits) == len(other.nested_splits) and all(
            np.array_equal(own, others) for own, others in pairs
        )
