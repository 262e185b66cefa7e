"""SlidingWindow, DenseToSparseBatch and Rebatch datasets.

Semantics: tensorflow/core/kernels/data/experimental/{sliding_window,dense_to_sparse_batch,
rebatch}_dataset_op.cc.
"""

from __future__ import annotations

import math
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from graphmill import dtypes
from graphmill.errors import DataLossError, InvalidArgumentError
from graphmill.spi.kernels import cancellable, check_cancelled, shape_of_value
from graphmill_plugins.kernels._support import check_size, shape_text
from graphmill_plugins.kernels._variant import TensorVariant
from graphmill_plugins.kernels.dataset.pipeline.batch import Batch
from graphmill_plugins.kernels.dataset.pipeline.dataset import Dataset, ElementIterator
from graphmill_plugins.kernels.unstack import zeros

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.dtypes import DType
    from graphmill.spi import Value
    from graphmill_plugins.kernels.dataset.pipeline.dataset import Element, Elements, Scope


class SlidingWindow(Batch):
    """Batches of the elements in a window that moves over the input.

    Args:
        size: the number of elements in a batch.
        shift: the number of elements by which the window moves.
        stride: the distance between two elements of a batch.

    Raises:
        InvalidArgumentError: one of them is not positive.
    """

    is_indexed = False

    def __init__(
        self, source: Dataset, size: int, shift: int, stride: int, *, drops_remainder: bool
    ) -> None:
        for what, value in (("size", size), ("shift", shift), ("stride", stride)):
            if value <= 0:
                raise InvalidArgumentError(f"Window {what} must be greater than zero, got {value}.")
        super().__init__(source, size, drops_remainder=False)
        self.span = (size - 1) * stride + 1
        self.shift, self.stride, self.drops_remainder = shift, stride, drops_remainder

    @property
    def cardinality(self) -> int:
        """The number of shifts in the input; like TensorFlow, it ignores the size of the window."""
        inner = self.source.cardinality
        if inner < 0:
            return inner
        return inner // self.shift if self.drops_remainder else -(-inner // self.shift)

    @property
    def batch_size(self) -> int:
        """The batch size: -1, because TensorFlow does not infer it for sliding windows."""
        return -1

    def iterate(self, scope: Scope) -> Elements:
        """Return an iterator over the elements."""
        return _Sliding(self, self.source.iterate(scope))


class _Sliding(ElementIterator):
    def __init__(self, dataset: SlidingWindow, source: Elements) -> None:
        self._dataset, self._source = dataset, source
        self._buffer: deque[Element] = deque()
        self._is_at_end = False

    def __next__(self) -> Element:
        dataset = self._dataset
        while len(self._buffer) < dataset.span and not self._is_at_end:
            element = next(self._source, None)
            if element is None:
                self._is_at_end = True
                break
            self._buffer.append(element)
            check_cancelled()
        if not self._buffer or (len(self._buffer) < dataset.span and dataset.drops_remainder):
            raise StopIteration
        window = list(islice(self._buffer, 0, None, dataset.stride))
        self._shift()
        return dataset.collate(window)

    def _shift(self) -> None:
        for _ in cancellable(range(self._dataset.shift)):
            if not self._buffer and self._is_at_end:
                break
            if self._buffer:
                self._buffer.popleft()
            else:
                self._is_at_end = next(self._source, None) is None


class SparseBatch(Dataset):
    """Batches of elements as sparse tensors: variants of indices, values and dense shape.

    Args:
        row_shape: the shape of a row of the sparse tensor; -1 means the largest size in the batch.

    Raises:
        InvalidArgumentError: the batch size is not positive, or elements have several components.
    """

    def __init__(self, source: Dataset, size: int, row_shape: tuple[int, ...]) -> None:
        if len(source.dtypes) != 1:
            raise InvalidArgumentError(
                "DenseToSparseBatchDataset only supports inputs with a single component, got "
                f"{len(source.dtypes)}"
            )
        if size <= 0:
            raise InvalidArgumentError(f"Batch size must be greater than zero, got {size}.")
        # TensorFlow declares the shape of the sparse tensor, not that of the vector of its parts.
        super().__init__((dtypes.variant,), ((-1, *row_shape),), (source,))
        self._batch_size, self._row_shape = size, row_shape

    @property
    def cardinality(self) -> int:
        """Number of batches."""
        inner = self.source.cardinality
        return inner if inner < 0 else -(-inner // self._batch_size)

    def iterate(self, scope: Scope) -> Elements:
        """Return an iterator over the elements."""
        return _SparseBatching(self, self.source.iterate(scope), self._batch_size)

    def collate(self, rows: list[Value]) -> Element:
        """Return rows as one sparse tensor.

        Raises:
            InvalidArgumentError: a row has another rank than the row shape.
            DataLossError: a row is larger than the row shape.
        """
        dtype = self.source.dtypes[0]
        shapes = [shape_of_value(row, dtype) for row in rows]
        for shape in shapes:
            self._check(shape)
        sizes = [max(0, *lengths) for lengths in zip(*shapes, strict=True)]
        full = [
            longest if size < 0 else size
            for longest, size in zip(sizes, self._row_shape, strict=True)
        ]
        counts = (max(math.prod(shape), *shape, 1) * (len(shape) + 1) for shape in shapes)
        check_size((sum(counts),), "the indices", itemsize=8)
        indices = [_indices(index, shape) for index, shape in enumerate(shapes)]
        parts = (
            np.concatenate(indices),
            _flat(rows, dtype),
            np.array([len(rows), *full], np.int64),
        )
        result = np.empty(3, object)
        result[:] = [TensorVariant(part) for part in parts]
        return (result,)

    def _check(self, shape: tuple[int, ...]) -> None:
        expected = self._row_shape
        if len(shape) != len(expected):
            raise InvalidArgumentError(
                f"Input element had shape ({shape_text(shape)}) that is incompatible with the row "
                f"shape ({shape_text(expected)})."
            )
        if any(
            0 <= expected_size < size for expected_size, size in zip(expected, shape, strict=True)
        ):
            raise DataLossError(
                f"Input element had shape ({shape_text(shape)}) that is larger than the row shape "
                f"({shape_text(expected)})."
            )


def _indices(row: int, shape: tuple[int, ...]) -> Value:
    """Return the indices of all elements of a row in the batch."""
    columns = np.indices(shape, np.int64).reshape(len(shape), math.prod(shape))
    return np.concatenate([np.full((1, columns.shape[1]), row, np.int64), columns]).T


def _flat(rows: Sequence[Value], dtype: DType) -> Value:
    result = zeros(np, (sum(np.size(row) for row in rows),), dtype)
    start = 0
    for row in rows:
        count = np.size(row)
        result[start : start + count] = np.reshape(row, -1)
        start += count
    return result


class _SparseBatching(ElementIterator):
    def __init__(self, dataset: SparseBatch, source: Elements, size: int) -> None:
        self._dataset, self._source, self._size = dataset, source, size

    def __next__(self) -> Element:
        rows = [row for (row,) in islice(self._source, self._size)]
        if not rows:
            raise StopIteration
        return self._dataset.collate(rows)


class SplitBatches(Dataset):
    """Batches split into `count` smaller ones, the last of which may be empty.

    Raises:
        InvalidArgumentError: the count is not positive.
    """

    def __init__(self, source: Dataset, count: int) -> None:
        if count <= 0:
            raise InvalidArgumentError(f"num_replicas must be greater than zero, got {count}.")
        shapes = [None if shape is None else (-1, *shape[1:]) for shape in source.shapes]
        super().__init__(source.dtypes, shapes, (source,))
        self._count = count

    def iterate(self, scope: Scope) -> Elements:
        """Return an iterator over the elements."""
        return _Splitting(self.source.iterate(scope), self._count, self.dtypes)


class _Splitting(ElementIterator):
    def __init__(self, source: Elements, count: int, types: Sequence[DType]) -> None:
        self._source, self._count, self._types = source, count, types
        self._parts: Elements = iter(())

    def __next__(self) -> Element:
        part = next(self._parts, None)
        if part is None:
            self._parts = self._split(next(self._source))
            part = next(self._parts)
        return part

    def _split(self, element: Element) -> Elements:
        for index, (value, dtype) in enumerate(zip(element, self._types, strict=True)):
            if not shape_of_value(value, dtype):
                raise InvalidArgumentError(
                    "Cannot rebatch dataset: All components must have at least one dimension. "
                    f"Perhaps your input dataset is not batched? Component {index} is scalar."
                )
        # Components are split one by one: their batch sizes may differ.
        sizes = [-(-len(value) // self._count) for value in element]
        return (
            tuple(
                value[part * size : (part + 1) * size]
                for value, size in zip(element, sizes, strict=True)
            )
            for part in range(self._count)
        )
