"""Arithmetic: `matmul`, `cast`, `reduce_mean`, `argmax`, `tensordot` and others.

Names, arguments and their order are those of `tf.compat.v1`. Semantics:
tensorflow/python/ops/math_ops.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill.deprecations import deprecated_aliases, warn_renamed
from graphmill.dtypes import as_dtype, bfloat16, float32
from graphmill.errors import InvalidArgumentError, InvalidValueError, UnimplementedError
from graphmill.functions._inputs import scope, shape_input
from graphmill.functions.array import concat, reshape
from graphmill.functions.building import convert_to_tensor
from graphmill.ops import array, linalg, math

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.graph.tensor import Tensor
    from graphmill.ops.inputs.arguments import DTypeLike, TensorLike

Axes = Any
"""An axis, a list of axes, a tensor of these, or None for all axes."""

_TYPES_OF_SPARSE: Final = (bfloat16, float32)
"""The element types of `SparseMatMul`."""


def matmul(
    a: TensorLike,
    b: TensorLike,
    transpose_a: bool = False,
    transpose_b: bool = False,
    adjoint_a: bool = False,
    adjoint_b: bool = False,
    a_is_sparse: bool = False,
    b_is_sparse: bool = False,
    name: str | None = None,
) -> Tensor:
    """Multiply matrices, or batches of matrices.

        print(session.run(F.matmul([[1, 2]], [[3, 4]], transpose_b=True)))  # [[11]]

    Args:
        a, b: tensors of rank 2, or of higher ranks whose leading axes broadcast.
        transpose_a, transpose_b: whether to transpose the last two axes first.
        adjoint_a, adjoint_b: whether to transpose and conjugate them first.
        a_is_sparse, b_is_sparse: whether most elements are 0. Two matrices of float32 or bfloat16
            are multiplied by `SparseMatMul` then; other tensors as usual. A string as the seventh
            argument is taken as `name`, with a warning for one version.
        name: name of the node.

    Raises:
        InvalidArgumentError: both `transpose` and `adjoint` are requested for one of them.
    """
    if isinstance(a_is_sparse, str):
        warn_renamed("the seventh argument of matmul, a name,", "name")
        a_is_sparse, name = False, a_is_sparse
    if (transpose_a and adjoint_a) or (transpose_b and adjoint_b):
        raise InvalidArgumentError("only one of transpose and adjoint can be True for each matrix")
    with scope(name, "MatMul", a, b) as (_, prefix):
        a, b = _same_type(a, b)
        are_matrices = a.shape.rank == 2 and b.shape.rank == 2
        if (a_is_sparse or b_is_sparse) and are_matrices and a.dtype in _TYPES_OF_SPARSE:
            product = math.sparse_mat_mul(
                a,
                b,
                transpose_a=transpose_a or adjoint_a,  # the types are real
                transpose_b=transpose_b or adjoint_b,
                a_is_sparse=a_is_sparse,
                b_is_sparse=b_is_sparse,
                name=prefix,
            )
            return cast(product, a.dtype)
        if are_matrices and not (adjoint_a or adjoint_b):
            return math.mat_mul(a, b, transpose_a=transpose_a, transpose_b=transpose_b, name=prefix)
        if transpose_a and a.dtype.is_complex:
            a, adjoint_a = math.conj(a), True
        if transpose_b and b.dtype.is_complex:
            b, adjoint_b = math.conj(b), True
        return math.batch_mat_mul_v2(
            a, b, adj_x=adjoint_a or transpose_a, adj_y=adjoint_b or transpose_b, name=prefix
        )


def cast(x: TensorLike, dtype: DTypeLike, name: str | None = None) -> Tensor:
    """Convert the elements of a tensor to another type.

        print(session.run(F.cast([1.9, -1.9], "int32")))  # [ 1 -1]

    Args:
        x: a tensor or value.
        dtype: the new element type. Floats are truncated towards zero when they become integers.
        name: name of the node.
    """
    target = as_dtype(dtype).base_dtype
    tensor = convert_to_tensor(x)
    if tensor.dtype.base_dtype is target:
        return tensor
    return math.cast(tensor, DstT=target, name=name)


def range(  # noqa: A001 - TensorFlow's name
    start: TensorLike,
    limit: TensorLike | None = None,
    delta: TensorLike = 1,
    dtype: DTypeLike | None = None,
    name: str = "range",
) -> Tensor:
    """Return the numbers from `start` up to, but not including, `limit`.

        print(session.run(F.range(2, 10, 3)))  # [2 5 8]

    Args:
        start, limit: scalars; with one of them only, it is the limit, and `start` is 0.
        delta: the distance between two numbers.
        dtype: the element type; by default that of the arguments.
        name: name of the node.
    """
    if limit is None:
        start, limit = 0, start
    with scope(name, "range", start, limit, delta) as (_, prefix):
        if dtype is not None:
            start, limit, delta = (cast(part, dtype) for part in (start, limit, delta))
        return math.range(start, limit, delta, name=prefix)


@deprecated_aliases(keep_dims="keepdims", reduction_indices="axis")
def reduce_sum(
    input_tensor: TensorLike,
    axis: Axes = None,
    keepdims: bool | None = None,
    name: str | None = None,
) -> Tensor:
    """Add the elements along axes, by default along all.

        print(session.run(F.reduce_sum([[1, 2], [3, 4]], axis=0)))  # [4 6]

    Args:
        input_tensor: the tensor.
        axis: an axis, or several, or None for all.
        keepdims: whether the axes stay, with size 1.
        name: name of the node.
    """
    return _reduce(math.sum, input_tensor, axis, keepdims, name, "Sum")


@deprecated_aliases(keep_dims="keepdims", reduction_indices="axis")
def reduce_mean(
    input_tensor: TensorLike,
    axis: Axes = None,
    keepdims: bool | None = None,
    name: str | None = None,
) -> Tensor:
    """Return the mean along axes, by default of all elements.

        print(session.run(F.reduce_mean([[1.0, 2.0], [3.0, 4.0]])))  # 2.5

    Args:
        input_tensor: the tensor; the mean of integers is an integer.
        axis, keepdims, name: as for `reduce_sum`.
    """
    return _reduce(math.mean, input_tensor, axis, keepdims, name, "Mean")


@deprecated_aliases(keep_dims="keepdims", reduction_indices="axis")
def reduce_max(
    input_tensor: TensorLike,
    axis: Axes = None,
    keepdims: bool | None = None,
    name: str | None = None,
) -> Tensor:
    """Return the largest element along axes; arguments as for `reduce_sum`."""
    return _reduce(math.max, input_tensor, axis, keepdims, name, "Max")


@deprecated_aliases(keep_dims="keepdims", reduction_indices="axis")
def reduce_min(
    input_tensor: TensorLike,
    axis: Axes = None,
    keepdims: bool | None = None,
    name: str | None = None,
) -> Tensor:
    """Return the smallest element along axes; arguments as for `reduce_sum`."""
    return _reduce(math.min, input_tensor, axis, keepdims, name, "Min")


@deprecated_aliases(keep_dims="keepdims", reduction_indices="axis")
def reduce_prod(
    input_tensor: TensorLike,
    axis: Axes = None,
    keepdims: bool | None = None,
    name: str | None = None,
) -> Tensor:
    """Multiply the elements along axes; arguments as for `reduce_sum`."""
    return _reduce(math.prod, input_tensor, axis, keepdims, name, "Prod")


@deprecated_aliases(keep_dims="keepdims", reduction_indices="axis")
def reduce_all(
    input_tensor: TensorLike,
    axis: Axes = None,
    keepdims: bool | None = None,
    name: str | None = None,
) -> Tensor:
    """Return whether all elements along axes are true; arguments as for `reduce_sum`."""
    return _reduce(math.all, input_tensor, axis, keepdims, name, "All")


@deprecated_aliases(keep_dims="keepdims", reduction_indices="axis")
def reduce_any(
    input_tensor: TensorLike,
    axis: Axes = None,
    keepdims: bool | None = None,
    name: str | None = None,
) -> Tensor:
    """Return whether an element along axes is true; arguments as for `reduce_sum`."""
    return _reduce(math.any, input_tensor, axis, keepdims, name, "Any")


@deprecated_aliases(keep_dims="keepdims", reduction_indices="axis")
def reduce_logsumexp(
    input_tensor: TensorLike,
    axis: Axes = None,
    keepdims: bool | None = None,
    name: str | None = None,
) -> Tensor:
    """Return `log(sum(exp(x)))` along axes without overflow; arguments as for `reduce_sum`."""
    with scope(name, "ReduceLogSumExp", input_tensor) as (_, prefix):
        highest = reduce_max(input_tensor, axis, keepdims=True)
        shift = array.stop_gradient(math.select_v2(math.is_finite(highest), highest, 0))
        powers = math.exp(math.sub(input_tensor, shift))
        logs = math.log(reduce_sum(powers, axis, keepdims))
        if not keepdims:
            shift = reshape(shift, array.shape(logs))
        return math.add_v2(logs, shift, name=prefix)


@deprecated_aliases(dimension="axis")
def argmax(
    input: TensorLike,  # noqa: A002 - TensorFlow's name
    axis: int | TensorLike | None = None,
    name: str | None = None,
    output_type: DTypeLike = "int64",
) -> Tensor:
    """Return the index of the largest element along an axis, by default the first axis.

        print(session.run(F.argmax([[1, 5], [4, 2]], axis=1)))  # [1 0]

    Args:
        input: the tensor.
        axis: the axis, by default 0.
        name: name of the node.
        output_type: the type of the indices, int32 or int64 (the default).
    """
    return math.arg_max(input, 0 if axis is None else axis, output_type=output_type, name=name)


@deprecated_aliases(dimension="axis")
def argmin(
    input: TensorLike,  # noqa: A002 - TensorFlow's name
    axis: int | TensorLike | None = None,
    name: str | None = None,
    output_type: DTypeLike = "int64",
) -> Tensor:
    """Return the index of the smallest element along an axis, by default the first axis."""
    return math.arg_min(input, 0 if axis is None else axis, output_type=output_type, name=name)


def cumsum(
    x: TensorLike,
    axis: int | TensorLike = 0,
    exclusive: bool = False,
    reverse: bool = False,
    name: str | None = None,
) -> Tensor:
    """Return the sums of the elements up to each one along an axis.

        print(session.run(F.cumsum([1, 2, 3], exclusive=True)))  # [0 1 3]

    Args:
        x: the tensor.
        axis: the axis.
        exclusive: whether an element's own value is left out.
        reverse: whether to add from the end.
        name: name of the node.
    """
    return math.cumsum(x, axis, exclusive=exclusive, reverse=reverse, name=name)


@deprecated_aliases(keep_dims="keepdims", reduction_indices="axis")
def count_nonzero(
    input_tensor: TensorLike,
    axis: Axes = None,
    keepdims: bool | None = None,
    dtype: DTypeLike = "int64",
    name: str | None = None,
) -> Tensor:
    """Return the number of elements along axes that are not 0.

        print(session.run(F.count_nonzero([[0, 1], [2, 0]])))  # 2

    Args:
        input_tensor: the tensor.
        axis, keepdims, name: as for `reduce_sum`.
        dtype: the element type of the counts.
    """
    with scope(name, "count_nonzero", input_tensor):
        tensor = convert_to_tensor(input_tensor)
        is_set = math.not_equal(tensor, array.zeros_like(tensor))
        return cast(reduce_sum(cast(is_set, "int64"), axis, keepdims), dtype)


def einsum(equation: str, *inputs: TensorLike, name: str | None = None) -> Tensor:
    """Multiply tensors and sum over axes in Einstein's notation, `"ij,jk->ik"`.

        print(session.run(F.einsum("ij,j->i", [[1, 2], [3, 4]], [1, 10])))  # [21 43]

    Args:
        equation: the letters of the axes of each input and of the result.
        inputs: the tensors.
        name: name of the node.
    """
    return linalg.einsum(list(inputs), equation=equation.replace(" ", ""), name=name)


def tensordot(
    a: TensorLike, b: TensorLike, axes: int | Sequence[Any], name: str | None = None
) -> Tensor:
    """Multiply two tensors and add along pairs of axes.

        print(session.run(F.tensordot([[1, 2], [3, 4]], [1, 10], axes=1)))  # [21 43]

    Args:
        a, b: tensors of known ranks.
        axes: how many axes, the last of `a` and the first of `b`; or two lists of axes, or two
            axes.
        name: name of the scope.

    Raises:
        InvalidArgumentError: a rank is unknown, or the axes do not pair or are out of range.
    """
    with scope(name, "Tensordot", a, b):
        a, b = _same_type(a, b)
        left, right = a.shape.rank, b.shape.rank
        if left is None or right is None:
            raise InvalidArgumentError(
                f"tensordot needs tensors of known ranks, the shapes are {a.shape} and {b.shape}"
            )
        in_a, in_b = _paired_axes(axes, left, right)
        free_a = [axis for axis in np.arange(left).tolist() if axis not in in_a]
        free_b = [axis for axis in np.arange(right).tolist() if axis not in in_b]
        sizes_a, sizes_b = array.shape(a), array.shape(b)
        free_sizes = concat([_take(sizes_a, free_a), _take(sizes_b, free_b)], 0)
        inner = math.prod(_take(sizes_a, in_a), [0])
        rows = array.reshape(array.transpose(a, _ints(free_a + in_a)), _pair(-1, inner))
        columns = array.reshape(array.transpose(b, _ints(in_b + free_b)), _pair(inner, -1))
        return array.reshape(math.mat_mul(rows, columns), free_sizes)


@deprecated_aliases(keep_dims="keepdims")
def norm(
    tensor: TensorLike,
    ord: str | float = "euclidean",  # noqa: A002 - TensorFlow's name
    axis: Axes = None,
    keepdims: bool | None = None,
    name: str | None = None,
) -> Tensor:
    """Return the norm of vectors: "euclidean" (also 2), 1, or `np.inf`.

        print(session.run(F.norm([[3.0, 4.0], [6.0, 8.0]], axis=1)))  # [ 5. 10.]

    Raises:
        UnimplementedError: `ord` is another norm.
    """
    with scope(name, "norm", tensor):
        if ord in ("euclidean", "fro", 2):
            return math.sqrt(reduce_sum(math.square(tensor), axis, keepdims))
        if ord == 1:
            return reduce_sum(math.abs(tensor), axis, keepdims)
        if ord == np.inf:
            return reduce_max(math.abs(tensor), axis, keepdims)
    raise UnimplementedError(f"norm has no ord={ord!r}; use 'euclidean', 1, 2 or np.inf")


def div_no_nan(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """Divide, with the result 0 where `y` is 0."""
    return math.div_no_nan(x, y, name=name)


def _reduce(
    op: Callable[..., Tensor],
    value: TensorLike,
    axis: Axes,
    keepdims: bool | None,
    name: str | None,
    default: str,
) -> Tensor:
    if axis is not None:
        return op(value, shape_input(axis), keep_dims=bool(keepdims), name=name)
    with scope(name, default, value) as (_, prefix):
        tensor = convert_to_tensor(value)
        rank = tensor.shape.rank
        if rank is not None:
            return op(
                tensor, np.arange(rank, dtype=np.int32), keep_dims=bool(keepdims), name=prefix
            )
        every = math.range(0, array.rank(tensor), 1)
        return op(tensor, every, keep_dims=bool(keepdims), name=prefix)


def _same_type(a: TensorLike, b: TensorLike) -> tuple[Tensor, Tensor]:
    """Return two tensors; a value takes the type of a tensor beside it."""
    from graphmill.graph.tensor import Tensor

    if isinstance(b, Tensor) and not isinstance(a, Tensor):
        return convert_to_tensor(a, b.dtype.base_dtype, "a"), b
    first = convert_to_tensor(a, name="a")
    return first, convert_to_tensor(b, first.dtype.base_dtype, "b")


def _paired_axes(axes: Any, left: int, right: int) -> tuple[list[int], list[int]]:
    if isinstance(axes, (int, np.integer)):
        if not 0 <= axes <= min(left, right):
            raise InvalidValueError(
                f"tensordot over {axes} axes of tensors of rank {left} and {right}; expected a "
                f"number from 0 to {min(left, right)}"
            )
        first, second = list(np.arange(left - axes, left)), list(np.arange(axes))
    else:
        first, second = (list(np.atleast_1d(part)) for part in axes)
    if len(first) != len(second):
        raise InvalidArgumentError(
            f"different numbers of axes: {len(first)} of a, {len(second)} of b"
        )
    return _non_negative(first, left, "a"), _non_negative(second, right, "b")


def _non_negative(axes: list[Any], rank: int, operand: str) -> list[int]:
    """Return axes of an operand as indices from 0 on."""
    for axis in axes:
        if not -rank <= axis < rank:
            raise InvalidValueError(f"axis {axis} of {operand} is out of range: its rank is {rank}")
    return [int(axis) % rank for axis in axes]


def _take(sizes: Tensor, axes: list[int]) -> Tensor:
    return array.gather_v2(sizes, _ints(axes), 0)


def _ints(values: list[int]) -> Any:
    return np.array(values, np.int32)


def _pair(first: Any, second: Any) -> Tensor:
    return array.pack([first, second])
