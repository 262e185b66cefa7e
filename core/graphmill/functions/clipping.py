"""Clip tensors, for example gradients, by value or by norm.

    gradients, norm = graphmill.train.clip_by_global_norm(gradients, 5.0)

Names, arguments and values are those of TensorFlow. Semantics: tensorflow/python/ops/clip_ops.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from graphmill.backprop.indexed_slices import IndexedSlices
from graphmill.errors import InvalidValueError
from graphmill.functions._inputs import scope
from graphmill.functions.array import stack
from graphmill.functions.building import convert_to_tensor
from graphmill.functions.math import cast, reduce_sum
from graphmill.ops import array, math, nn

if TYPE_CHECKING:
    from graphmill.graph.tensor import Tensor
    from graphmill.ops.inputs.arguments import TensorLike


def clip_by_value(
    t: Any, clip_value_min: TensorLike, clip_value_max: TensorLike, name: str | None = None
) -> Any:
    """Return a tensor with its elements limited to a range.

        print(session.run(graphmill.train.clip_by_value([-9, 1, 9], -2, 2)))  # [-2  1  2]

    Args:
        t: a tensor, or `IndexedSlices`.
        clip_value_min, clip_value_max: the limits, which broadcast to the shape of `t`.
        name: name of the node.
    """
    values = _values(t)
    with scope(name, "clip_by_value", values) as (_, prefix):
        below = math.minimum(values, clip_value_max)
        return _like(t, math.maximum(below, clip_value_min, name=prefix))


def clip_by_norm(t: Any, clip_norm: TensorLike, axes: Any = None, name: str | None = None) -> Any:
    """Return a tensor scaled so that its Euclidean norm is at most `clip_norm`.

        print(session.run(graphmill.train.clip_by_norm([3.0, 4.0], 1.0)))  # [0.6 0.8]

    Args:
        t: a tensor, or `IndexedSlices`.
        clip_norm: the limit, a scalar; a negative one counts as 0.
        axes: the axes along which the norm is computed; by default all.
        name: name of the node.
    """
    values = _values(t)
    with scope(name, "clip_by_norm", values, clip_norm) as (_, prefix):
        tensor = convert_to_tensor(values)
        limit = math.maximum(cast(clip_norm, tensor.dtype), 0)
        squares = reduce_sum(tensor * tensor, axes, keepdims=True)
        is_positive = math.greater(squares, 0)
        # The root of 0 has no gradient.
        safe = math.select(is_positive, squares, array.ones_like(squares))
        norm = math.select(is_positive, math.sqrt(safe), squares)
        clipped = tensor * limit / math.maximum(norm, limit)
        return _like(t, array.identity(clipped, name=prefix))


def clip_by_average_norm(t: TensorLike, clip_norm: TensorLike, name: str | None = None) -> Tensor:
    """Return a tensor scaled so that its norm, divided by its size, is at most `clip_norm`."""
    with scope(name, "clip_by_average_norm", t, clip_norm) as (_, prefix):
        tensor = convert_to_tensor(t)
        count = cast(array.size(tensor), "float32")
        inverse_norm = math.rsqrt(reduce_sum(tensor * tensor))
        factor = math.minimum(inverse_norm * count, math.real_div(1.0, clip_norm))
        return array.identity(tensor * clip_norm * factor, name=prefix)


def global_norm(t_list: Sequence[Any], name: str | None = None) -> Tensor:
    """Return the Euclidean norm of all elements of several tensors.

    Args:
        t_list: tensors, `IndexedSlices` and None, which is skipped.
        name: name of the scope.

    Raises:
        InvalidValueError: `t_list` is not a list, or holds no tensor.
    """
    tensors = [_values(t) for t in _checked(t_list) if t is not None]
    if not tensors:
        raise InvalidValueError("`t_list` holds no tensor, so it has no norm")
    with scope(name, "global_norm", tensors):
        halves = stack([nn.l2_loss(tensor) for tensor in tensors])
        return math.sqrt(reduce_sum(halves) * 2, name="global_norm")


def clip_by_global_norm(
    t_list: Sequence[Any],
    clip_norm: TensorLike,
    use_norm: Tensor | None = None,
    name: str | None = None,
) -> tuple[list[Any], Tensor]:
    """Return tensors scaled by one factor so that their global norm is at most `clip_norm`.

    If the norm is infinite or NaN, so are the results.

    Args:
        t_list: tensors, `IndexedSlices` and None, which stays None.
        clip_norm: the limit, a scalar above 0.
        use_norm: the global norm, if it is computed already.
        name: name of the scope.

    Returns:
        The clipped tensors, and the global norm before clipping.

    Raises:
        InvalidValueError: `t_list` is not a list, or holds no tensor.
    """
    values = [None if t is None else _values(t) for t in _checked(t_list)]
    norm = global_norm(t_list, name) if use_norm is None else use_norm
    with scope(name, "clip_by_global_norm", norm, clip_norm) as (_, prefix):
        scale = clip_norm * math.minimum(
            math.real_div(1, norm), math.real_div(1, cast(clip_norm, norm.dtype))
        )
        scale = scale + (norm - norm)  # NaN unless the norm is finite
        clipped = [
            None
            if tensor is None
            else array.identity(tensor * cast(scale, tensor.dtype), name=f"{prefix[:-1]}_{index}/")
            for index, tensor in enumerate(values)
        ]
    return [_like(t, tensor) for t, tensor in zip(t_list, clipped, strict=True)], norm


def _checked(t_list: Any) -> Sequence[Any]:
    if not isinstance(t_list, Sequence) or isinstance(t_list, str):
        raise InvalidValueError(
            f"`t_list` should be a sequence of tensors. Received {type(t_list).__name__}."
        )
    return t_list


def _values(t: Any) -> Any:
    return t.values if isinstance(t, IndexedSlices) else t


def _like(t: Any, values: Any) -> Any:
    return (
        IndexedSlices(values, t.indices, t.dense_shape) if isinstance(t, IndexedSlices) else values
    )
