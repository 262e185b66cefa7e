"""Neural networks: `softmax`, `dropout`, `conv2d`, `moments`, cross entropies and others.

Names, arguments and their order are those of `tf.compat.v1.nn`. Semantics:
tensorflow/python/ops/nn_ops.py and nn_impl.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill.deprecations import deprecated_aliases, warn_renamed
from graphmill.errors import InvalidArgumentError
from graphmill.functions._inputs import argument_aliases, scope
from graphmill.functions.array import concat, shape, squeeze, transpose
from graphmill.functions.building import convert_to_tensor
from graphmill.functions.math import cast, reduce_mean, reduce_sum
from graphmill.functions.random import random_uniform
from graphmill.ops import array, math, nn

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.graph.tensor import Tensor
    from graphmill.ops.inputs.arguments import DTypeLike, TensorLike

    Sizes = int | Sequence[int]

_INDEX_TYPES: Final = ("int16", "int32", "int64")


@deprecated_aliases(dim="axis")
def softmax(logits: TensorLike, axis: int | None = None, name: str | None = None) -> Tensor:
    """Return `exp(logits) / sum(exp(logits))` along an axis, by default the last one.

        print(session.run(F.softmax([1.0, 1.0])))  # [0.5 0.5]

    Args:
        logits: a tensor of floats.
        axis: the axis, by default the last one.
        name: name of the node.
    """
    return _along_last_axis(nn.softmax, logits, -1 if axis is None else axis, name, "Softmax")


@deprecated_aliases(dim="axis")
def log_softmax(logits: TensorLike, axis: int | None = None, name: str | None = None) -> Tensor:
    """Return the logarithm of the softmax along an axis, by default the last one."""
    return _along_last_axis(
        nn.log_softmax, logits, -1 if axis is None else axis, name, "LogSoftmax"
    )


@deprecated_aliases(dim="axis")
def softmax_cross_entropy_with_logits(
    *, labels: TensorLike, logits: TensorLike, axis: int | None = None, name: str | None = None
) -> Tensor:
    """Return the cross entropy of probabilities and logits, without a gradient for the labels.

    Args:
        labels: probabilities, with the shape and element type of `logits`.
        logits: unnormalized logarithms of probabilities.
        axis: the axis of the classes, by default the last one.
        name: name of the scope.

    Returns:
        The losses, with the shape of `logits` without the axis.
    """
    with scope(name, "softmax_cross_entropy_with_logits_sg", labels, logits):
        labels = array.stop_gradient(convert_to_tensor(labels), name="labels_stop_gradient")
        return softmax_cross_entropy_with_logits_v2(labels, logits, axis)


@deprecated_aliases(dim="axis")
def softmax_cross_entropy_with_logits_v2(
    labels: TensorLike, logits: TensorLike, axis: int | None = None, name: str | None = None
) -> Tensor:
    """Return `softmax_cross_entropy_with_logits`, with a gradient for the labels as well."""
    with scope(name, "softmax_cross_entropy_with_logits", labels, logits):
        logits = convert_to_tensor(logits)
        labels = cast(labels, logits.dtype)
        rank = logits.shape.rank
        axis = -1 if axis is None else axis
        if axis != -1 and axis + 1 != rank:
            logits = transpose(logits, _to_last(axis, _known(rank, "softmax_cross_entropy")))
            labels = transpose(labels, _to_last(axis, _known(rank, "softmax_cross_entropy")))
        if rank == 2:
            return nn.softmax_cross_entropy_with_logits(logits, labels).loss
        sizes = shape(logits)
        flat = concat([[-1], sizes[-1:]], 0)
        losses = nn.softmax_cross_entropy_with_logits(
            array.reshape(logits, flat), array.reshape(labels, flat)
        ).loss
        return array.reshape(losses, sizes[:-1])


def sparse_softmax_cross_entropy_with_logits(
    *, labels: TensorLike, logits: TensorLike, name: str | None = None
) -> Tensor:
    """Return the cross entropy of class indices and logits.

        losses = F.sparse_softmax_cross_entropy_with_logits(
            labels=[0, 1], logits=[[9.0, 0.0], [9.0, 0.0]]
        )
        print(session.run(losses).round(3))  # [0. 9.]

    Args:
        labels: int32 or int64, with the shape of `logits` without the last axis.
        logits: unnormalized logarithms of probabilities.
        name: name of the scope.
    """
    with scope(name, "SparseSoftmaxCrossEntropyWithLogits", labels, logits):
        logits, labels = convert_to_tensor(logits), convert_to_tensor(labels)
        if logits.shape.rank == 2:
            return nn.sparse_softmax_cross_entropy_with_logits(logits, labels).loss
        flat = concat([[-1], shape(logits)[-1:]], 0)
        losses = nn.sparse_softmax_cross_entropy_with_logits(
            array.reshape(logits, flat), array.reshape(labels, [-1])
        ).loss
        return array.reshape(losses, shape(labels))


def sigmoid_cross_entropy_with_logits(
    *, labels: TensorLike, logits: TensorLike, name: str | None = None
) -> Tensor:
    """Return the cross entropy of independent probabilities and their logits.

    Args:
        labels: probabilities, with the shape and element type of `logits`.
        logits: logarithms of odds.
        name: name of the node.
    """
    with scope(name, "logistic_loss", labels, logits) as (_, prefix):
        logits = convert_to_tensor(logits)
        labels = convert_to_tensor(labels, logits.dtype.base_dtype)
        zeros = array.zeros_like(logits)
        is_positive = math.greater_equal(logits, zeros)
        relu = math.select(is_positive, logits, zeros)
        negative = math.select(is_positive, math.neg(logits), logits)
        return math.add_v2(relu - logits * labels, math.log1p(math.exp(negative)), name=prefix)


def dropout(
    x: TensorLike,
    keep_prob: TensorLike | None = None,
    noise_shape: TensorLike | None = None,
    seed: int | None = None,
    name: str | None = None,
    rate: TensorLike | None = None,
) -> Tensor:
    """Set elements to 0 at random, and divide the others by the probability of keeping one.

        print(session.run(F.dropout(F.ones([4]), rate=0.5, seed=1)))  # [0. 2. 0. 0.]

    Args:
        x: a tensor of floats.
        keep_prob: the probability that an element stays; or give `rate`.
        noise_shape: the shape of the random numbers, which broadcasts to that of `x`.
        seed: the seed of the op; see `graphmill.get_seed`.
        name: name of the scope.
        rate: the probability that an element is set to 0, from 0 to below 1.

    Raises:
        InvalidArgumentError: not exactly one of `keep_prob` and `rate` is given, or it is not a
            probability.
    """
    if (keep_prob is None) == (rate is None):
        raise InvalidArgumentError("pass exactly one of rate and keep_prob to dropout")
    if rate is None:
        rate = 1 - keep_prob  # type: ignore[operator]
    is_number = isinstance(rate, (int, float))
    if is_number and not 0 <= rate < 1:  # type: ignore[operator]
        raise InvalidArgumentError(
            f"`rate` must be a scalar tensor or a float in the range [0, 1), got {rate}"
        )
    with scope(name, "dropout", x, rate):
        tensor = convert_to_tensor(x)
        if is_number and rate == 0:
            return tensor
        sizes = shape(tensor) if noise_shape is None else noise_shape
        noise = random_uniform(sizes, dtype=tensor.dtype.base_dtype, seed=seed)
        if is_number:
            scaled = tensor * (1 / (1 - rate))  # type: ignore[operator]
        else:
            scaled = tensor / (1 - cast(rate, tensor.dtype))
        return math.select_v2(math.greater_equal(noise, rate), scaled, 0)


@argument_aliases(filters="filter")
def conv2d(
    input: TensorLike,  # noqa: A002 - TensorFlow's name
    filter: TensorLike,  # noqa: A002 - TensorFlow's name
    strides: Sizes = 1,
    padding: str | Sequence[Sequence[int]] = "VALID",
    use_cudnn_on_gpu: bool = True,
    data_format: str = "NHWC",
    dilations: Sizes = 1,
    name: str | None = None,
) -> Tensor:
    """Convolve images with filters.

        images = F.ones([1, 8, 8, 3])
        filters = F.ones([3, 3, 3, 16])
        print(F.conv2d(images, filters, strides=2, padding="SAME").shape)  # (1, 4, 4, 16)

    Args:
        input: images `[batch, height, width, channels]`, or "NCHW".
        filter: `[height, width, channels, outputs]`; it may be passed as `filters`.
        strides, dilations: one number, one for height and width, or four.
        padding: "SAME", "VALID", or the elements before and after each of the four axes.
        use_cudnn_on_gpu: an attr of the node, for a consumer of the graph. A string is taken as
            `data_format`, and what follows as the arguments after that, with a warning for one
            version.
        data_format: "NHWC" or "NCHW".
        name: name of the node.

    Raises:
        InvalidArgumentError: there are other numbers of strides or dilations.
    """
    if not isinstance(use_cudnn_on_gpu, bool):
        warn_renamed("the fifth argument of conv2d, a string,", "data_format")
        if isinstance(dilations, str):
            name, dilations = dilations, 1
        if not isinstance(data_format, str):
            dilations = data_format
        use_cudnn_on_gpu, data_format = True, use_cudnn_on_gpu
    explicit = () if isinstance(padding, str) else [size for pair in padding for size in pair]
    return nn.conv2d(
        input,
        filter,
        strides=_per_axis(strides, data_format, "strides"),
        padding=padding if isinstance(padding, str) else "EXPLICIT",
        use_cudnn_on_gpu=use_cudnn_on_gpu,
        explicit_paddings=explicit,
        data_format=data_format,
        dilations=_per_axis(dilations, data_format, "dilations"),
        name=name,
    )


@argument_aliases(input="value")
def max_pool(
    value: TensorLike,
    ksize: Sizes,
    strides: Sizes,
    padding: str,
    data_format: str = "NHWC",
    name: str | None = None,
) -> Tensor:
    """Return the maximum of each window of images.

        images = F.ones([1, 8, 8, 3])
        print(F.max_pool(images, ksize=2, strides=2, padding="VALID").shape)  # (1, 4, 4, 3)

    Args:
        value: images `[batch, height, width, channels]`, or "NCHW"; they may be passed as `input`.
        ksize, strides: one number, one for height and width, or four.
        padding: "SAME" or "VALID".
        data_format: "NHWC" or "NCHW".
        name: name of the node.

    Raises:
        InvalidArgumentError: there are other numbers of sizes or strides.
    """
    return _pool(nn.max_pool, value, ksize, strides, padding, data_format, name)


@argument_aliases(input="value")
def avg_pool(
    value: TensorLike,
    ksize: Sizes,
    strides: Sizes,
    padding: str,
    data_format: str = "NHWC",
    name: str | None = None,
) -> Tensor:
    """Return the mean of each window of images; arguments as for `max_pool`."""
    return _pool(nn.avg_pool, value, ksize, strides, padding, data_format, name)


def bias_add(
    value: TensorLike, bias: TensorLike, data_format: str | None = None, name: str | None = None
) -> Tensor:
    """Add a vector along the axis of the channels."""
    return nn.bias_add(value, bias, data_format=data_format or "NHWC", name=name)


@deprecated_aliases(dim="axis")
def l2_normalize(
    x: TensorLike, axis: Any = None, epsilon: float = 1e-12, name: str | None = None
) -> Tensor:
    """Divide by the Euclidean norm along axes, whose square is at least `epsilon`."""
    with scope(name, "l2_normalize", x) as (_, prefix):
        tensor = convert_to_tensor(x)
        squares = reduce_sum(math.square(tensor), axis, keepdims=True)
        return math.mul(tensor, math.rsqrt(math.maximum(squares, epsilon)), name=prefix)


@deprecated_aliases(keep_dims="keepdims")
def moments(
    x: TensorLike,
    axes: Any,
    shift: None = None,
    name: str | None = None,
    keepdims: bool | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the mean and the variance along axes.

        mean, variance = F.moments([[1.0, 3.0], [5.0, 5.0]], axes=[1])
        print(session.run(mean), session.run(variance))  # [2. 5.] [1. 0.]

    Args:
        x: a tensor of floats.
        axes: a list of axes.
        shift: must be None, as in TensorFlow, which ignores it.
        name: name of the scope.
        keepdims: whether the axes stay, with size 1.

    Raises:
        InvalidArgumentError: `shift` is not None.
    """
    if shift is not None:
        raise InvalidArgumentError("moments has no shift; pass None")
    with scope(name, "moments", x):
        tensor = convert_to_tensor(x)
        wide = cast(tensor, "float32") if tensor.dtype.name == "float16" else tensor
        mean = reduce_mean(wide, axes, keepdims=True, name="mean")
        squares = math.squared_difference(wide, array.stop_gradient(mean))
        variance = reduce_mean(squares, axes, keepdims=True, name="variance")
        if not keepdims:
            mean, variance = squeeze(mean, axes), squeeze(variance, axes)
        return cast(mean, tensor.dtype), cast(variance, tensor.dtype)


def batch_normalization(
    x: TensorLike,
    mean: TensorLike,
    variance: TensorLike,
    offset: TensorLike | None,
    scale: TensorLike | None,
    variance_epsilon: float,
    name: str | None = None,
) -> Tensor:
    """Return `(x - mean) / sqrt(variance + variance_epsilon) * scale + offset`; all broadcast."""
    with scope(name, "batchnorm", x, mean, variance, offset, scale):
        factor = math.rsqrt(math.add_v2(variance, variance_epsilon))
        if scale is not None:
            factor = math.mul(factor, scale)
        shift = math.mul(mean, factor)
        return math.mul(x, factor) + (math.neg(shift) if offset is None else offset - shift)


def top_k(
    input: TensorLike,  # noqa: A002 - TensorFlow's name
    k: TensorLike = 1,
    sorted: bool = True,  # noqa: A002 - TensorFlow's name
    index_type: DTypeLike = "int32",
    name: str | None = None,
) -> Any:
    """Return the `k` largest elements along the last axis, and their indices.

        values, indices = F.top_k([3.0, 9.0, 5.0], k=2)
        print(session.run(indices))  # [1 2]

    Args:
        input: a tensor of numbers.
        k: how many elements.
        sorted: whether they come in descending order.
        index_type: type of the indices. A name is accepted with a warning for one version.
        name: name of the node.

    Returns:
        A named tuple of `values` and `indices`.
    """
    if isinstance(index_type, str) and index_type not in _INDEX_TYPES:
        warn_renamed("the fourth argument of top_k, a name,", "name")
        index_type, name = "int32", index_type
    return nn.top_kv2(input, k, sorted=sorted, index_type=index_type, name=name)


def in_top_k(
    predictions: TensorLike, targets: TensorLike, k: TensorLike, name: str | None = None
) -> Tensor:
    """Return for each row of predictions whether the target is among the `k` largest."""
    return nn.in_top_kv2(predictions, targets, k, name=name)


def _along_last_axis(
    op: Callable[..., Tensor], logits: TensorLike, axis: int, name: str | None, default: str
) -> Tensor:
    with scope(name, default, logits) as (_, prefix):
        tensor = convert_to_tensor(logits)
        rank = tensor.shape.rank
        if axis == -1 or axis + 1 == rank:
            return op(tensor, name=prefix)
        order = _to_last(axis, _known(rank, default))
        return transpose(op(transpose(tensor, order)), _inverse(order))


def _to_last(axis: int, rank: int) -> list[int]:
    """Return the order of axes that moves one axis to the end."""
    if not -rank <= axis < rank:
        raise InvalidArgumentError(f"axis {axis} is not an axis of a tensor of rank {rank}")
    chosen = axis % rank
    return [*(i for i in range(rank) if i != chosen), chosen]


def _inverse(order: list[int]) -> list[int]:
    return sorted(range(len(order)), key=order.__getitem__)


def _known(rank: int | None, function: str) -> int:
    if rank is None:
        raise InvalidArgumentError(
            f"{function} along an axis other than the last needs a tensor of known rank"
        )
    return rank


def _pool(
    op: Callable[..., Tensor],
    value: TensorLike,
    ksize: Sizes,
    strides: Sizes,
    padding: str,
    data_format: str,
    name: str | None,
) -> Tensor:
    return op(
        value,
        ksize=_per_axis(ksize, data_format, "ksize"),
        strides=_per_axis(strides, data_format, "strides"),
        padding=padding,
        data_format=data_format,
        name=name,
    )


def _per_axis(sizes: Sizes, data_format: str, what: str) -> list[int]:
    """Return sizes for all four axes of images."""
    values = [int(sizes)] if isinstance(sizes, (int, np.integer)) else list(sizes)
    if len(values) == 4:
        return values
    if len(values) not in (1, 2):
        raise InvalidArgumentError(f"{what} must be 1, 2 or 4 numbers, got {sizes!r}")
    spatial = values * 2 if len(values) == 1 else values
    return [1, 1, *spatial] if data_format.startswith("NC") else [1, *spatial, 1]
