"""CTCLoss: the negative log-likelihood of labels given network outputs over time.

Semantics: tensorflow/core/kernels/ctc_loss_op.cc, tensorflow/core/util/ctc/ctc_loss_calculator.h,
after Graves, "Supervised Sequence Labelling with Recurrent Neural Networks", chapter 7.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill_plugins.kernels._support import shape_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.spi import Value

_MIN_EXPONENTIALS: Final = 400  # states of a step; for fewer, calls of NumPy take the time


def _check(inputs: Value, indices: Value, values: Value, lengths: Value) -> None:
    """Raise InvalidArgumentError unless the shapes fit together."""
    if inputs.ndim != 3:
        raise InvalidArgumentError(f"inputs is not a 3-Tensor, got {shape_text(inputs.shape)}")
    if lengths.ndim != 1 or values.ndim != 1 or indices.ndim != 2:
        raise InvalidArgumentError(
            "sequence_length and labels_values must be vectors and labels_indices a matrix, got "
            f"{shape_text(lengths.shape)}, {shape_text(values.shape)}, {shape_text(indices.shape)}"
        )
    steps, batch, _ = inputs.shape
    if not inputs.size:
        raise InvalidArgumentError(f"inputs must not be empty, got {shape_text(inputs.shape)}")
    if len(lengths) != batch:
        raise InvalidArgumentError(
            f"len(sequence_length) != batch_size: {len(lengths)} and {batch}"
        )
    if len(indices) != len(values) or indices.shape[1] != 2:
        raise InvalidArgumentError(
            "labels_indices and labels_values must contain the same number of rows, got "
            f"{shape_text(indices.shape)} and {shape_text(values.shape)}"
        )
    if lengths.min() < 0 or lengths.max() > steps:
        raise InvalidArgumentError(
            f"sequence_length must be in [0, {steps}], got {lengths.tolist()}"
        )
    if len(indices) and not (indices[:, 0].min() >= 0 and indices[:, 0].max() < batch):
        raise InvalidArgumentError(f"labels batch index must be between 0 and {batch}")
    _check_order(indices)


def _check_order(indices: Value) -> None:
    """Raise InvalidArgumentError unless the labels are in order of sequences and positions."""
    rows, columns = indices.T
    in_row = np.diff(rows) == 0
    bad = (np.diff(rows) < 0) | (in_row & (np.diff(columns) <= 0))
    if bad.any() or (columns < 0).any() or (columns == np.iinfo(np.int64).max).any():
        raise InvalidArgumentError(
            "label SparseTensor is not valid: its indices are out of order, repeated or out of "
            f"bounds: {indices.tolist()}"
        )


def _targets(labels: Sequence[int], classes: int, collapse: bool, sequence: int) -> list[int]:
    """Return labels without trailing blanks, and without repetitions if they are collapsed."""
    targets: list[int] = []
    is_finished = False
    for index, label in enumerate(labels):
        if collapse and index and label == labels[index - 1]:
            continue
        if label >= classes - 1:
            is_finished = True
        elif is_finished or label < 0:
            raise InvalidArgumentError(
                "labels must be nonnegative, and only blanks (index >= num_classes - 1) may "
                f"follow a blank, batch: {sequence} num_classes: {classes} labels: {list(labels)}"
            )
        else:
            targets.append(label)
    return targets


class _Paths(NamedTuple):
    """The states of each sequence: its labels, with blanks around and between them.

    Attributes:
        classes: (batch, states) the class that a state emits.
        counts: number of states of each sequence.
        may_stay, may_skip: whether a state may follow itself, or the state two places before it.
    """

    classes: Any
    counts: Any
    may_stay: Any
    may_skip: Any

    @classmethod
    def of(cls, targets: Sequence[Sequence[int]], blank: int, merge: bool) -> _Paths:
        counts = np.array([2 * len(labels) + 1 for labels in targets])
        classes = np.full((len(targets), counts.max(initial=1)), blank)
        for row, labels in zip(classes, targets, strict=True):
            row[1 : 2 * len(labels) : 2] = labels
        is_label = classes != blank
        may_skip = is_label.copy()
        may_skip[:, :2] = False
        if merge:
            may_skip[:, 2:] &= classes[:, 2:] != classes[:, :-2]
        return cls(classes, counts, merge | ~is_label, may_skip)


def _log_probabilities(paths: _Paths, emitted: Any, lengths: Any) -> Any:
    """Return the log-probability of all paths through each state at each step.

    This is the sum of the forward and the backward log-probabilities, (steps, batch, states). The
    backward pass is a forward pass with steps and states reversed, so one loop computes both.
    """
    steps, batch, states = emitted.shape
    both = np.concatenate([emitted, emitted[::-1, :, ::-1]], axis=1)
    stays, skips = _transition_masks(paths, emitted.dtype.type)
    padded = np.full(
        (2 * batch, states + 2), -np.inf, emitted.dtype
    )  # padded by two states in front
    same, previous, before_previous = padded[:, 2:], padded[:, 1:-1], padded[:, :-2]
    totals = np.empty(both.shape, both.dtype)  # without what the state emits at the step
    begins, ends = _ends(paths, states)
    finishing = frozenset(lengths.tolist())
    add = _SumOfThree(same) if same.size >= _MIN_EXPONENTIALS else _log_sum_of_three
    for step, total in enumerate(totals):
        staying = same if stays is None else same + stays
        add(staying, previous, before_previous + skips, total)
        if step == 0:
            total[:batch] = begins
        if steps - step in finishing:
            rows = np.flatnonzero(lengths == steps - step)
            total[batch + rows] = ends[rows]
        np.add(total, both[step], out=same)
    return emitted + totals[:, :batch] + totals[::-1, batch:, ::-1]


def _log_sum_of_three(a: Any, b: Any, c: Any, out: Any) -> None:
    """Write log(exp(a) + exp(b) + exp(c))."""
    np.logaddexp(a, b, out=out)
    np.logaddexp(out, c, out=out)


class _SumOfThree:
    """Computes `_log_sum_of_three` of large arrays, with the vectorized functions of NumPy.

    `np.logaddexp` takes three to five times as long for each element.
    """

    def __init__(self, like: Any) -> None:
        self._terms = np.empty((3, *like.shape), like.dtype)
        self._lowest = np.finfo(like.dtype).min  # -inf - -inf would be NaN

    def __call__(self, a: Any, b: Any, c: Any, out: Any) -> None:
        terms = self._terms
        largest = np.maximum(a, b)
        np.maximum(largest, c, out=largest)
        np.maximum(largest, self._lowest, out=largest)
        for value, term in zip((a, b, c), terms, strict=True):
            np.subtract(value, largest, out=term)
        np.exp(terms, out=terms)
        np.add(terms[0], terms[1], out=out)
        np.add(out, terms[2], out=out)
        np.log(out, out=out)
        np.add(out, largest, out=out)


def _transition_masks(paths: _Paths, kind: Any) -> tuple[Any, Any]:
    """Return the log-masks of the transitions that stay in a state, and that skip one.

    Each holds the states of all sequences, followed by the same states reversed. The first mask is
    None if every state may follow itself.
    """
    skip_back = np.zeros_like(paths.may_skip)
    skip_back[:, 2:] = paths.may_skip[:, :1:-1]
    skips = np.where(np.concatenate([paths.may_skip, skip_back]), kind(0), kind(-np.inf))
    if np.all(paths.may_stay):
        return None, skips
    stay = np.broadcast_to(paths.may_stay, paths.may_skip.shape)
    stays = np.where(np.concatenate([stay, stay[:, ::-1]]), kind(0), kind(-np.inf))
    return stays, skips


def _ends(paths: _Paths, states: int) -> tuple[Any, Any]:
    """Return the log-probabilities of the initial and of the final states.

    The final states are in reverse order.
    """
    state, count = np.arange(states), paths.counts[:, None]
    begins = np.where(state < 2, 0, -np.inf)
    ends = np.where((state >= count - 2) & (state < count), 0, -np.inf)
    return begins, ends[:, ::-1]


def _softmax(inputs: Value) -> Any:
    shifted = np.exp(inputs - inputs.max(axis=2, keepdims=True))
    return shifted / shifted.sum(axis=2, keepdims=True)


def _loss_and_gradient(inputs: Value, paths: _Paths, lengths: Any) -> tuple[Any, Any]:
    """Return the loss of each sequence, and its gradient with respect to the inputs."""
    y = _softmax(inputs)
    num_classes = y.shape[2]
    rows = np.arange(0, y.size, num_classes).reshape(*y.shape[:2], 1)
    positions = rows + paths.classes  # in `y`, of the class that each state emits
    emitted = np.log(y.reshape(-1)[positions])
    emitted[:, np.arange(emitted.shape[2]) >= paths.counts[:, None]] = -np.inf
    both = _log_probabilities(paths, emitted, lengths)
    log_p = np.logaddexp.reduce(both[0], axis=1)
    share = np.exp(both - np.where(np.isneginf(log_p), 0, log_p)[:, None])
    by_class = np.bincount(positions.reshape(-1), share.reshape(-1), y.size)
    return -log_p, y - by_class.reshape(y.shape).astype(y.dtype)


@kernel("CTCLoss", host=True, expensive=True)
def ctc_loss(
    inputs: Value,
    labels_indices: Value,
    labels_values: Value,
    sequence_length: Value,
    preprocess_collapse_repeated: bool,
    ctc_merge_repeated: bool,
    ignore_longer_outputs_than_inputs: bool,
) -> tuple[Value, Value]:
    """Return -log p(labels | inputs) of each sequence, and its gradient with respect to the inputs.

    `inputs` (steps, batch, classes) are logits; the last class is the blank one. Sequences of
    length zero, and sequences with more labels than steps if these are ignored, have a loss and a
    gradient of zero.
    """
    _check(inputs, labels_indices, labels_values, sequence_length)
    steps, batch, classes = inputs.shape
    lengths = sequence_length.tolist()
    targets, is_used = [], np.zeros(batch, bool)
    for sequence in range(batch):
        labels = labels_values[labels_indices[:, 0] == sequence].tolist()
        if not labels:
            raise InvalidArgumentError(f"Labels length is zero in batch {sequence}")
        targets.append(_targets(labels, classes, preprocess_collapse_repeated, sequence))
        is_longer = len(labels) > lengths[sequence]
        if is_longer and not ignore_longer_outputs_than_inputs:
            raise InvalidArgumentError(
                "Not enough time for target transition sequence (required: "
                f"{len(labels)}, available: {lengths[sequence]}), batch {sequence}; set "
                "ignore_longer_outputs_than_inputs to ignore such sequences"
            )
        is_used[sequence] = lengths[sequence] > 0 and not is_longer
    paths = _Paths.of(targets, classes - 1, ctc_merge_repeated)
    loss, gradient = _loss_and_gradient(inputs, paths, sequence_length)
    is_within = (np.arange(steps)[:, None] < sequence_length) & is_used
    zero = inputs.dtype.type(0)
    return np.where(is_used, loss, zero), np.where(is_within[..., None], gradient, zero)


@kernel("CTCLossV2", host=True, expensive=True)
def ctc_loss_v2(
    inputs: Value, indices: Value, values: Value, lengths: Value, **options: Any
) -> tuple[Value, Value]:
    """Return loss and gradient like `CTCLoss`; the first class is the blank.

    TensorFlow has it for GPUs only.

    Raises:
        InvalidArgumentError: a label is not a class, or is the blank one.
    """
    _check(inputs, indices, values, lengths)
    classes = inputs.shape[2]
    if len(values) and not (values.min() > 0 and values.max() < classes):
        raise InvalidArgumentError(
            f"labels must be in [1, {classes}), because class 0 is the blank; got values from "
            f"{values.min()} to {values.max()}"
        )
    blank_last = np.roll(inputs, -1, axis=2)
    loss, gradient = ctc_loss(blank_last, indices, values - 1, lengths, **options)
    return loss, np.roll(gradient, 1, axis=2)
