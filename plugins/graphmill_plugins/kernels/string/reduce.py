"""Kernels that join strings along axes or by segment: ReduceJoin, UnsortedSegmentJoin.

Semantics: tensorflow/core/kernels/reduce_join_op.cc, unsorted_segment_join_op.cc.
"""

from __future__ import annotations

from itertools import dropwhile, pairwise
from operator import not_
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill import errors
from graphmill.spi import kernel
from graphmill_plugins.kernels._strings import check_text, encode, string_array
from graphmill_plugins.kernels._support import check_size, scalar_int

if TYPE_CHECKING:
    from graphmill.spi import Value


_FEW: Final = 64
"""The number of strings, and of segments, up to which a loop is faster than sorting."""


def _reduction_axes(indices: Any, rank: int) -> list[int]:
    axes: list[int] = []
    for index in np.asarray(indices).ravel().tolist():
        if not -rank <= index < rank:
            raise errors.OutOfRangeError(
                f"Invalid reduction dimension {index} for input with {rank} dimension(s)"
            )
        if index % rank in axes:
            raise errors.InvalidArgumentError(f"Duplicate reduction dimension {index}")
        axes.append(index % rank)
    return axes


@kernel("ReduceJoin", host=True)
def reduce_join(inputs: Value, reduction_indices: Value, keep_dims: bool, separator: str) -> Value:
    """Join strings along axes; the first axis given varies fastest."""
    axes = _reduction_axes(reduction_indices, inputs.ndim)
    if not axes:
        return inputs
    outer_axes = [axis for axis in range(inputs.ndim) if axis not in axes]
    count = int(np.prod([inputs.shape[axis] for axis in axes], dtype=np.int64))
    outer = int(np.prod([inputs.shape[axis] for axis in outer_axes], dtype=np.int64))
    rows = inputs.transpose(*outer_axes, *reversed(axes)).reshape(outer, count)
    separator_bytes = encode(separator)
    check_size((inputs.size, len(separator_bytes)), "the text of the separators")
    check_text(inputs, inputs.size * len(separator_bytes))
    shape = [
        1 if axis in axes else size
        for axis, size in enumerate(inputs.shape)
        if keep_dims or axis not in axes
    ]
    return string_array([separator_bytes.join(row) for row in rows.tolist()], shape)


@kernel("UnsortedSegmentJoin", host=True)
def unsorted_segment_join(
    inputs: Value, segment_ids: Value, num_segments: Value, separator: str
) -> Value:
    """Join strings of the same segment in input order; an empty segment becomes ""."""
    segments = scalar_int("num_segments", num_segments)
    ids = np.asarray(segment_ids)
    if segments < 0:
        raise errors.InvalidArgumentError(f"Number of segments must be >= 0, got {segments}")
    if not ids.ndim:
        raise errors.InvalidArgumentError("Segment_id cannot have rank 0")
    if inputs.shape[: ids.ndim] != ids.shape:
        raise errors.InvalidArgumentError(
            f"segment_ids of shape {list(ids.shape)} must be a prefix of the shape of inputs "
            f"{list(inputs.shape)}"
        )
    if ((ids < 0) | (ids >= segments)).any():
        raise errors.InvalidArgumentError(
            "segment_ids are not allowed to exceed num_segments or to have negative values; "
            f"got {ids.ravel()[:20].tolist()} with num_segments = {segments}"
        )
    tail = inputs.shape[ids.ndim :]
    width = int(np.prod(tail, dtype=np.int64))
    check_size((segments, *tail), itemsize=64)  # the minimum size of a list and a string
    separator_bytes = encode(separator)
    check_text(inputs, inputs.size * len(separator_bytes))
    if width == 1:
        return _joined_segments(
            inputs.reshape(-1), ids.reshape(-1), segments, separator_bytes
        ).reshape((segments, *tail))
    rows = inputs.reshape(ids.size, width).tolist()
    parts: list[list[list[bytes]]] = [[[] for _ in range(width)] for _ in range(segments)]
    for segment, row in zip(ids.ravel().tolist(), rows, strict=True):
        for column, item in enumerate(row):
            parts[segment][column].append(item)
    joined = [_joined(separator_bytes, items) for row_parts in parts for items in row_parts]
    return string_array(joined, (segments, *tail))


def _joined_segments(items: Value, ids: Any, segments: int, separator_bytes: bytes) -> Any:
    """Sort strings by segment, and join those of each segment."""
    if len(ids) <= _FEW and segments <= _FEW:
        parts: list[list[bytes]] = [[] for _ in range(segments)]
        for segment, text in zip(ids.tolist(), items.tolist(), strict=True):
            parts[segment].append(text)
        return string_array([_joined(separator_bytes, of_segment) for of_segment in parts])
    # NumPy sorts 16-bit integers with a radix sort, which is faster.
    order = np.argsort(ids.astype(np.int16) if segments < 1 << 15 else ids, kind="stable")
    texts = items[order].tolist()
    ends = np.searchsorted(ids[order], np.arange(segments + 1)).tolist()
    return string_array(
        [_joined(separator_bytes, texts[start:stop]) for start, stop in pairwise(ends)]
    )


def _joined(separator_bytes: bytes, texts: list[bytes]) -> bytes:
    """Join strings; leading empty strings have no separator after them."""
    if texts and not texts[0]:
        texts = list(dropwhile(not_, texts))
    return separator_bytes.join(texts)
