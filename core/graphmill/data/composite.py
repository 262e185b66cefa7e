"""Batches of elements of different shapes: ragged and sparse tensors.

A tensor of several parts is a named tuple of them, so it is a structure like any other.
Semantics: tensorflow/python/data/ops/{ragged_batch,sparse_batch}_op.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from graphmill.data.components import Component
from graphmill.data.element_spec import TensorSpec, element_of, flatten, pack
from graphmill.data.steps import batch_arguments, known_batch, step
from graphmill.dtypes import as_dtype
from graphmill.errors import InvalidValueError
from graphmill.functions import cast, concat, reduce_prod, reshape, shape
from graphmill.functions import range as number_range
from graphmill.ops import array, ragged, sparse
from graphmill.ops import dataset as ops

if TYPE_CHECKING:
    from graphmill.data.dataset import Dataset
    from graphmill.graph.tensor import Tensor


class RaggedTensor(NamedTuple):
    """A tensor with rows of different lengths, as `tf.RaggedTensor`.

    Attributes:
        flat_values: the values of all rows, one after the other.
        nested_row_splits: for each ragged axis, the positions at which rows begin and end; row `i`
            is `flat_values[splits[i]:splits[i + 1]]` for the last of them.
    """

    flat_values: Any
    nested_row_splits: tuple[Any, ...]


class SparseTensor(NamedTuple):
    """A tensor of which only some elements are stored, as `tf.sparse.SparseTensor`.

    Attributes:
        indices: the index of each element that is stored, int64 of shape [elements, rank].
        values: these elements.
        dense_shape: the shape of the tensor, int64.
    """

    indices: Any
    values: Any
    dense_shape: Any


def ragged_batches(
    source: Dataset, batch_size: Any, drop_remainder: Any, row_splits_dtype: Any
) -> Dataset:
    """Batch elements as ragged tensors; see `Dataset.ragged_batch`."""
    first = known_batch(*batch_arguments(batch_size, drop_remainder, "ragged_batch"))
    splits = as_dtype(row_splits_dtype)
    if splits.name not in ("int32", "int64"):
        raise InvalidValueError(
            f"ragged_batch: row_splits_dtype must be int32 or int64, not {splits.name}"
        )
    specs = flatten(source.element_spec)
    ranks = [_ragged_rank(spec) for spec in specs]

    def encoded(*element: Any) -> Any:
        leaves = [
            leaf if rank is None else _as_variant(leaf, rank, splits)
            for leaf, rank in zip(flatten(element_of(element)), ranks, strict=True)
        ]
        return pack(source.element_spec, leaves)

    def decoded(*element: Any) -> Any:
        parts = zip(flatten(element_of(element)), specs, ranks, strict=True)
        leaves = [
            leaf if rank is None else _of_variants(leaf, first, spec, rank, splits)
            for leaf, spec, rank in parts
        ]
        return pack(source.element_spec, leaves)

    return source.map(encoded).batch(batch_size, drop_remainder).map(decoded)


def sparse_batches(source: Dataset, batch_size: Any, row_shape: Any) -> Dataset:
    """Batch elements as sparse tensors; see `Dataset.sparse_batch`."""
    size = batch_arguments(batch_size, False, "sparse_batch")[0]
    spec = source.element_spec
    if not isinstance(spec, TensorSpec):
        raise InvalidValueError(
            f"sparse_batch: elements must be one tensor, not {spec}; choose one with map"
        )
    limits = _row_shape(row_shape)
    if spec.shape.rank not in (None, *limits.shape):
        raise InvalidValueError(
            f"sparse_batch: row_shape has {len(limits)} axes, elements have {spec.shape.rank}"
        )
    packed = TensorSpec(None, "variant")
    variants = step(
        ops.dense_to_sparse_batch_dataset, source, [size, Component(limits, "int64")], packed
    )
    return variants.map(lambda parts: _of_parts(parts, spec, len(limits)))


def _ragged_rank(spec: Any) -> int | None:
    """Return the last axis of unknown size; None for a tensor that can be stacked as it is."""
    if not isinstance(spec, TensorSpec) or spec.shape.rank is None:
        return None
    unknown = [axis for axis, size in enumerate(spec.shape.as_list()) if size is None]
    return unknown[-1] if unknown else None


def _as_variant(value: Tensor, rank: int, splits: Any) -> Tensor:
    """Return a tensor as a variant of a ragged tensor, so that others can be stacked with it."""
    sizes = cast(shape(value), splits)
    rows = [
        number_range(reduce_prod(sizes[:axis]) + 1) * sizes[axis] for axis in range(1, rank + 1)
    ]
    flat = concat([reduce_prod(sizes[: rank + 1], keepdims=True), sizes[rank + 1 :]], 0)
    return ragged.ragged_tensor_to_variant(
        rows, reshape(value, flat) if rank else value, batched_input=False
    )


def _of_variants(
    variants: Tensor, size: int | None, spec: TensorSpec, rank: int, splits: Any
) -> RaggedTensor:
    """Return the ragged tensor of a batch of variants; `size` is that of all batches, or None."""
    result = ragged.ragged_tensor_from_variant(
        variants,
        input_ragged_rank=rank,
        output_ragged_rank=rank + 1,
        Tvalues=spec.dtype,
        Tsplits=splits,
    )
    inner = spec.shape.as_list()[rank + 1 :]
    values = array.ensure_shape(result.output_dense_values, shape=[None, *inner])
    counts = [None if size is None else size + 1, *[None] * rank]
    pairs = zip(result.output_nested_splits, counts, strict=True)
    rows = tuple(array.ensure_shape(part, shape=[count]) for part, count in pairs)
    return RaggedTensor(values, rows)


def _row_shape(row_shape: Any) -> np.ndarray[Any, Any]:
    """Return the sizes of a row, -1 for unknown ones."""
    try:
        return np.array([-1 if size is None else int(size) for size in row_shape], np.int64)
    except TypeError:
        raise InvalidValueError(
            f"sparse_batch: row_shape must be a list of sizes or None, got {row_shape!r}"
        ) from None


def _of_parts(parts: Tensor, spec: TensorSpec, rank: int) -> SparseTensor:
    """Return the sparse tensor of the variants of its parts."""
    shapes: list[list[int | None]] = [[None, rank + 1], [None], [rank + 1]]
    tensors = sparse.deserialize_sparse(parts, dtype=spec.dtype)
    pairs = zip(tensors, shapes, strict=True)
    return SparseTensor(*(array.ensure_shape(tensor, shape=shape) for tensor, shape in pairs))
