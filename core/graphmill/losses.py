"""Losses of labels and predictions, as in `tf.compat.v1.losses`.

    loss = graphmill.losses.mean_squared_error(labels=[1.0, 2.0], predictions=[1.0, 4.0])
    print(session.run(loss))  # 2.0

Each function returns a scalar (unless the reduction is `Reduction.NONE`) and adds it to the
collection "losses" of the graph, which `get_total_loss` sums. Names, arguments and values are
TensorFlow's. Semantics: tensorflow/python/ops/losses/losses_impl.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from graphmill import functions
from graphmill.deprecations import deprecated_aliases
from graphmill.errors import InvalidArgumentError
from graphmill.functions import cast, convert_to_tensor, reduce_sum
from graphmill.functions._inputs import scope as name_scope
from graphmill.graph.infer_graph import infer_graph
from graphmill.ops import array, math, nn

if TYPE_CHECKING:
    from graphmill.graph.tensor import Tensor
    from graphmill.ops.inputs.arguments import TensorLike

__all__ = [
    "Reduction",
    "absolute_difference",
    "add_loss",
    "compute_weighted_loss",
    "cosine_distance",
    "get_losses",
    "get_regularization_loss",
    "get_regularization_losses",
    "get_total_loss",
    "hinge_loss",
    "huber_loss",
    "log_loss",
    "mean_pairwise_squared_error",
    "mean_squared_error",
    "sigmoid_cross_entropy",
    "softmax_cross_entropy",
    "sparse_softmax_cross_entropy",
]

LOSSES: Final = "losses"
REGULARIZATION_LOSSES: Final = "regularization_losses"


class Reduction:
    """The ways to reduce the weighted losses of a batch.

    Attributes:
        NONE: they stay as they are.
        SUM: their sum.
        SUM_OVER_BATCH_SIZE: their sum divided by their number.
        MEAN: their sum divided by the sum of the weights.
        SUM_BY_NONZERO_WEIGHTS: their sum divided by the number of weights that are not 0; the
            default.
    """

    NONE: Final = "none"
    SUM: Final = "weighted_sum"
    SUM_OVER_BATCH_SIZE: Final = "weighted_sum_over_batch_size"
    MEAN: Final = "weighted_mean"
    SUM_BY_NONZERO_WEIGHTS: Final = "weighted_sum_by_nonzero_weights"
    SUM_OVER_NONZERO_WEIGHTS: Final = SUM_BY_NONZERO_WEIGHTS

    @classmethod
    def all(cls) -> tuple[str, ...]:
        """Return all reductions."""
        return (cls.NONE, cls.SUM, cls.MEAN, cls.SUM_OVER_BATCH_SIZE, cls.SUM_BY_NONZERO_WEIGHTS)

    @classmethod
    def validate(cls, key: str) -> None:
        """Check that a reduction exists.

        Raises:
            InvalidArgumentError: it does not.
        """
        if key not in cls.all():
            raise InvalidArgumentError(
                f"Invalid Reduction Key {key!r}. Key should be one of {cls.all()}."
            )


def compute_weighted_loss(
    losses: TensorLike,
    weights: TensorLike = 1.0,
    scope: str | None = None,
    loss_collection: str | None = LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Tensor:
    """Return the losses times the weights, reduced to a scalar.

    Args:
        losses: the losses.
        weights: a scalar, or a tensor of the rank of `losses`, whose axes have the size of those of
            `losses` or 1.
        scope: name of the scope.
        loss_collection: the collection that the result is added to, or None.
        reduction: one of `Reduction`.

    Returns:
        A scalar of the type of `losses`; for `Reduction.NONE` a tensor of its shape.

    Raises:
        InvalidArgumentError: there is no such reduction, or the weights do not broadcast.
    """
    Reduction.validate(reduction)
    with name_scope(scope, "weighted_loss", losses, weights) as (graph, _):
        losses = convert_to_tensor(losses)
        weights = convert_to_tensor(weights)
        with graph.control_dependencies(_shape_checks(weights, losses)):
            values, factors = cast(losses, "float32"), cast(weights, "float32")
            loss = _reduced(math.mul(values, factors), values, factors, reduction)
            loss = cast(loss, losses.dtype)
        add_loss(loss, loss_collection)
        return loss


def absolute_difference(
    labels: TensorLike,
    predictions: TensorLike,
    weights: TensorLike = 1.0,
    scope: str | None = None,
    loss_collection: str | None = LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Tensor:
    """Return the loss `abs(predictions - labels)`.

    Args:
        labels, predictions: tensors of one shape.
        weights, scope, loss_collection, reduction: as for `compute_weighted_loss`.

    Raises:
        InvalidArgumentError: the shapes do not fit, or there is no such reduction.
    """
    with name_scope(scope, "absolute_difference", labels, predictions, weights):
        labels, predictions = _floats(labels, predictions)
        losses = math.abs(math.sub(predictions, labels))
        return compute_weighted_loss(losses, weights, None, loss_collection, reduction)


def mean_squared_error(
    labels: TensorLike,
    predictions: TensorLike,
    weights: TensorLike = 1.0,
    scope: str | None = None,
    loss_collection: str | None = LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Tensor:
    """Return the loss `(predictions - labels) ** 2`.

        print(session.run(graphmill.losses.mean_squared_error([1.0, 2.0], [1.0, 4.0])))  # 2.0

    Args:
        labels, predictions: tensors of one shape.
        weights, scope, loss_collection, reduction: as for `compute_weighted_loss`.

    Raises:
        InvalidArgumentError: the shapes do not fit, or there is no such reduction.
    """
    with name_scope(scope, "mean_squared_error", labels, predictions, weights):
        labels, predictions = _floats(labels, predictions)
        losses = math.squared_difference(predictions, labels)
        return compute_weighted_loss(losses, weights, None, loss_collection, reduction)


def huber_loss(
    labels: TensorLike,
    predictions: TensorLike,
    weights: TensorLike = 1.0,
    delta: TensorLike = 1.0,
    scope: str | None = None,
    loss_collection: str | None = LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Tensor:
    """Return Huber's loss: half of the squared error up to `delta`, linear beyond.

    Arguments as for `absolute_difference`.
    """
    with name_scope(scope, "huber_loss", labels, predictions, weights):
        labels, predictions = _floats(labels, predictions)
        error = math.abs(math.sub(predictions, labels))
        quadratic = math.minimum(error, delta)
        linear = math.mul(delta, math.sub(error, quadratic))
        losses = math.add_v2(0.5 * (quadratic * quadratic), linear)
        return compute_weighted_loss(losses, weights, None, loss_collection, reduction)


def log_loss(
    labels: TensorLike,
    predictions: TensorLike,
    weights: TensorLike = 1.0,
    epsilon: float = 1e-7,
    scope: str | None = None,
    loss_collection: str | None = LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Tensor:
    """Return the cross entropy of labels in {0, 1} and probabilities.

    Args:
        labels, predictions: tensors of one shape.
        epsilon: added to probabilities before the logarithm.
        weights, scope, loss_collection, reduction: as for `compute_weighted_loss`.
    """
    with name_scope(scope, "log_loss", labels, predictions, weights):
        labels, predictions = _floats(labels, predictions)
        ones = math.mul(labels, math.log(predictions + epsilon))
        zeros = math.mul(1 - labels, math.log(1 - predictions + epsilon))
        losses = -ones - zeros
        return compute_weighted_loss(losses, weights, None, loss_collection, reduction)


def hinge_loss(
    labels: TensorLike,
    logits: TensorLike,
    weights: TensorLike = 1.0,
    scope: str | None = None,
    loss_collection: str | None = LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Tensor:
    """Return the hinge loss of labels in {0, 1} and logits, whose sign is the prediction.

    Arguments as for `absolute_difference`.
    """
    with name_scope(scope, "hinge_loss", labels, logits, weights):
        labels, logits = _floats(labels, logits)
        signs = 2 * labels - 1
        losses = nn.relu(1 - signs * logits)
        return compute_weighted_loss(losses, weights, None, loss_collection, reduction)


@deprecated_aliases(dim="axis")
def cosine_distance(
    labels: TensorLike,
    predictions: TensorLike,
    axis: int | None = None,
    weights: TensorLike = 1.0,
    scope: str | None = None,
    loss_collection: str | None = LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Tensor:
    """Return 1 minus the dot product of vectors of length 1.

    Args:
        labels, predictions: tensors of one shape, with vectors of length 1 along `axis`.
        axis: the axis of the vectors.
        weights, scope, loss_collection, reduction: as for `compute_weighted_loss`.

    Raises:
        InvalidArgumentError: `axis` is None, or as for `absolute_difference`.
    """
    if axis is None:
        raise InvalidArgumentError("You must specify argument `axis`.")
    with name_scope(scope, "cosine_distance_loss", labels, predictions, weights):
        labels, predictions = _floats(labels, predictions)
        losses = 1 - reduce_sum(math.mul(predictions, labels), [axis], keepdims=True)
        return compute_weighted_loss(losses, weights, None, loss_collection, reduction)


def mean_pairwise_squared_error(
    labels: TensorLike,
    predictions: TensorLike,
    weights: TensorLike = 1.0,
    scope: str | None = None,
    loss_collection: str | None = LOSSES,
) -> Tensor:
    """Return the mean squared difference of errors over all pairs of elements of an example.

    Args:
        labels, predictions: tensors of one shape, with examples along the first axis.
        weights, scope, loss_collection: as for `compute_weighted_loss`.
    """
    with name_scope(scope, "mean_pairwise_squared_error", labels, predictions, weights) as (
        graph,
        _,
    ):
        labels, predictions = _floats(labels, predictions)
        factors = cast(weights, "float32")
        with graph.control_dependencies(_shape_checks(factors, labels)):
            errors = math.sub(predictions, labels)
            axes = math.range(1, array.rank(errors), 1)
            counts = reduce_sum(_present(errors, factors), axes, keepdims=True)
            squares = reduce_sum(math.square(errors), axes, keepdims=True)
            sums = reduce_sum(errors, axes, keepdims=True)
            one = math.div_no_nan(squares, math.maximum(counts - 1, 0))
            other = math.div_no_nan(math.square(sums), math.maximum(counts * (counts - 1), 0))
            total = reduce_sum((2.0 * one - 2.0 * other) * factors)
            has_any = math.greater(reduce_sum(counts), 0)
            loss = math.select(has_any, total, array.zeros_like(total))
        add_loss(loss, loss_collection)
        return loss


def sigmoid_cross_entropy(
    multi_class_labels: TensorLike,
    logits: TensorLike,
    weights: TensorLike = 1.0,
    label_smoothing: float = 0,
    scope: str | None = None,
    loss_collection: str | None = LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Tensor:
    """Return the cross entropy of labels in {0, 1} and logits, for each class independently.

    Args:
        multi_class_labels, logits: tensors of one shape.
        label_smoothing: moves the labels towards 1/2: 0 not at all, 1 fully.
        weights, scope, loss_collection, reduction: as for `compute_weighted_loss`.
    """
    with name_scope(scope, "sigmoid_cross_entropy_loss", multi_class_labels, logits, weights):
        logits = convert_to_tensor(logits)
        labels = cast(multi_class_labels, logits.dtype)
        _check_same_shape(labels, logits)
        if label_smoothing > 0:
            labels = labels * (1 - label_smoothing) + 0.5 * label_smoothing
        losses = functions.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)
        return compute_weighted_loss(losses, weights, None, loss_collection, reduction)


def softmax_cross_entropy(
    onehot_labels: TensorLike,
    logits: TensorLike,
    weights: TensorLike = 1.0,
    label_smoothing: float = 0,
    scope: str | None = None,
    loss_collection: str | None = LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Tensor:
    """Return the cross entropy of one-hot labels and logits.

    Args:
        onehot_labels, logits: tensors `[batch, classes]`.
        label_smoothing: moves the labels towards 1/classes: 0 not at all, 1 fully.
        weights, scope, loss_collection, reduction: as for `compute_weighted_loss`; the losses are
            `[batch]`.
    """
    with name_scope(scope, "softmax_cross_entropy_loss", onehot_labels, logits, weights):
        logits = convert_to_tensor(logits)
        labels = cast(onehot_labels, logits.dtype)
        _check_same_shape(labels, logits)
        if label_smoothing > 0:
            classes = cast(array.shape(labels)[-1], logits.dtype)
            labels = labels * (1.0 - label_smoothing) + label_smoothing / classes
        losses = functions.softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        return compute_weighted_loss(losses, weights, None, loss_collection, reduction)


def sparse_softmax_cross_entropy(
    labels: TensorLike,
    logits: TensorLike,
    weights: TensorLike = 1.0,
    scope: str | None = None,
    loss_collection: str | None = LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Tensor:
    """Return the cross entropy of class indices and logits.

        loss = graphmill.losses.sparse_softmax_cross_entropy([0, 1], [[9.0, 0.0], [9.0, 0.0]])
        print(round(float(session.run(loss)), 3))  # 4.5

    Args:
        labels: int32 or int64 `[batch]`, or `[batch, 1]`.
        logits: `[batch, classes]`.
        weights: as for `compute_weighted_loss`; also `[batch, 1]`.
        scope, loss_collection, reduction: as for `compute_weighted_loss`.
    """
    with name_scope(scope, "sparse_softmax_cross_entropy_loss", labels, logits, weights):
        logits, labels, weights = (convert_to_tensor(part) for part in (logits, labels, weights))
        if logits.shape.rank is not None and labels.shape.rank == logits.shape.rank:
            labels = functions.squeeze(labels, -1)
        if labels.shape.rank is not None and weights.shape.rank == labels.shape.rank + 1:
            weights = functions.squeeze(weights, -1)
        losses = functions.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        return compute_weighted_loss(losses, weights, None, loss_collection, reduction)


def add_loss(loss: Tensor, loss_collection: str | None = LOSSES) -> None:
    """Add a loss to a collection of its graph; to none if that is None."""
    if loss_collection:
        loss.graph.add_to_collection(loss_collection, loss)


def get_losses(scope: str | None = None, loss_collection: str = LOSSES) -> list[Tensor]:
    """Return the losses of the default graph whose names begin with `scope`."""
    return [
        loss
        for loss in infer_graph().get_collection(loss_collection)
        if scope is None or loss.name.startswith(scope)
    ]


def get_regularization_losses(scope: str | None = None) -> list[Tensor]:
    """Return the regularization losses of the default graph whose names begin with `scope`."""
    return get_losses(scope, REGULARIZATION_LOSSES)


def get_regularization_loss(
    scope: str | None = None, name: str = "total_regularization_loss"
) -> Tensor:
    """Return the sum of the regularization losses, 0 if there are none."""
    losses = get_regularization_losses(scope)
    return math.add_n(losses, name=name) if losses else infer_graph().constant(0.0)


def get_total_loss(
    add_regularization_losses: bool = True, name: str = "total_loss", scope: str | None = None
) -> Tensor:
    """Return the sum of all losses of the default graph.

        graphmill.losses.mean_squared_error([1.0], [3.0])
        graphmill.losses.absolute_difference([1.0], [3.0])
        print(session.run(graphmill.losses.get_total_loss()))  # 6.0

    Args:
        add_regularization_losses: whether the regularization losses count as well.
        name: name of the node.
        scope: only losses whose names begin with it.

    Raises:
        InvalidArgumentError: there are no losses.
    """
    losses = get_losses(scope)
    if add_regularization_losses:
        losses += get_regularization_losses(scope)
    if not losses:
        where = "" if scope is None else f" in scope {scope!r}"
        raise InvalidArgumentError(
            f"the graph has no losses{where}; add them with the functions of graphmill.losses"
        )
    return math.add_n(losses, name=name)


def _reduced(weighted: Tensor, losses: Tensor, weights: Tensor, reduction: str) -> Tensor:
    if reduction == Reduction.NONE:
        return weighted
    total = reduce_sum(weighted)
    if reduction == Reduction.SUM:
        return total
    if reduction == Reduction.MEAN:
        divisor = reduce_sum(array.ones_like(losses) * weights)
    elif reduction == Reduction.SUM_OVER_BATCH_SIZE:
        divisor = cast(array.size(losses), losses.dtype)
    else:
        divisor = reduce_sum(_present(losses, weights))
    return math.div_no_nan(total, divisor)


def _present(losses: Tensor, weights: Tensor) -> Tensor:
    """Return 1 for each loss whose weight is not 0, else 0."""
    is_present = cast(math.not_equal(weights, 0.0), "float32")
    return math.mul(is_present, array.ones_like(losses))


def _floats(labels: TensorLike, predictions: TensorLike) -> tuple[Tensor, Tensor]:
    """Return labels and predictions as float32, after a check of their shapes."""
    pair = cast(labels, "float32"), cast(predictions, "float32")
    _check_same_shape(*pair)
    return pair


def _check_same_shape(labels: Tensor, predictions: Tensor) -> None:
    if not predictions.shape.is_compatible_with(labels.shape):
        raise InvalidArgumentError(
            f"Shapes {predictions.shape} of the predictions {predictions.name!r} and "
            f"{labels.shape} of the labels {labels.name!r} are incompatible"
        )


def _shape_checks(weights: Tensor, losses: Tensor) -> list[Any]:
    """Return the nodes that check the shape of the weights; none if it is known to fit.

    Raises:
        InvalidArgumentError: it is known not to fit.
    """
    shape, expected = weights.shape, losses.shape
    if shape.rank == 0:
        return []
    message = "weights can not be broadcast to values."
    if shape.rank is not None and expected.rank is not None:
        pairs = list(zip(shape.as_list(), expected.as_list(), strict=False))
        may_fit = all(None in pair or pair[0] in (1, pair[1]) for pair in pairs)
        if shape.rank != expected.rank or not may_fit:
            raise InvalidArgumentError(
                f"{message} The weights have the shape {shape}, the values {expected}; a scalar, "
                "or the same rank with axes of size 1 or the same size is expected"
            )
        if all(pair[0] == 1 or (None not in pair) for pair in pairs):
            return []
    from graphmill.graph.assertion import Assert
    from graphmill.graph.control_flow.cond import cond

    is_scalar = math.equal(array.rank(weights), 0)

    def axes_fit() -> Tensor:
        sizes, limits = array.shape(weights), array.shape(losses)
        same = math.equal(array.size(sizes), array.size(limits))
        fit: Tensor = cond(
            same,
            lambda: math.all(math.logical_or(math.equal(sizes, 1), math.equal(sizes, limits)), [0]),
            lambda: array.identity(same),
        )
        return fit

    fits = cond(is_scalar, lambda: array.identity(is_scalar), axes_fit)
    shapes = [message, "weights.shape=", array.shape(weights), "values.shape=", array.shape(losses)]
    return [Assert(fits, shapes)]
