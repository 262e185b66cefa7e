"""Kernels that parse `Example`s into columns.

Semantics: tensorflow/core/kernels/example_parsing_ops.cc.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import is_not
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from graphmill.dtypes import as_dtype
from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill_plugins.kernels._strings import encode
from graphmill_plugins.kernels._support import shape_text
from graphmill_plugins.kernels.parsing._batch_scan import Scan
from graphmill_plugins.kernels.parsing._columns import (
    PARSED_TYPES,
    dense_column,
    dense_values,
    ragged_values,
    sparse_columns,
)
from graphmill_plugins.kernels.parsing._entry_headers import HeaderCache

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.dtypes import DType
    from graphmill.spi import Shape, Value
    from graphmill_plugins.kernels.parsing._columns import DenseColumn

_Columns = TypeVar("_Columns")

PARSER_OPTIONS: dict[str, Any] = {
    "host": True,
    "dynamic_shape": True,
    "expensive": True,
    "make": True,  # a node caches parsed headers
}


def types_of(dtypes: Sequence[np.dtype[Any]]) -> list[DType]:
    """Return the element types of columns.

    Raises:
        InvalidArgumentError: a type is not one that examples have.
    """
    types = [as_dtype(dtype) for dtype in dtypes]
    for dtype in types:
        if dtype not in PARSED_TYPES:
            raise InvalidArgumentError(
                f"columns of examples must be float32, int64 or string, got {dtype.name}"
            )
    return types


class ErrorPrefixes(Sequence[str]):
    """The prefixes of error messages about examples, formatted on access.

    Args:
        names: those of the examples.
    """

    def __init__(self, names: Sequence[bytes]) -> None:
        self._names = names

    def __len__(self) -> int:
        return len(self._names)

    def __getitem__(self, index: Any) -> Any:
        name = self._names[index].decode(errors="replace")
        return f"Name: {name}, Index: {index}. "


def error_prefixes(serialized: Value, names: Value, what: str = "names") -> Sequence[str]:
    """Return the prefix of error messages about each example.

    Raises:
        InvalidArgumentError: there are names, but not one for each example.
    """
    count = serialized.size
    if names.size not in (0, count):
        raise InvalidArgumentError(
            f"Expected len({what}) == 0 or {count}, but got: {what} of shape "
            f"{shape_text(names.shape)}"
        )
    return ErrorPrefixes(names.ravel().tolist() or [b"<unknown>"] * count)


def _keys(tensors: Sequence[Value]) -> list[bytes]:
    for tensor in tensors:
        if tensor.size != 1:
            raise InvalidArgumentError(
                f"Expected a key to be a scalar, got shape {shape_text(tensor.shape)}"
            )
    return [tensor.item() for tensor in tensors]


def dense_columns(
    keys: Sequence[bytes],
    types: Sequence[np.dtype[Any]],
    shapes: Sequence[Shape],
    defaults: Sequence[Value],
) -> list[DenseColumn]:
    """Return dense columns from an op's attrs and inputs.

    Raises:
        InvalidArgumentError: their numbers differ, or a column is invalid.
    """
    if not len(keys) == len(types) == len(shapes) == len(defaults):
        raise InvalidArgumentError(
            f"expected one of each per key, got {len(keys)} dense keys, {len(types)} types, "
            f"{len(shapes)} shapes and {len(defaults)} default values"
        )
    return [
        dense_column(key, as_dtype(dtype), shape, default)
        for key, dtype, shape, default in zip(keys, types, shapes, defaults, strict=True)
    ]


class ColumnCache(Generic[_Columns]):
    """The columns of a node, which are computed again if keys or default values have changed.

    Threads: parsers may share it; columns never change.

    Args:
        make: returns the columns for a list of default values and lists of keys.
    """

    def __init__(self, make: Callable[..., _Columns]) -> None:
        self._make = make
        self._last: tuple[tuple[list[Any], ...], list[Value], _Columns | None] = (), [], None

    def of(self, defaults: list[Value], *keys: list[Any]) -> _Columns:
        """Return the columns of these default values and keys."""
        known, values, columns = self._last
        if (
            columns is None
            or known != keys
            or len(values) != len(defaults)
            or any(map(is_not, values, defaults))
        ):
            columns = self._make(defaults, *keys)
            self._last = keys, list(defaults), columns
        return columns


def dense_column_cache(
    types: Sequence[np.dtype[Any]], shapes: Sequence[Shape]
) -> ColumnCache[list[DenseColumn]]:
    """Return a cache of dense columns of these types and shapes."""
    return ColumnCache(lambda defaults, keys: dense_columns(keys, types, shapes, defaults))


def parse_columns(
    header_cache: HeaderCache,
    serialized: Value,
    names: Value,
    sparse: Sequence[tuple[bytes, DType]],
    dense: Sequence[DenseColumn],
    ragged: Sequence[tuple[bytes, DType, DType]] = (),
) -> tuple[list[Value], ...]:
    """Return sparse indices, values, shapes; dense values; ragged values and splits.

    Args:
        header_cache: the headers that the node has seen.
        serialized: one example, or a vector of them.
        names: those of the examples, for messages; may be empty.
        sparse: key and type of each sparse column.
        dense: the dense columns.
        ragged: key, type and type of the splits of each ragged column.

    Raises:
        InvalidArgumentError: an example is malformed, or does not fit a column.
    """
    is_batch = serialized.ndim == 1
    prefixes = error_prefixes(serialized, names)
    keys = [*(key for key, _ in sparse), *(column.key for column in dense)]
    keys += [key for key, _, _ in ragged]
    scan = Scan(header_cache.of(keys), prefixes, "example")
    scan.add_examples(serialized.ravel().tolist())
    features = [*sparse, *((column.key, column.dtype) for column in dense)]
    features += [(key, dtype) for key, dtype, _ in ragged]
    rows = iter(scan.columns(features))
    sparse_parts = sparse_columns([next(rows) for _ in sparse], is_batch=is_batch)
    dense_parts = [
        dense_values(column, next(rows), prefixes, is_batch=is_batch) for column in dense
    ]
    ragged_parts = [ragged_values(next(rows), split, is_batch=is_batch) for _, _, split in ragged]
    indices, values, shapes = ([part[i] for part in sparse_parts] for i in range(3))
    flat, row_splits = ([part[i] for part in ragged_parts] for i in range(2))
    return indices, values, shapes, dense_parts, flat, row_splits


@kernel("ParseExample", **PARSER_OPTIONS)
def parse_example_v1(
    sparse_types: Sequence[Any],
    Tdense: Sequence[Any],
    dense_shapes: Sequence[Shape],
) -> Callable[..., tuple[Any, ...]]:
    """Parse a vector of examples into sparse and dense columns."""
    header_cache = HeaderCache()
    column_cache = dense_column_cache(Tdense, dense_shapes)
    sparse_dtypes = types_of(sparse_types)

    def parse(
        serialized: Value,
        names: Value,
        sparse_keys: list[Value],
        dense_keys: list[Value],
        dense_defaults: list[Value],
    ) -> tuple[Any, ...]:
        if serialized.ndim != 1:
            raise InvalidArgumentError(
                f"Expected serialized to be a vector, got shape: {shape_text(serialized.shape)}"
            )
        sparse = list(zip(_keys(sparse_keys), sparse_dtypes, strict=True))
        dense = column_cache.of(dense_defaults, _keys(dense_keys))
        return parse_columns(header_cache, serialized, names, sparse, dense)[:4]

    return parse


@kernel("ParseExampleV2", **PARSER_OPTIONS)
def parse_example_v2(
    Tdense: Sequence[Any],
    num_sparse: int,
    sparse_types: Sequence[Any],
    ragged_value_types: Sequence[Any],
    ragged_split_types: Sequence[Any],
    dense_shapes: Sequence[Shape],
) -> Callable[..., tuple[Any, ...]]:
    """Parse an example or a vector of them into sparse, dense and ragged columns."""
    header_cache = HeaderCache()
    column_cache = dense_column_cache(Tdense, dense_shapes)
    sparse_dtypes, ragged_dtypes = types_of(sparse_types), types_of(ragged_value_types)
    split_dtypes = list(map(as_dtype, ragged_split_types))

    def parse(
        serialized: Value,
        names: Value,
        sparse_keys: Value,
        dense_keys: Value,
        ragged_keys: Value,
        dense_defaults: list[Value],
    ) -> tuple[Any, ...]:
        if serialized.ndim > 1:
            raise InvalidArgumentError(
                f"Expected serialized to be a scalar or vector, got shape: "
                f"{shape_text(serialized.shape)}"
            )
        sparse_names = key_vector(sparse_keys, num_sparse, "sparse_keys")
        dense_names = key_vector(dense_keys, len(Tdense), "dense_keys")
        ragged_names = key_vector(ragged_keys, len(ragged_value_types), "ragged_keys")
        return parse_columns(
            header_cache,
            serialized,
            names,
            list(zip(sparse_names, sparse_dtypes, strict=True)),
            column_cache.of(dense_defaults, dense_names),
            list(zip(ragged_names, ragged_dtypes, split_dtypes, strict=True)),
        )

    return parse


def key_vector(keys: Value, count: int, what: str) -> list[bytes]:
    """Return the keys of a vector.

    Raises:
        InvalidArgumentError: their number is not that of the columns.
    """
    if keys.ndim != 1 or len(keys) != count:
        raise InvalidArgumentError(
            f"Expected {what} to be a vector of {count} keys, got shape {shape_text(keys.shape)}"
        )
    result: list[bytes] = keys.tolist()
    return result


@kernel("ParseSingleExample", **PARSER_OPTIONS)
def parse_single_example(
    num_sparse: int,
    sparse_keys: Sequence[str],
    dense_keys: Sequence[str],
    sparse_types: Sequence[Any],
    Tdense: Sequence[Any],
    dense_shapes: Sequence[Shape],
) -> Callable[..., tuple[Any, ...]]:
    """Parse one example into sparse and dense columns."""
    if not num_sparse == len(sparse_keys) == len(sparse_types):
        raise InvalidArgumentError(
            f"num_sparse ({num_sparse}) must match the size of sparse_keys ({len(sparse_keys)}) "
            f"and sparse_types ({len(sparse_types)})"
        )
    header_cache = HeaderCache()
    column_cache = dense_column_cache(Tdense, dense_shapes)
    dense_names = list(map(encode, dense_keys))
    sparse = list(zip(map(encode, sparse_keys), types_of(sparse_types), strict=True))
    no_names = np.empty(0, object)

    def parse(serialized: Value, dense_defaults: list[Value]) -> tuple[Any, ...]:
        if serialized.ndim:
            raise InvalidArgumentError(
                f"Expected serialized to be a scalar, got shape: {shape_text(serialized.shape)}"
            )
        dense = column_cache.of(dense_defaults, dense_names)
        return parse_columns(header_cache, serialized, no_names, sparse, dense)[:4]

    return parse
