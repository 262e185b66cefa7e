"""Checks for recurrent cells, data formats and the positions of maxima."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from graphmill.spi import Check, Lowering, LoweringTable, errors
from graphmill_plugins.lowerings.indices import in_range

if TYPE_CHECKING:
    from graphmill.spi import ArrayNamespace, Value


def steps_exist(xp: ArrayNamespace, seq_len_max: Value, x: Value, *_: Value) -> Value:
    """Check that a sequence has no more steps than there are inputs."""
    return xp.all((seq_len_max >= 0) & (seq_len_max <= x.shape[0]))


def axes_exist(xp: ArrayNamespace, axes: Value, *, src_format: str) -> Value:
    """Check that axes are within a data format, counted from either end."""
    return in_range(xp, axes, -len(src_format), len(src_format))


def maxima_exist(
    xp: ArrayNamespace, x: Value, grad: Value, argmax: Value, *, include_batch_in_index: bool
) -> Value:
    """Check that each maximum's position is within its image."""
    del grad
    image = x.size // max(len(x), 1)
    first: Any = 0
    if include_batch_in_index:
        first = (xp.arange(len(x)) * image)[:, None, None, None]
    return in_range(xp, argmax, first, first + image)


LOWERINGS: Final = LoweringTable(
    Lowering(ops, checks=(Check(predicate, errors.InvalidArgumentError),))
    for ops, predicate in (
        (("BlockLSTM", "BlockLSTMV2", "BlockLSTMGrad", "BlockLSTMGradV2"), steps_exist),
        (("DataFormatDimMap",), axes_exist),
        (("MaxPoolGradWithArgmax",), maxima_exist),
    )
)
