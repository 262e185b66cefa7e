"""Shapes and elements: `reshape`, `transpose`, `concat`, `stack`, `gather`, and others.

Names, arguments and their order are those of `tf.compat.v1`. Semantics:
tensorflow/python/ops/array_ops.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.deprecations import deprecated_aliases, warn_renamed
from graphmill.dtypes import DType, as_dtype
from graphmill.errors import InvalidArgumentError, InvalidValueError
from graphmill.functions._inputs import scope, shape_input
from graphmill.functions.building import convert_to_tensor
from graphmill.ops import array, math

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.graph.tensor import Tensor
    from graphmill.ops.inputs.arguments import DTypeLike, TensorLike

    Size = int | Tensor


def reshape(tensor: TensorLike, shape: TensorLike, name: str | None = None) -> Tensor:
    """Return the elements in another shape.

        print(session.run(F.reshape([1, 2, 3, 4], [2, -1])).tolist())  # [[1, 2], [3, 4]]

    Args:
        tensor: the tensor.
        shape: the new shape, integers `[rank]`; one size may be -1.
        name: name of the node.
    """
    return array.reshape(tensor, shape_input(shape), name=name)


def transpose(
    a: TensorLike, perm: TensorLike | None = None, name: str = "transpose", conjugate: bool = False
) -> Tensor:
    """Permute the axes, by default in reverse order.

        print(session.run(F.transpose([[1, 2, 3], [4, 5, 6]])).tolist())  # [[1, 4], [2, 5], [3, 6]]

    Args:
        a: a tensor of any rank.
        perm: for each axis of the result, the axis of `a`.
        name: name of the node.
        conjugate: whether to conjugate complex numbers as well.
    """
    op = array.conjugate_transpose if conjugate else array.transpose
    if perm is not None:
        return op(a, perm, name=name)
    with scope(name, "transpose", a) as (graph, prefix):
        a = convert_to_tensor(a)
        rank = a.shape.rank
        if rank is not None:
            return op(a, list(range(rank))[::-1], name=prefix)
        count = array.rank(a)
        return op(a, math.range(count - 1, graph.constant(-1), graph.constant(-1)), name=prefix)


@deprecated_aliases(dim="axis")
def expand_dims(
    input: TensorLike,  # noqa: A002 - TensorFlow's name
    axis: TensorLike,
    name: str | None = None,
) -> Tensor:
    """Insert an axis of size 1 before `axis`; -1 appends it.

        print(F.expand_dims([1, 2, 3], axis=0).shape)  # (1, 3)

    Args:
        input: the tensor.
        axis: the position of the new axis; negative ones count from the last, and -1 appends.
        name: name of the node.
    """
    return array.expand_dims(input, axis, name=name)


@deprecated_aliases(squeeze_dims="axis")
def squeeze(
    input: TensorLike,  # noqa: A002 - TensorFlow's name
    axis: int | Sequence[int] | None = None,
    name: str | None = None,
) -> Tensor:
    """Remove the listed axes of size 1, by default all of them.

        print(F.squeeze([[[1], [2]]], axis=[0, 2]).shape)  # (2,)

    Args:
        input: the tensor.
        axis: the axes to remove, each of size 1; by default all of size 1.
        name: name of the node.
    """
    if isinstance(axis, (int, np.integer)):
        axis = [int(axis)]
    axes = [] if axis is None else list(axis)
    return array.squeeze(input, squeeze_dims=axes, name=name)


def concat(values: Sequence[TensorLike], axis: TensorLike, name: str = "concat") -> Tensor:
    """Concatenate tensors along an axis.

        print(session.run(F.concat([[1, 2], [3]], axis=0)))  # [1 2 3]

    Args:
        values: tensors whose shapes are equal except along `axis`.
        axis: the axis, a scalar.
        name: name of the node.
    """
    if len(values) == 1:
        return array.identity(values[0], name=name)
    return array.concat_v2(values, axis, name=name)


def stack(values: Sequence[TensorLike], axis: int = 0, name: str = "stack") -> Tensor:
    """Stack tensors of one shape along a new axis.

        print(session.run(F.stack([[1, 2], [3, 4]], axis=1)).tolist())  # [[1, 3], [2, 4]]

    Args:
        values: tensors of one shape and element type.
        axis: the position of the new axis.
        name: name of the node.
    """
    return array.pack(list(values), axis=axis, name=name)


def unstack(
    value: TensorLike, num: int | None = None, axis: int = 0, name: str = "unstack"
) -> list[Tensor]:
    """Split a tensor along an axis into tensors without that axis.

        first, second = F.unstack([[1, 2], [3, 4]])
        print(session.run(second))  # [3 4]

    Args:
        value: a tensor of at least rank 1.
        num: the size of the axis; by default its static size.
        axis: the axis; negative ones count from the last.
        name: name of the node.

    Raises:
        InvalidArgumentError: neither `num` nor the static size is known.
    """
    if num is None:
        tensor = convert_to_tensor(value)
        num = None if tensor.shape.rank is None else tensor.shape.as_list()[axis]
        if num is None:
            raise InvalidArgumentError(
                f"Cannot infer argument `num` from shape {tensor.shape} of {tensor.name!r}; pass it"
            )
        value = tensor
    return array.unpack(value, num=num, axis=axis, name=name)


def split(
    value: TensorLike,
    num_or_size_splits: int | TensorLike,
    axis: TensorLike = 0,
    num: int | None = None,
    name: str = "split",
) -> list[Tensor]:
    """Split a tensor along an axis.

        first, second = F.split([1, 2, 3, 4, 5], [2, 3])
        print(session.run(second))  # [3 4 5]

    Args:
        value: the tensor.
        num_or_size_splits: the number of equal parts, or the size of each part; one may be -1.
        axis: the axis.
        num: the number of parts, if the sizes are a tensor of unknown length.
        name: name of the node.

    Raises:
        InvalidArgumentError: the number of parts is unknown.
    """
    if isinstance(num_or_size_splits, (int, np.integer)):
        return array.split(axis, value, num_split=int(num_or_size_splits), name=name)
    sizes = convert_to_tensor(num_or_size_splits)
    if num is None:
        num = sizes.shape.as_list()[0] if sizes.shape.rank else None
        if num is None:
            raise InvalidArgumentError(
                f"Cannot infer argument `num` from shape {sizes.shape} of num_or_size_splits"
            )
    return array.split_v(value, sizes, axis, num_split=num, name=name)


def gather(
    params: TensorLike,
    indices: TensorLike,
    validate_indices: bool | None = None,
    name: str | None = None,
    axis: TensorLike | None = None,
    batch_dims: int = 0,
) -> Tensor:
    """Return slices of `params` along an axis.

        print(session.run(F.gather([10, 20, 30], [2, 0])))  # [30 10]

    Args:
        params: the tensor.
        indices: integers of any shape, which replaces the axis in the result. A step fails if one
            is out of range.
        validate_indices: has no effect, as in TensorFlow. An axis is taken as `axis`, and what
            follows as `batch_dims` and `name`, with a warning for one version.
        name: name of the node.
        axis: the axis, by default the first one after the batch axes.
        batch_dims: the number of leading axes that `params` and `indices` have in common.
    """
    if not isinstance(validate_indices, bool | None) or not isinstance(name, str | None):
        warn_renamed("the third argument of gather, an axis,", "axis")
        old_axis, old_batch_dims, old_name = validate_indices, name, axis
        if isinstance(name, str | None):  # what followed the axis, if anything, is by keyword
            old_batch_dims, old_name = batch_dims, name
        return gather(params, indices, None, old_name, old_axis, old_batch_dims)
    axis = batch_dims if axis is None else axis
    return array.gather_v2(params, indices, axis, batch_dims=batch_dims, name=name)


def one_hot(
    indices: TensorLike,
    depth: TensorLike,
    on_value: TensorLike | None = None,
    off_value: TensorLike | None = None,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    name: str | None = None,
) -> Tensor:
    """Return `on_value` where the index of the new axis is that of `indices`, else `off_value`.

        print(session.run(F.one_hot([1, 0], 3)).tolist())  # [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]

    Args:
        indices: integers of any shape.
        depth: the size of the new axis.
        on_value, off_value: scalars, by default 1 and 0.
        axis: position of the new axis, by default the last one.
        dtype: the element type, by default that of the values, else float32.
        name: name of the node.
    """
    if dtype is None and on_value is None and off_value is None:
        dtype = "float32"
    with scope(name, "one_hot", indices, depth, on_value, off_value) as (graph, prefix):
        if dtype is None:
            present = on_value if on_value is not None else off_value
            dtype = convert_to_tensor(present).dtype.base_dtype
        on = graph.convert(1 if on_value is None else on_value, dtype, "on_value")
        off = graph.convert(0 if off_value is None else off_value, dtype, "off_value")
        return array.one_hot(
            indices, depth, on, off, axis=-1 if axis is None else axis, name=prefix
        )


def pad(
    tensor: TensorLike,
    paddings: TensorLike,
    mode: str = "CONSTANT",
    name: str | None = None,
    constant_values: TensorLike = 0,
) -> Tensor:
    """Add elements before and after each axis.

        print(session.run(F.pad([1, 2], [[1, 2]])))  # [0 1 2 0 0]

    Args:
        tensor: the tensor, of rank n.
        paddings: integers `[n, 2]`: how many before and after.
        mode: "CONSTANT", "REFLECT" or "SYMMETRIC".
        name: name of the node.
        constant_values: the new elements, a scalar, if the mode is "CONSTANT".

    Raises:
        InvalidArgumentError: there is no such mode.
    """
    mode = mode.upper()
    if mode == "CONSTANT":
        if isinstance(constant_values, (int, float)) and constant_values == 0:
            return array.pad(tensor, paddings, name=name)
        return array.pad_v2(tensor, paddings, constant_values, name=name)
    if mode not in ("REFLECT", "SYMMETRIC"):
        raise InvalidArgumentError(
            f"mode must be 'CONSTANT', 'REFLECT' or 'SYMMETRIC', got {mode!r}"
        )
    return array.mirror_pad(tensor, paddings, mode=mode, name=name)


def tile(
    input: TensorLike,  # noqa: A002 - TensorFlow's name
    multiples: TensorLike,
    name: str | None = None,
) -> Tensor:
    """Repeat a tensor along each axis.

        print(session.run(F.tile([1, 2], [2])))  # [1 2 1 2]

    Args:
        input: the tensor.
        multiples: integers `[rank]`: how many times each axis is repeated.
        name: name of the node.
    """
    return array.tile(input, shape_input(multiples), name=name)


def shape(
    input: TensorLike,  # noqa: A002 - TensorFlow's name
    name: str | None = None,
    out_type: DTypeLike | None = None,
) -> Tensor:
    """Return the shape of a tensor when it is run, as integers `[rank]`, by default int32."""
    return array.shape(input, out_type=out_type or "int32", name=name)


def size(
    input: TensorLike,  # noqa: A002 - TensorFlow's name
    name: str | None = None,
    out_type: DTypeLike | None = None,
) -> Tensor:
    """Return the number of elements of a tensor, a scalar, by default int32."""
    return array.size(input, out_type=out_type or "int32", name=name)


def zeros(shape: TensorLike, dtype: DTypeLike = "float32", name: str | None = None) -> Tensor:
    """Return a tensor of zeros; of empty strings or False for those types."""
    empty = {"string": b"", "bool": False}.get(as_dtype(dtype).name, 0)
    return _filled(shape, empty, dtype, name, "zeros")


def ones(shape: TensorLike, dtype: DTypeLike = "float32", name: str | None = None) -> Tensor:
    """Return a tensor of ones; of True for bool."""
    return _filled(shape, True if as_dtype(dtype).is_bool else 1, dtype, name, "ones")


def fill(dims: TensorLike, value: TensorLike, name: str | None = None) -> Tensor:
    """Return a tensor with the shape `dims` whose elements are all `value`, a scalar.

        print(session.run(F.fill([3], 7)))  # [7 7 7]

    Args:
        dims: the shape, integers `[rank]`.
        value: a scalar.
        name: name of the node.
    """
    return array.fill(shape_input(dims), value, name=name)


def zeros_like(
    tensor: TensorLike, dtype: DTypeLike | None = None, name: str | None = None
) -> Tensor:
    """Return zeros with the shape of a tensor, and by default its element type."""
    if dtype is None:
        return array.zeros_like(tensor, name=name)
    with scope(name, "zeros_like", tensor):
        return zeros(array.shape(tensor), dtype)


def ones_like(
    tensor: TensorLike, dtype: DTypeLike | None = None, name: str | None = None
) -> Tensor:
    """Return ones with the shape of a tensor, and by default its element type."""
    if dtype is None:
        return array.ones_like(tensor, name=name)
    with scope(name, "ones_like", tensor):
        return ones(array.shape(tensor), dtype)


def eye(
    num_rows: int,
    num_columns: int | None = None,
    batch_shape: TensorLike | None = None,
    dtype: DTypeLike = "float32",
    name: str | None = None,
) -> Tensor:
    """Return an identity matrix, or a batch of them.

    Args:
        num_rows, num_columns: the sizes of a matrix, by default square.
        batch_shape: the sizes of the axes before those of the matrices. An element type is taken
            as `dtype`, with a warning for one version.
        dtype: the element type.
        name: name of the scope.
    """
    if isinstance(batch_shape, str | DType):
        warn_renamed("the third argument of eye, an element type,", "dtype")
        return eye(num_rows, num_columns, dtype=batch_shape, name=name)
    columns = num_rows if num_columns is None else num_columns
    with scope(name, "eye", batch_shape):
        sizes: TensorLike = [min(num_rows, columns)]
        if batch_shape is not None:
            sizes = concat([convert_to_tensor(shape_input(batch_shape), "int32"), sizes], 0)
        diagonal = ones(sizes, dtype)
        return array.matrix_diag_v3(diagonal, 0, num_rows, columns, zeros([], dtype))


def where(
    condition: TensorLike,
    x: TensorLike | None = None,
    y: TensorLike | None = None,
    name: str | None = None,
) -> Tensor:
    """Select from two tensors of one shape, or return the indices of true elements.

        print(session.run(F.where([True, False], [1, 2], [8, 9])))  # [1 9]
        print(session.run(F.where([False, True, True])).tolist())  # [[1], [2]]

    Args:
        condition: bool with the shape of `x` and `y`, or `[rows]`, or a scalar.
        x, y: tensors of one shape, both or none; `where_v2` broadcasts them.
        name: name of the node.

    Returns:
        A tensor like `x`, or int64 `[number of true elements, rank of the condition]`.

    Raises:
        InvalidArgumentError: only one of `x` and `y` is given.
    """
    if x is None and y is None:
        return array.where(condition, name=name)
    if x is None or y is None:
        raise InvalidArgumentError("x and y must both be non-None or both be None.")
    return math.select(condition, x, y, name=name)


def where_v2(
    condition: TensorLike,
    x: TensorLike | None = None,
    y: TensorLike | None = None,
    name: str | None = None,
) -> Tensor:
    """Select as `where` does, but broadcast the condition and the tensors."""
    if x is None or y is None:
        return where(condition, x, y, name)
    return math.select_v2(condition, x, y, name=name)


def boolean_mask(
    tensor: TensorLike, mask: TensorLike, name: str = "boolean_mask", axis: int | None = None
) -> Tensor:
    """Return the slices of a tensor along an axis where a mask is true.

        print(session.run(F.boolean_mask([10, 20, 30], [True, False, True])))  # [10 30]

    Args:
        tensor: the tensor.
        mask: bool, with the sizes of the axes of `tensor` from `axis` on; its rank must be known.
        name: name of the scope.
        axis: the first axis of the mask, by default 0.

    Raises:
        InvalidArgumentError: the rank of the mask is unknown or 0, or the mask has other sizes.
    """
    with scope(name, "boolean_mask", tensor, mask):
        tensor, mask = convert_to_tensor(tensor), convert_to_tensor(mask, "bool")
        axis, rank = axis or 0, mask.shape.rank
        if not rank:
            raise InvalidArgumentError(
                f"the rank of the mask must be known and at least 1, its shape is {mask.shape}"
            )
        masked = tensor.shape[axis : axis + rank]
        if not masked.is_compatible_with(mask.shape):
            raise InvalidValueError(
                f"a mask of shape {mask.shape} does not fit the axes from {axis} on of a tensor of "
                f"shape {tensor.shape}"
            )
        sizes = array.shape(tensor)
        merged = concat([sizes[:axis], [-1], sizes[axis + rank :]], 0)
        rows = squeeze(array.where(array.reshape(mask, [-1])), 1)
        return gather(array.reshape(tensor, merged), rows, axis=axis)


def _filled(
    shape: TensorLike, value: Any, dtype: DTypeLike, name: str | None, default: str
) -> Tensor:
    """Return a tensor of a shape whose elements are all one value."""
    with scope(name, default, shape) as (graph, prefix):
        one = graph.constant(value, dtype)
        return array.fill(shape_input(shape), one, name=prefix)
