"""Loss and ranking kernels: cross entropies, L2Loss, TopK, InTopK.

Semantics: tensorflow/core/kernels/xent_op.cc, sparse_xent_op.cc, l2loss_op.cc, topk_op.cc,
in_topk_op.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import dtypes, errors
from graphmill.spi import kernel
from graphmill_plugins.kernels._support import check_size, is_numpy, scalar_int, widen
from graphmill_plugins.kernels.nn.activation import log_probabilities

if TYPE_CHECKING:
    from graphmill.spi import ArrayNamespace, Value


@kernel("L2Loss", types={"T": dtypes.FLOATING})
def l2_loss(xp: ArrayNamespace, t: Value) -> Value:
    """Return half the sum of squares, a scalar."""
    wide = t.astype(widen(t.dtype), copy=False)
    if is_numpy(xp):
        flat = wide.reshape(-1)
        return (np.dot(flat, flat) * wide.dtype.type(0.5)).astype(t.dtype)
    return (xp.sum(wide * wide) * wide.dtype.type(0.5)).astype(t.dtype)


@kernel("SoftmaxCrossEntropyWithLogits", types={"T": dtypes.FLOATING})
def softmax_cross_entropy(
    xp: ArrayNamespace, features: Value, labels: Value
) -> tuple[Value, Value]:
    """Return the loss of each row and the gradient softmax(features) - labels."""
    try:
        shape = np.broadcast_shapes(features.shape, labels.shape)
    except ValueError:
        raise errors.InvalidArgumentError(
            "logits and labels must be broadcastable: "
            f"logits_size={list(features.shape)} labels_size={list(labels.shape)}"
        ) from None
    if len(shape) != 2:
        raise errors.InvalidArgumentError(
            f"logits and labels must be either 2-dimensional, or broadcasted to be "
            f"2-dimensional; got {list(features.shape)} and {list(labels.shape)}"
        )
    dtype, wide = features.dtype, widen(features.dtype)
    check_size(shape, itemsize=wide.itemsize)
    if 0 in shape:
        return xp.zeros(shape[:1], dtype), xp.zeros(shape, dtype)
    features = xp.broadcast_to(features, shape).astype(wide)
    labels = xp.broadcast_to(labels, shape).astype(wide)
    log_probs = log_probabilities(xp, features)
    loss = 0 - xp.sum(labels * log_probs, axis=-1)  # nan for a label of 0 where a logit is -inf
    return loss.astype(dtype), (xp.exp(log_probs) - labels).astype(dtype)


@kernel("SparseSoftmaxCrossEntropyWithLogits", types={"T": dtypes.FLOATING})
def sparse_softmax_cross_entropy(
    xp: ArrayNamespace, features: Value, labels: Value
) -> tuple[Value, Value]:
    """Return the loss of each row for its one label, and the gradient.

    A label out of range raises on NumPy, as in TensorFlow on CPUs, and gives NaN in traced code, as
    in TensorFlow on GPUs.
    """
    _check_sparse_labels(features, labels)
    dtype, wide = features.dtype, widen(features.dtype)
    if features.size == 0:
        return xp.zeros(features.shape[:1], dtype), features
    classes = features.shape[1]
    valid = (labels >= 0) & (labels < classes)
    if xp is np and not valid.all():
        worst = int(labels[~valid][0])
        raise errors.InvalidArgumentError(
            f"Received a label value of {worst} which is outside the valid range of "
            f"[0, {classes}).  Label values: {' '.join(map(str, labels[:20].tolist()))}"
        )
    log_probs = log_probabilities(xp, features.astype(wide))
    one_hot = labels[:, None] == xp.arange(classes, dtype=labels.dtype)[None, :]
    nan = wide.type(np.nan)
    loss = 0 - xp.sum(xp.where(one_hot, log_probs, wide.type(0)), axis=-1)
    gradient = xp.exp(log_probs) - one_hot.astype(wide)
    if xp is not np:
        loss = xp.where(valid, loss, nan)
        gradient = xp.where(valid[:, None], gradient, nan)
    return loss.astype(dtype), gradient.astype(dtype)


def _check_sparse_labels(features: Value, labels: Value) -> None:
    if features.ndim != 2:
        raise errors.InvalidArgumentError(
            f"logits must be 2-D, but got shape {list(features.shape)}"
        )
    if labels.ndim != 1:
        raise errors.InvalidArgumentError(f"labels must be 1-D, but got shape {list(labels.shape)}")
    if features.shape[0] != labels.shape[0]:
        raise errors.InvalidArgumentError(
            "logits and labels must have the same first dimension, got logits shape "
            f"{list(features.shape)} and labels shape {list(labels.shape)}"
        )
    if features.shape[0] and features.shape[1] == 0:
        raise errors.InvalidArgumentError(
            f"Must have at least one class, but got logits shape {list(features.shape)}"
        )


def check_top_k(values: Value, k: int) -> None:
    """Raise InvalidArgumentError unless the last axis of `values` has `k` entries."""
    if k < 0:
        raise errors.InvalidArgumentError(f"Need k >= 0, got {k}")
    if values.ndim < 1:
        raise errors.InvalidArgumentError(f"input must be >= 1-D, got shape {list(values.shape)}")
    if values.shape[-1] < k:
        raise errors.InvalidArgumentError(
            f"input must have at least k columns. Had {values.shape[-1]}, needed {k}"
        )


def top_k(values: Any, k: int, index_type: np.dtype[Any]) -> tuple[Value, Value]:
    """Return the `k` largest values along the last axis, descending; ties keep their order."""
    check_top_k(values, k)
    if k == 0:
        shape = (*values.shape[:-1], 0)
        return np.zeros(shape, values.dtype), np.zeros(shape, index_type)
    order: Any
    if k == 1:
        order = np.argmax(values, axis=-1)[..., None]
    else:
        order = _few_largest(values, k) if values.shape[-1] >= _MIN_SELECTED_RATIO * k else None
        if order is None:
            order = _descending_order(values)[..., :k]
    return np.take_along_axis(values, order, axis=-1), order.astype(index_type)


_MIN_SELECTED_RATIO = 4  # times k elements: from here on, selection is faster than sorting


def _descending_order(values: Any) -> Any:
    """Return the indices that sort the last axis descending; ties keep their order."""
    flipped = np.argsort(values[..., ::-1], axis=-1, kind="stable")[..., ::-1]
    return values.shape[-1] - 1 - flipped


def _few_largest(values: Any, k: int) -> Any:
    """Return the first `k` indices of `_descending_order` without sorting all values.

    Return None if there is a NaN.
    """
    rows = values.reshape(-1, values.shape[-1])
    parted = np.partition(rows, -k, axis=-1)[:, -k:]
    if parted.dtype.kind not in "iub" and np.isnan(parted).any():
        return None
    selected = rows >= parted[:, :1]
    tied = np.count_nonzero(selected, axis=-1) > k
    if tied.any():
        selected[tied] = _first_of_equals(rows[tied], parted[tied, :1], k)
    indices = np.flatnonzero(selected).reshape(-1, k) % values.shape[-1]
    order = np.take_along_axis(
        indices, _descending_order(np.take_along_axis(rows, indices, axis=-1)), axis=-1
    )
    return order.reshape(*values.shape[:-1], k)


def _first_of_equals(rows: Any, threshold: Any, k: int) -> Any:
    """Mark `k` values of each row: those above `threshold`, then the first that equal it."""
    above, equal = rows > threshold, rows == threshold
    needed = k - np.count_nonzero(above, axis=-1, keepdims=True)
    return above | (equal & (np.cumsum(equal, axis=-1) <= needed))


@kernel("TopKV2", backend="numpy", static=("k",))
def top_k_v2(
    xp: ArrayNamespace, values: Value, k: Value, index_type: np.dtype[Any]
) -> tuple[Value, Value]:
    """Return values and indices of the `k` largest along the last axis."""
    if np.ndim(k) != 0:
        raise errors.InvalidArgumentError(f"k must be scalar, got shape {list(np.shape(k))}")
    return top_k(xp.asarray(values), int(k), index_type)


@kernel("TopK", backend="numpy")
def top_k_v1(xp: ArrayNamespace, values: Value, k: int) -> tuple[Value, Value]:
    """Return values and int32 indices of the `k` largest along the last axis."""
    return top_k(xp.asarray(values), k, np.dtype(np.int32))


def in_top_k(predictions: Any, targets: Any, k: int) -> Value:
    """Return for each row whether its target's prediction is among the `k` largest.

    Ties with the k-th largest count as in; targets out of range and rows with non-finite
    predictions count as out.
    """
    if predictions.ndim != 2 or targets.ndim != 1 or len(predictions) != len(targets):
        raise errors.InvalidArgumentError(
            "predictions must be 2-dimensional and targets a vector with an entry for each row, "
            f"got shapes {list(predictions.shape)} and {list(targets.shape)}"
        )
    classes = predictions.shape[1]
    valid = (targets >= 0) & (targets < classes)
    if classes == 0:
        return np.zeros(len(targets), bool)
    of_targets = np.take_along_axis(predictions, np.where(valid, targets, 0)[:, None], axis=1)
    finite = np.isfinite(predictions).all(axis=1)
    if not finite.all():
        finite |= (predictions == of_targets).all(axis=1)
    # Counting bits in packed bytes is three times as fast as summing booleans.
    above = np.bitwise_count(np.packbits(predictions > of_targets, axis=1)).sum(axis=1)
    return valid & finite & np.isfinite(of_targets[:, 0]) & (above < k)


@kernel("InTopKV2", host=True)
def in_top_k_v2(xp: ArrayNamespace, predictions: Value, targets: Value, k: Value) -> Value:
    """Return whether targets are in the top `k`, where `k` is an input."""
    return in_top_k(xp.asarray(predictions), xp.asarray(targets), scalar_int("k", k))


@kernel("InTopK", host=True)
def in_top_k_v1(xp: ArrayNamespace, predictions: Value, targets: Value, k: int) -> Value:
    """Return whether targets are in the top `k`."""
    return in_top_k(xp.asarray(predictions), xp.asarray(targets), k)
