"""Kernels that parse `Example`s into columns.

Semantics: tensorflow/core/kernels/example_parsing_ops.cc.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

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
    sparse_values,
)
from graphmill_plugins.kernels.parsing._entry_headers import HeadersOfNode

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.dtypes import DType
    from graphmill.spi import Shape, Value
    from graphmill_plugins.kernels.parsing._columns import DenseColumn

_OPTIONS: dict[str, Any] = {
    "host": True,
    "dynamic_shape": True,
    "expensive": True,
    "make": True,  # a node remembers the headers that it has seen
}


def types_of(given: Sequence[np.dtype[Any]]) -> list[DType]:
    """Return element types of columns.

    Raises:
        InvalidArgumentError: examples cannot hold one of them.
    """
    found = [as_dtype(dtype) for dtype in given]
    for dtype in found:
        if dtype not in PARSED_TYPES:
            raise InvalidArgumentError(
                f"examples hold float32, int64 and string; a column of {dtype.name} was asked for"
            )
    return found


class Wheres(Sequence[str]):
    """The prefixes of error messages about some examples.

    Args:
        names: of the examples.
    """

    def __init__(self, names: Sequence[bytes]) -> None:
        self._names = names

    def __len__(self) -> int:
        return len(self._names)

    def __getitem__(self, index: Any) -> Any:
        name = self._names[index].decode(errors="replace")
        return f"Name: {name}, Index: {index}. "


def where_texts(serialized: Value, names: Value, what: str = "names") -> Sequence[str]:
    """Return, for each example, the prefix of error messages about it.

    Raises:
        InvalidArgumentError: there are names, but not one for each.
    """
    count = serialized.size
    if names.size not in (0, count):
        raise InvalidArgumentError(
            f"Expected len({what}) == 0 or {count}, but got: {what} of shape "
            f"{shape_text(names.shape)}"
        )
    return Wheres(names.ravel().tolist() or [b"<unknown>"] * count)


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
        InvalidArgumentError: they are not as many of each, or contradict each other.
    """
    if not len(keys) == len(types) == len(shapes) == len(defaults):
        raise InvalidArgumentError(
            f"there are {len(keys)} dense keys, {len(types)} types, {len(shapes)} shapes and "
            f"{len(defaults)} default values; give one of each"
        )
    return [
        dense_column(key, as_dtype(dtype), shape, default)
        for key, dtype, shape, default in zip(keys, types, shapes, defaults, strict=True)
    ]


def _columns(
    remembered: HeadersOfNode,
    serialized: Value,
    names: Value,
    sparse: Sequence[tuple[bytes, DType]],
    dense: Sequence[DenseColumn],
    ragged: Sequence[tuple[bytes, DType, DType]] = (),
) -> tuple[list[Value], ...]:
    """Return sparse indices, values, shapes; dense values; ragged values and splits."""
    is_batch = serialized.ndim == 1
    wheres = where_texts(serialized, names)
    keys = [*(key for key, _ in sparse), *(column.key for column in dense)]
    keys += [key for key, _, _ in ragged]
    scan = Scan(remembered.of(keys), wheres, "example")
    for row, content in enumerate(serialized.ravel().tolist()):
        scan.add_example(row, content)
    sparse_parts = [
        sparse_values(scan.column(key, dtype), is_batch=is_batch) for key, dtype in sparse
    ]
    dense_parts = [
        dense_values(column, scan.column(column.key, column.dtype), wheres, is_batch=is_batch)
        for column in dense
    ]
    ragged_parts = [
        ragged_values(scan.column(key, dtype), split, is_batch=is_batch)
        for key, dtype, split in ragged
    ]
    indices, values, shapes = ([part[i] for part in sparse_parts] for i in range(3))
    flat, row_splits = ([part[i] for part in ragged_parts] for i in range(2))
    return indices, values, shapes, dense_parts, flat, row_splits


@kernel("ParseExample", **_OPTIONS)
def parse_example_v1(
    sparse_types: Sequence[Any],
    Tdense: Sequence[Any],
    dense_shapes: Sequence[Shape],
) -> Callable[..., tuple[Any, ...]]:
    """Parse a vector of examples into sparse and dense columns."""
    remembered = HeadersOfNode()

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
        sparse = list(zip(_keys(sparse_keys), types_of(sparse_types), strict=True))
        dense = dense_columns(_keys(dense_keys), Tdense, dense_shapes, dense_defaults)
        return _columns(remembered, serialized, names, sparse, dense)[:4]

    return parse


@kernel("ParseExampleV2", **_OPTIONS)
def parse_example_v2(
    Tdense: Sequence[Any],
    num_sparse: int,
    sparse_types: Sequence[Any],
    ragged_value_types: Sequence[Any],
    ragged_split_types: Sequence[Any],
    dense_shapes: Sequence[Shape],
) -> Callable[..., tuple[Any, ...]]:
    """Parse one example, or a vector of them, into sparse, dense and ragged columns."""
    remembered = HeadersOfNode()

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
        splits = map(as_dtype, ragged_split_types)
        return _columns(
            remembered,
            serialized,
            names,
            list(zip(sparse_names, types_of(sparse_types), strict=True)),
            dense_columns(dense_names, Tdense, dense_shapes, dense_defaults),
            list(zip(ragged_names, types_of(ragged_value_types), splits, strict=True)),
        )

    return parse


def key_vector(keys: Value, count: int, what: str) -> list[bytes]:
    """Return the keys of a vector.

    Raises:
        InvalidArgumentError: there are more or fewer than columns.
    """
    if keys.ndim != 1 or len(keys) != count:
        raise InvalidArgumentError(
            f"Expected {what} to be a vector of {count} keys, got shape {shape_text(keys.shape)}"
        )
    found: list[bytes] = keys.tolist()
    return found


@kernel("ParseSingleExample", **_OPTIONS)
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
    remembered = HeadersOfNode()
    no_names = np.empty(0, object)

    def parse(serialized: Value, dense_defaults: list[Value]) -> tuple[Any, ...]:
        if serialized.ndim:
            raise InvalidArgumentError(
                f"Expected serialized to be a scalar, got shape: {shape_text(serialized.shape)}"
            )
        sparse = list(zip(map(encode, sparse_keys), types_of(sparse_types), strict=True))
        dense = dense_columns(list(map(encode, dense_keys)), Tdense, dense_shapes, dense_defaults)
        return _columns(remembered, serialized, no_names, sparse, dense)[:4]

    return parse
