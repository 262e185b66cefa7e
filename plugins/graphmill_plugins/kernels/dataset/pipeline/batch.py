"""Batch, PaddedBatch, Unbatch and Rebatch datasets."""

from __future__ import annotations

from itertools import cycle, islice
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill.errors import DataLossError, InvalidArgumentError
from graphmill.spi.kernels import (
    check_cancelled,
    dtype_of_value,
    has_dtype,
    num_bytes_of_value,
    request_memory,
    shape_of_value,
)
from graphmill_plugins.kernels._support import check_size, shape_text
from graphmill_plugins.kernels.dataset.pipeline.basic import row_values
from graphmill_plugins.kernels.dataset.pipeline.dataset import (
    UNKNOWN,
    Dataset,
    ElementIterator,
)
from graphmill_plugins.kernels.unstack import stacked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.dtypes import DType
    from graphmill.spi import Value
    from graphmill_plugins.kernels.dataset.pipeline.dataset import Element, Elements, Scope


_UNCHECKED: Final = 1 << 12
"""The number of elements that are taken between two checks of the memory budget."""
_ELEMENT_SIZE: Final = 128
"""Bytes of an element without its values."""


class Batch(Dataset):
    """Batches of `size` consecutive elements, stacked.

    Semantics: tensorflow/core/kernels/data/batch_dataset_op.cc.
    """

    is_indexed = True

    def __init__(self, source: Dataset, size: int, *, drops_remainder: bool) -> None:
        if size <= 0:
            raise InvalidArgumentError(f"Batch size must be greater than zero, got {size}.")
        outer = size if drops_remainder else -1
        shapes = [None if shape is None else (outer, *shape) for shape in source.shapes]
        super().__init__(source.dtypes, shapes, (source,))
        self._size, self._drops_remainder = size, drops_remainder

    @property
    def cardinality(self) -> int:
        """Number of batches."""
        inner = self.source.cardinality
        if inner < 0:
            return inner
        return inner // self._size if self._drops_remainder else -(-inner // self._size)

    @property
    def batch_size(self) -> int:
        """The size of a batch, even if the last one is smaller."""
        return self._size

    def iterate(self, scope: Scope) -> Elements:
        """Return an iterator over the elements."""
        return _Batching(self, self.source.iterate(scope), self._size, self._drops_remainder)

    def lookup(self, index: int, scope: Scope) -> Element:
        """Return the element at an index."""
        start, count = index * self._size, self.source.cardinality
        places = range(start, min(start + self._size, count))
        return self.collate([self.source.at(place, scope) for place in places])

    def collate(self, elements: list[Element]) -> Element:
        """Stack elements into a batch.

        Raises:
            InvalidArgumentError: they differ in shape.
        """
        return tuple(
            _stacked(index, list(values), dtype)
            for index, (values, dtype) in enumerate(
                zip(zip(*elements, strict=True), self.dtypes, strict=True)
            )
        )


class _Batching(ElementIterator):
    def __init__(self, batch: Batch, source: Elements, size: int, drops_remainder: bool) -> None:
        self._batch = batch
        self._source: Elements | None = source
        self._size, self._drops_remainder = size, drops_remainder

    def __next__(self) -> Element:
        if self._source is None:
            raise StopIteration
        elements = collect(self._source, self._size)
        if len(elements) < self._size:
            self._source = None
            if not elements or self._drops_remainder:
                raise StopIteration
        return self._batch.collate(elements)


def collect(source: Elements, size: int) -> list[Element]:
    """Take up to `size` elements; check the memory budget as they accumulate.

    Raises:
        CancelledError: the step was cancelled.
        ResourceExhaustedError: they do not fit in memory.
    """
    if size <= _UNCHECKED:
        return list(islice(source, size))
    elements: list[Element] = []
    while part := list(islice(source, min(_UNCHECKED, size - len(elements)))):
        check_cancelled()
        elements += part
        each = sum(map(num_bytes_of_value, part[-1])) + _ELEMENT_SIZE
        request_memory(len(elements) * each, f"a batch has {len(elements)} elements")
    return elements


def _stacked(index: int, values: list[Value], dtype: DType) -> Value:
    shape = shape_of_value(values[0], dtype)
    if shape or dtype.kind in "sh":
        for position, value in enumerate(values):
            actual = shape_of_value(value, dtype)
            if actual != shape:
                raise InvalidArgumentError(
                    f"Cannot batch tensors with different shapes in component {index}. First "
                    f"element had shape {shape_text(shape)} and element {position} had shape "
                    f"{shape_text(actual)}."
                )
    return stacked(np, values, shape, dtype)


class PaddedBatch(Batch):
    """Elements padded to one shape and stacked.

    Semantics: tensorflow/core/kernels/data/padded_batch_dataset_op.cc.

    Args:
        shapes: for each component the padded shape; -1 means the largest size in the batch.
        padding: for each component the padding value.
    """

    def __init__(
        self,
        source: Dataset,
        size: int,
        shapes: Sequence[tuple[int, ...]],
        padding: Sequence[Value],
        *,
        drops_remainder: bool,
    ) -> None:
        super().__init__(source, size, drops_remainder=drops_remainder)
        if not len(shapes) == len(padding) == len(source.dtypes):
            raise InvalidArgumentError(
                f"Number of padded shapes ({len(shapes)}) must match the number of components in "
                f"the input dataset's elements ({len(source.dtypes)})"
            )
        for index, (value, dtype) in enumerate(zip(padding, source.dtypes, strict=True)):
            if shape_of_value(value, dtype):
                raise InvalidArgumentError("All padding values must be scalars")
            if not has_dtype(value, dtype):
                raise InvalidArgumentError(
                    f"Mismatched type between padding value {index} and input dataset's component "
                    f"{index}: {dtype_of_value(value)} vs. {dtype.name}"
                )
        self._shapes, self._padding = tuple(shapes), tuple(padding)
        outer = size if drops_remainder else -1
        self.shapes = tuple((outer, *shape) for shape in shapes)

    def collate(self, elements: list[Element]) -> Element:
        """Pad elements to one shape and stack them into a batch.

        Raises:
            DataLossError: an element is larger than the padded shape.
            InvalidArgumentError: an element has another rank than the padded shape.
        """
        return tuple(
            _padded(index, values, shape, padding, dtype)
            for index, (values, shape, padding, dtype) in enumerate(
                zip(
                    zip(*elements, strict=True),
                    self._shapes,
                    self._padding,
                    self.dtypes,
                    strict=True,
                )
            )
        )


def _padded(
    index: int, values: Sequence[Value], shape: tuple[int, ...], padding: Value, dtype: DType
) -> Value:
    shapes = [shape_of_value(value, dtype) for value in values]
    for sizes in shapes:
        if len(sizes) != len(shape):
            raise InvalidArgumentError(
                f"All elements in a batch must have the same rank as the padded shape for "
                f"component {index}: expected rank {len(shape)} but got element with rank "
                f"{len(sizes)}"
            )
    largest = list(map(max, zip(*shapes, strict=True)))
    full = tuple(
        longest if size < 0 else size for longest, size in zip(largest, shape, strict=True)
    )
    if any(longest > size for longest, size in zip(largest, full, strict=True)):
        raise DataLossError(
            f"Attempted to pad to a smaller size than the input element: component {index} has "
            f"shape {shape_text(largest)}, and is to be padded to {shape_text(full)}."
        )
    if not shape:
        return stacked(np, values, (), dtype)
    element_type = dtype.as_numpy_dtype
    check_size((len(values), *full), "the padded batch", itemsize=element_type.itemsize)
    result = np.empty((len(values), *full), element_type)
    # `fill` stores an object of a variant as it is; assignment would unpack one that is a sequence.
    result.fill(padding.item() if isinstance(padding, np.ndarray) else padding)
    for position, (value, sizes) in enumerate(zip(values, shapes, strict=True)):
        region: tuple[Any, ...] = (position, *map(slice, sizes))
        result[region] = value
    return result


class Unbatch(Dataset):
    """The rows of each batch, one after the other."""

    def __init__(self, source: Dataset) -> None:
        for shape in source.shapes:
            if shape == ():
                raise InvalidArgumentError("Cannot unbatch an input with scalar components.")
        shapes = [None if shape is None else shape[1:] for shape in source.shapes]
        super().__init__(source.dtypes, shapes, (source,))

    @property
    def cardinality(self) -> int:
        """The number of rows if the batch size is static, else `UNKNOWN`."""
        inner = self.source.cardinality
        sizes = {shape[0] for shape in self.source.shapes if shape is not None} - {-1}
        if inner <= 0:
            return inner
        return inner * sizes.pop() if len(sizes) == 1 else UNKNOWN

    def iterate(self, scope: Scope) -> Elements:
        """Return an iterator over the elements."""
        return _Unbatching(self.source.iterate(scope), self.dtypes)


class _Unbatching(ElementIterator):
    def __init__(self, source: Elements, types: Sequence[DType]) -> None:
        self._source = source
        self._types = types
        self._rows: Elements = iter(())

    def __next__(self) -> Element:
        while True:
            row = next(self._rows, None)
            if row is not None:
                return row
            check_cancelled()
            self._rows = self._split(next(self._source))

    def _split(self, element: Element) -> Elements:
        shapes = list(map(shape_of_value, element, self._types))
        if not all(shapes):
            raise InvalidArgumentError("Cannot unbatch an input with scalar components.")
        for index, shape in enumerate(shapes):
            if shape[0] != shapes[0][0]:
                raise InvalidArgumentError(
                    f"Input element must have the same batch size in each component. Component 0 "
                    f"had size {shapes[0][0]} but component {index} had size {shape[0]}."
                )
        return zip(*map(row_values, element, self._types), strict=True)


class Rebatch(Dataset):
    """Batches regrouped into a repeating sequence of batch sizes.

    A batch of size zero is empty, also if no elements are left.

    Semantics: tensorflow/core/kernels/data/rebatch_dataset_op.cc.
    """

    def __init__(self, source: Dataset, sizes: Sequence[int], *, drops_remainder: bool) -> None:
        if not sizes or min(sizes) < 0:
            raise InvalidArgumentError(
                f"batch_sizes must have elements, none of them negative, got {list(sizes)}"
            )
        shapes = [None if shape is None else (-1, *shape[1:]) for shape in source.shapes]
        super().__init__(source.dtypes, shapes, (source,))
        self._sizes, self._drops_remainder = tuple(sizes), drops_remainder

    def iterate(self, scope: Scope) -> Elements:
        """Return an iterator over the elements."""
        rows = Unbatch(self.source)
        return _Rebatching(
            rows, rows.iterate(scope), self._sizes, self._drops_remainder, self.empty()
        )

    def empty(self) -> Element:
        """Return a batch of no elements, whose unknown sizes are zero."""
        shapes = [(0, *(max(size, 0) for size in (shape or ())[1:])) for shape in self.shapes]
        return tuple(
            np.empty(shape, dtype.as_numpy_dtype)
            for shape, dtype in zip(shapes, self.dtypes, strict=True)
        )


class _Rebatching(ElementIterator):
    def __init__(
        self,
        rows: Dataset,
        source: Elements,
        sizes: Sequence[int],
        drops_remainder: bool,
        empty: Element,
    ) -> None:
        self._batch = Batch(rows, 1, drops_remainder=False)
        self._source: Elements | None = source
        self._sizes = cycle(sizes)
        self._drops_remainder = drops_remainder
        self._empty = empty

    def __next__(self) -> Element:
        if self._source is None:
            raise StopIteration
        size = next(self._sizes)
        if not size:
            return self._empty
        elements = collect(self._source, size)
        if len(elements) < size:
            self._source = None
            if not elements or self._drops_remainder:
                raise StopIteration
        return self._batch.collate(elements)
