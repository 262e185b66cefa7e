"""CTC decoders: convert network outputs over time to sequences of labels.

Semantics: tensorflow/core/kernels/ctc_decoder_ops.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphmill.errors import FailedPreconditionError, InvalidArgumentError
from graphmill.spi import kernel
from graphmill.spi.kernels import cancellable
from graphmill_plugins.kernels._support import shape_text
from graphmill_plugins.kernels.nn.ctc._beam_search import beam_search

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.spi import Value


def _check(inputs: Value, lengths: Value) -> None:
    """Check the inputs of a decoder.

    Raises:
        InvalidArgumentError: the inputs are empty or have a wrong rank.
        FailedPreconditionError: the lengths do not fit the inputs.
    """
    if inputs.ndim != 3 or not inputs.size:
        raise InvalidArgumentError(
            f"inputs must be a 3-Tensor and not empty, got shape {shape_text(inputs.shape)}"
        )
    if lengths.ndim != 1:
        raise InvalidArgumentError(
            f"sequence_length is not a vector, got shape {shape_text(lengths.shape)}"
        )
    steps, batch, _ = inputs.shape
    if len(lengths) != batch:
        raise FailedPreconditionError(
            f"len(sequence_length) != batch_size: {len(lengths)} and {batch}"
        )
    if lengths.max() > steps:
        raise FailedPreconditionError(
            f"sequence_length must be at most {steps}, got {lengths.tolist()}"
        )


def _sparse(sequences: Sequence[Sequence[int]]) -> tuple[Value, Value, Value]:
    """Return sequences as a sparse tensor: indices, values, shape."""
    positions = [
        (row, column) for row, labels in enumerate(sequences) for column in range(len(labels))
    ]
    indices = np.array(positions, np.int64).reshape(-1, 2)
    values = np.array([label for labels in sequences for label in labels], np.int64)
    longest = max(map(len, sequences), default=0)
    return indices, values, np.array([len(sequences), longest], np.int64)


@kernel("CTCGreedyDecoder", host=True, dynamic_shape=True, expensive=True)
def ctc_greedy_decoder(
    inputs: Value,
    sequence_length: Value,
    merge_repeated: bool,
    blank_index: int,
) -> tuple[Value, ...]:
    """Return the most probable class of each step, without blanks (and repetitions)."""
    _check(inputs, sequence_length)
    classes = inputs.shape[2]
    blank = blank_index + classes if blank_index < 0 else blank_index
    if not 0 <= blank < classes:
        raise InvalidArgumentError(
            f"blank_index expected to be between {-classes} and {classes - 1} but was {blank_index}"
        )
    best, peaks = _likeliest(inputs)
    is_within = np.arange(len(inputs))[:, None] < sequence_length
    is_emitted = is_within & (best != blank)
    if merge_repeated:
        is_emitted[1:] &= best[1:] != best[:-1]
    rows, steps = np.nonzero(is_emitted.T)
    counts = np.bincount(rows, minlength=len(sequence_length))
    indices = np.empty((len(rows), 2), np.int64)
    indices[:, 0] = rows
    indices[:, 1] = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    scores = np.where(is_within, -peaks, inputs.dtype.type(0)).sum(axis=0, dtype=inputs.dtype)
    shape = np.array([len(counts), counts.max(initial=0)], np.int64)
    return indices, best[steps, rows].astype(np.int64), shape, scores[:, None]


def _likeliest(inputs: Value) -> tuple[Value, Value]:
    """Return the most probable class of each step of each sequence, and its score."""
    best = inputs.argmax(axis=2)
    peaks = np.take_along_axis(inputs, best[:, :, None], axis=2)[:, :, 0]
    if np.isnan(peaks).any():
        # A NaN is not greater than the maximum so far; only a NaN in the first class wins.
        comparable = np.where(np.isnan(inputs), -np.inf, inputs)
        best = np.where(np.isnan(inputs[:, :, 0]), 0, comparable.argmax(axis=2))
        peaks = np.take_along_axis(inputs, best[:, :, None], axis=2)[:, :, 0]
    return best, peaks


@kernel("CTCBeamSearchDecoder", host=True, dynamic_shape=True, expensive=True)
def ctc_beam_search_decoder(
    inputs: Value,
    sequence_length: Value,
    beam_width: int,
    top_paths: int,
    merge_repeated: bool,
) -> tuple[list[Value], list[Value], list[Value], Value]:
    """Return the most probable sequences as sparse tensors, and their log-probabilities."""
    _check(inputs, sequence_length)
    decoded = beam_search(inputs, sequence_length, beam_width, top_paths, merge_repeated)
    sparse = [
        _sparse([paths[rank][0] for paths in decoded]) for rank in cancellable(range(top_paths))
    ]
    scores = np.array([[score for _, score in paths] for paths in decoded], inputs.dtype)
    indices, values, shapes = (list(parts) for parts in zip(*sparse, strict=True))
    return indices, values, shapes, scores
