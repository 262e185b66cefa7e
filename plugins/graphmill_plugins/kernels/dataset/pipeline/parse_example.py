"""ParseExample dataset: batches of serialized `Example`s as dense, sparse and ragged columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError
from graphmill.spi.kernels import shape_of_value
from graphmill_plugins.kernels._partial_shape import is_compatible
from graphmill_plugins.kernels._support import shape_text
from graphmill_plugins.kernels._variant import TensorVariant
from graphmill_plugins.kernels.dataset.pipeline.dataset import Dataset, ElementIterator
from graphmill_plugins.kernels.parsing._entry_headers import HeaderCache
from graphmill_plugins.kernels.parsing.example import parse_columns
from graphmill_plugins.kernels.ragged._ragged import RaggedVariant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.dtypes import DType
    from graphmill.spi import Shape, Value
    from graphmill_plugins.kernels.dataset.pipeline.dataset import Element, Elements, Scope
    from graphmill_plugins.kernels.parsing._columns import DenseColumn


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns to parse.

    Attributes:
        sparse: key and type of each sparse column.
        dense: the dense columns.
        ragged: key, type and type of the splits of each ragged column.
    """

    sparse: Sequence[tuple[bytes, DType]]
    dense: Sequence[DenseColumn]
    ragged: Sequence[tuple[bytes, DType, DType]]

    def parse(self, headers: HeaderCache, serialized: Value) -> dict[bytes, tuple[Value, DType]]:
        """Return the value of each column, and its type, by key."""
        indices, values, shapes, dense, flat, splits = parse_columns(
            headers, serialized, np.empty(0, object), self.sparse, self.dense, self.ragged
        )
        columns: dict[bytes, tuple[Any, DType]] = {}
        for (key, _), *parts in zip(self.sparse, indices, values, shapes, strict=True):
            columns[key] = _variants(parts), dtypes.variant
        for column, value in zip(self.dense, dense, strict=True):
            columns[column.key] = value, column.dtype
        for (key, _, _), value, row_splits in zip(self.ragged, flat, splits, strict=True):
            columns[key] = RaggedVariant((row_splits,), value), dtypes.variant
        return columns


def _variants(parts: Sequence[Value]) -> Value:
    result = np.empty(len(parts), object)
    result[:] = [TensorVariant(part) for part in parts]
    return result


class ParseExamples(Dataset):
    """The columns of batches of serialized examples, sorted by key.

    Raises:
        InvalidArgumentError: the structure has not as many components as there are columns, or the
            elements of the input are no strings.
    """

    def __init__(
        self, source: Dataset, columns: Columns, structure: tuple[Sequence[DType], Sequence[Shape]]
    ) -> None:
        super().__init__(*structure, (source,))
        for dtype in source.dtypes:
            if dtype is not dtypes.string:
                raise InvalidArgumentError(f"examples are strings; the input has {dtype.name}")
        count = len(columns.sparse) + len(columns.dense) + len(columns.ragged)
        if not count == len(self.dtypes) == len(self.shapes):
            raise InvalidArgumentError(
                f"there are {count} columns, {len(self.dtypes)} output_types and "
                f"{len(self.shapes)} output_shapes; pass one of each for every column"
            )
        self._columns, self._headers = columns, HeaderCache()

    @property
    def cardinality(self) -> int:
        """The cardinality of the input."""
        return self.source.cardinality

    @property
    def batch_size(self) -> int:
        """The batch size of the input."""
        return self.source.batch_size

    def iterate(self, scope: Scope) -> Elements:
        """Return an iterator over the elements."""
        return _Parsing(self, self.source.iterate(scope))

    def parse(self, element: Element) -> Element:
        """Return the columns of the examples of an element, whose components are concatenated.

        Raises:
            InvalidArgumentError: an example is malformed, or a column has another type or shape
                than declared.
        """
        serialized = np.concatenate([np.reshape(value, -1) for value in element])
        columns = self._columns.parse(self._headers, serialized)
        result = []
        for index, key in enumerate(sorted(columns)):
            value, dtype = columns[key]
            self._check(index, key, value, dtype)
            result.append(value)
        return tuple(result)

    def _check(self, index: int, key: bytes, value: Value, dtype: DType) -> None:
        name = key.decode(errors="replace")
        if dtype is not self.dtypes[index]:
            raise InvalidArgumentError(
                f"Got wrong type for the column of {name!r} (expected {self.dtypes[index].name}, "
                f"got {dtype.name})."
            )
        shape = shape_of_value(value, dtype)
        if not is_compatible(self.shapes[index], shape):
            raise InvalidArgumentError(
                f"Got wrong shape for the column of {name!r} (expected "
                f"{shape_text(self.shapes[index])}, got {shape_text(shape)})."
            )


class _Parsing(ElementIterator):
    def __init__(self, dataset: ParseExamples, source: Elements) -> None:
        self._dataset, self._source = dataset, source

    def __next__(self) -> Element:
        return self._dataset.parse(next(self._source))
