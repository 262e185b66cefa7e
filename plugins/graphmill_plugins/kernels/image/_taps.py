"""Sums of a few inputs for each output of a resampled axis, for pixels that are not finite.

A matrix product multiplies every pixel of a row, so that one infinite or NaN pixel changes all
outputs of the row. TensorFlow's kernels read the pixels near an output alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from graphmill.spi import Value


class Taps(NamedTuple):
    """The inputs of each output of an axis; each array has the shape (output, taps).

    Attributes:
        inputs: indices of the inputs.
        weights: their weights.
        used: which of them count; the others fill rows with fewer inputs.
    """

    inputs: Any
    weights: Any
    used: Any


def all_used(inputs: Any, weights: Any) -> Taps:
    """Return taps that all count, even those of weight 0."""
    return Taps(inputs, weights, np.ones(inputs.shape, np.bool_))


def matrix_taps(matrix: Any) -> Taps:
    """Return the inputs of nonzero weight of a matrix (output, input)."""
    outputs, inputs = np.nonzero(matrix)
    return _grouped(outputs, inputs, matrix[outputs, inputs], len(matrix))


def transposed(inputs: Any, weights: Any, size: int) -> Taps:
    """Return the taps of the gradient: the outputs that read each of `size` inputs."""
    order = np.argsort(inputs, axis=None, kind="stable")
    outputs = np.repeat(np.arange(len(inputs)), inputs.shape[1])
    return _grouped(inputs.flat[order], outputs[order], weights.flat[order], size)


def tapped(images: Value, down: Taps, across: Taps) -> Value:
    """Return images whose rows and columns are weighted sums of taps."""
    return _summed(_summed(images, down, axis=1), across, axis=2)


def _grouped(outputs: Any, inputs: Any, weights: Any, size: int) -> Taps:
    """Return taps of connections that are sorted by their output."""
    counts = np.bincount(outputs, minlength=size)
    tap = np.arange(len(outputs)) - np.repeat(np.cumsum(counts) - counts, counts)
    shape = (size, int(counts.max(initial=0)))
    all_inputs, all_weights = np.zeros(shape, np.intp), np.zeros(shape, np.float32)
    all_inputs[outputs, tap], all_weights[outputs, tap] = inputs, weights
    return Taps(all_inputs, all_weights, np.arange(shape[1]) < counts[:, None])


def _summed(images: Value, taps: Taps, axis: int) -> Value:
    shape = [-1 if each == axis else 1 for each in range(4)]
    total = np.zeros((), np.float32)
    for inputs, weights, used in zip(*(part.T for part in taps), strict=True):
        part = np.take(images, inputs, axis=axis) * weights.reshape(shape)
        total = total + np.where(used.reshape(shape), part, np.float32(0))
    if not taps.inputs.shape[1]:  # no output has an input
        return np.zeros_like(np.take(images, taps.inputs[:, :0].sum(axis=1), axis=axis))
    return total
