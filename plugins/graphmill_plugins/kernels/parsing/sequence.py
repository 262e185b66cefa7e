"""Kernels that parse `SequenceExample`s: a context, and lists of features in time.

Semantics: tensorflow/core/kernels/example_parsing_ops.cc, example_proto_fast_parsing.cc.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.dtypes import as_dtype
from graphmill.errors import DataLossError, InvalidArgumentError
from graphmill.runtime.kernel import kernel
from graphmill_plugins.kernels._strings import encode
from graphmill_plugins.kernels._support import shape_text
from graphmill_plugins.kernels.parsing._columns import (
    dense_values,
    ragged_values,
    sparse_values,
    splits,
    within_rows,
)
from graphmill_plugins.kernels.parsing._example import parse_sequence_example, values_of
from graphmill_plugins.kernels.parsing.example import (
    column_rows,
    dense_columns,
    key_vector,
    types_of,
    where_texts,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.dtypes import DType
    from graphmill.typing import ArrayNamespace, Shape, Value
    from graphmill_plugins.kernels.parsing._columns import DenseColumn
    from graphmill_plugins.kernels.parsing._example import Feature, Features

    Lists = dict[bytes, list[Feature]]
    Steps = list[Value]

_OPTIONS: dict[str, Any] = {"host": True, "dynamic_shape": True, "expensive": True}


class _Batch:
    """Some sequence examples, parsed; columns are asked of it one by one."""

    def __init__(self, serialized: Value, names: Value) -> None:
        self.is_batch = serialized.ndim == 1
        self.wheres = where_texts(serialized, names, "debug_name")
        self.contexts: list[Features] = []
        self.lists: list[Lists] = []
        for item, where in zip(serialized.ravel().tolist(), self.wheres, strict=True):
            try:
                context, lists = parse_sequence_example(item)
            except DataLossError as error:
                raise InvalidArgumentError(
                    f"{where}Could not parse SequenceExample input: {error.message}"
                ) from error
            self.contexts.append(context)
            self.lists.append(lists)

    def context_sparse(self, columns: Sequence[tuple[bytes, DType]]) -> tuple[list[Value], ...]:
        """Return indices, values and shapes of sparse columns of the context."""
        return _turned(
            [
                sparse_values(self._rows(key, dtype), dtype, is_batch=self.is_batch)
                for key, dtype in columns
            ],
            3,
        )

    def context_dense(self, columns: Sequence[DenseColumn]) -> list[Value]:
        """Return the dense columns of the context."""
        return [
            dense_values(
                column, self._rows(column.key, column.dtype), self.wheres, is_batch=self.is_batch
            )
            for column in columns
        ]

    def context_ragged(
        self, columns: Sequence[tuple[bytes, DType, DType]]
    ) -> tuple[list[Value], ...]:
        """Return values and splits of ragged columns of the context.

        TensorFlow gives a scalar for the splits of a single example, which has none.
        """
        parts = []
        for key, dtype, split in columns:
            values, row_splits = ragged_values(
                self._rows(key, dtype), dtype, split, is_batch=self.is_batch
            )
            if not self.is_batch:
                row_splits = np.zeros((), split.as_numpy_dtype)
            parts.append((values, row_splits))
        return _turned(parts, 2)

    def _rows(self, key: bytes, dtype: DType) -> list[Value | None]:
        return column_rows(self.contexts, key, dtype, self.wheres)

    def steps(self, key: bytes, dtype: DType) -> list[Steps | None]:
        """Return for each example the values at each time; None where the list is missing."""
        empty = np.zeros(0, dtype.as_numpy_dtype)
        found: list[Steps | None] = []
        for lists, where in zip(self.lists, self.wheres, strict=True):
            features = lists.get(key)
            if features is None:
                found.append(None)
                continue
            steps = [values_of(feature, dtype, key, where) for feature in features]
            found.append([empty if values is None else values for values in steps])
        return found

    def list_sparse(self, columns: Sequence[tuple[bytes, DType]]) -> tuple[list[Value], ...]:
        """Return indices, values and shapes of sparse feature lists."""
        return _turned([self._sparse_list(key, dtype) for key, dtype in columns], 3)

    def _sparse_list(self, key: bytes, dtype: DType) -> tuple[Value, Value, Value]:
        rows = [steps or [] for steps in self.steps(key, dtype)]
        times = np.array([len(steps) for steps in rows], np.int64)
        counts = np.array([len(values) for steps in rows for values in steps], np.int64)
        step_of = np.repeat(np.arange(len(counts)), counts)
        time = within_rows(times)[step_of] if len(counts) else np.zeros(0, np.int64)
        example = np.repeat(np.arange(len(rows)), times)[step_of] if len(counts) else time
        parts = [time, within_rows(counts) if len(counts) else time]
        shape = [int(times.max(initial=0)), int(counts.max(initial=0))]
        if self.is_batch:
            parts.insert(0, example)
            shape.insert(0, len(rows))
        indices = np.stack(parts, axis=1).astype(np.int64)
        return indices, _flat(rows, dtype), np.array(shape, np.int64)

    def list_dense(
        self, key: bytes, dtype: DType, shape: tuple[int, ...], *, may_miss: bool
    ) -> tuple[Value, Value]:
        """Return a dense feature list, padded with zeros, and the length of each example's.

        Raises:
            InvalidArgumentError: a list is missing that may not be, or a step has not as many
                values as its shape says.
        """
        size = math.prod(shape)
        rows: list[Steps] = []
        for steps, where in zip(self.steps(key, dtype), self.wheres, strict=True):
            if steps is None and not may_miss:
                raise InvalidArgumentError(
                    f"{where}Feature list '{key.decode(errors='replace')}' is required but could "
                    "not be found. Did you mean to include it in "
                    "feature_list_dense_missing_assumed_empty or feature_list_dense_defaults?"
                )
            rows.append(steps or [])
            for time, values in enumerate(rows[-1]):
                if len(values) != size:
                    raise InvalidArgumentError(
                        f"{where}Feature list '{key.decode(errors='replace')}', step {time} has "
                        f"{len(values)} values, expected the shape {shape_text(shape)}"
                    )
        lengths = np.array([len(steps) for steps in rows], np.int64)
        longest = int(lengths.max(initial=0))
        blank: Any = b"" if dtype.kind == "s" else 0
        table = np.full((len(rows), longest, size), blank, dtype.as_numpy_dtype)
        for place, steps in enumerate(rows):
            if steps:
                table[place, : len(steps)] = np.concatenate(steps).reshape(len(steps), size)
        batch = (len(rows),) if self.is_batch else ()
        dense = table.reshape(*batch, longest, *shape)
        return dense, lengths if self.is_batch else lengths[0]

    def list_ragged(self, key: bytes, dtype: DType, split: DType) -> tuple[Value, Value, Value]:
        """Return values, splits into times of examples, splits into values of times."""
        rows = [steps or [] for steps in self.steps(key, dtype)]
        inner = splits([len(values) for steps in rows for values in steps], split)
        if self.is_batch:
            outer = splits([len(steps) for steps in rows], split)
        else:
            outer = np.zeros((), split.as_numpy_dtype)
        return _flat(rows, dtype), outer, inner


def _turned(parts: Sequence[tuple[Value, ...]], count: int) -> tuple[list[Value], ...]:
    return tuple([part[place] for part in parts] for place in range(count))


def _flat(rows: Sequence[Steps], dtype: DType) -> Value:
    parts = [values for steps in rows for values in steps]
    return np.concatenate(parts) if parts else np.zeros(0, dtype.as_numpy_dtype)


def _pairs(keys: Sequence[bytes], types: Sequence[Any]) -> list[tuple[bytes, DType]]:
    if len(keys) != len(types):
        raise InvalidArgumentError(f"there are {len(keys)} keys and {len(types)} types")
    return list(zip(keys, types_of(types), strict=True))


def _triples(
    keys: Sequence[bytes], types: Sequence[Any], split_types: Sequence[Any]
) -> list[tuple[bytes, DType, DType]]:
    return list(zip(keys, types_of(types), map(as_dtype, split_types), strict=True))


def _checked_rank(serialized: Value, largest: int) -> None:
    if serialized.ndim > largest:
        raise InvalidArgumentError(
            f"Expected serialized to be of at most {largest} axes, got shape: "
            f"{shape_text(serialized.shape)}"
        )


def _list_shape(shape: Shape, key: bytes) -> tuple[int, ...]:
    if shape is None or -1 in shape:
        raise InvalidArgumentError(
            f"feature_list_dense_shapes[{key.decode(errors='replace')!r}] is {shape_text(shape)}; "
            "all its sizes must be known"
        )
    return tuple(shape)


@kernel("ParseSequenceExample", **_OPTIONS)
def parse_sequence_example_v1(
    xp: ArrayNamespace,
    serialized: Value,
    debug_name: Value,
    context_dense_defaults: list[Value],
    feature_list_dense_missing_assumed_empty: Sequence[str],
    context_sparse_keys: Sequence[str],
    context_dense_keys: Sequence[str],
    feature_list_sparse_keys: Sequence[str],
    feature_list_dense_keys: Sequence[str],
    context_sparse_types: Sequence[Any],
    Tcontext_dense: Sequence[Any],
    feature_list_dense_types: Sequence[Any],
    context_dense_shapes: Sequence[Shape],
    feature_list_sparse_types: Sequence[Any],
    feature_list_dense_shapes: Sequence[Shape],
) -> tuple[Any, ...]:
    """Parse sequence examples into sparse and dense columns."""
    del xp
    _checked_rank(serialized, 1)
    batch = _Batch(serialized, debug_name)
    context_keys = list(map(encode, context_dense_keys))
    missing = set(map(encode, feature_list_dense_missing_assumed_empty))
    dense_keys = list(map(encode, feature_list_dense_keys))
    dense_lists = [
        batch.list_dense(key, dtype, _list_shape(shape, key), may_miss=key in missing)
        for (key, dtype), shape in zip(
            _pairs(dense_keys, feature_list_dense_types), feature_list_dense_shapes, strict=True
        )
    ]
    return (
        *batch.context_sparse(_pairs(list(map(encode, context_sparse_keys)), context_sparse_types)),
        batch.context_dense(
            dense_columns(
                context_keys, Tcontext_dense, context_dense_shapes, context_dense_defaults
            )
        ),
        *batch.list_sparse(
            _pairs(list(map(encode, feature_list_sparse_keys)), feature_list_sparse_types)
        ),
        *_turned(dense_lists, 2),
    )


@kernel("ParseSequenceExampleV2", **_OPTIONS)
def parse_sequence_example_v2(
    xp: ArrayNamespace,
    serialized: Value,
    debug_name: Value,
    context_sparse_keys: Value,
    context_dense_keys: Value,
    context_ragged_keys: Value,
    feature_list_sparse_keys: Value,
    feature_list_dense_keys: Value,
    feature_list_ragged_keys: Value,
    feature_list_dense_missing_assumed_empty: Value,
    context_dense_defaults: list[Value],
    Tcontext_dense: Sequence[Any],
    context_sparse_types: Sequence[Any],
    context_ragged_value_types: Sequence[Any],
    context_ragged_split_types: Sequence[Any],
    context_dense_shapes: Sequence[Shape],
    feature_list_dense_types: Sequence[Any],
    feature_list_sparse_types: Sequence[Any],
    feature_list_ragged_value_types: Sequence[Any],
    feature_list_ragged_split_types: Sequence[Any],
    feature_list_dense_shapes: Sequence[Shape],
) -> tuple[Any, ...]:
    """Parse sequence examples into sparse, dense and ragged columns."""
    del xp
    _checked_rank(serialized, 1)

    def keys(tensor: Value, types: Sequence[Any], what: str) -> list[bytes]:
        return key_vector(tensor, len(types), what)

    context_dense = keys(context_dense_keys, Tcontext_dense, "context_dense_keys")
    list_dense = keys(feature_list_dense_keys, feature_list_dense_types, "feature_list_dense_keys")
    may_miss = feature_list_dense_missing_assumed_empty.ravel().tolist()
    if len(may_miss) != len(list_dense):
        raise InvalidArgumentError(
            f"Expected len(feature_list_dense_missing_assumed_empty) == {len(list_dense)}, got "
            f"{len(may_miss)}"
        )
    context_sparse = keys(context_sparse_keys, context_sparse_types, "context_sparse_keys")
    context_ragged = keys(context_ragged_keys, context_ragged_value_types, "context_ragged_keys")
    list_sparse = keys(
        feature_list_sparse_keys, feature_list_sparse_types, "feature_list_sparse_keys"
    )
    list_ragged = keys(
        feature_list_ragged_keys, feature_list_ragged_value_types, "feature_list_ragged_keys"
    )
    batch = _Batch(serialized, debug_name)
    dense_lists = [
        batch.list_dense(key, dtype, _list_shape(shape, key), may_miss=bool(may))
        for (key, dtype), shape, may in zip(
            _pairs(list_dense, feature_list_dense_types),
            feature_list_dense_shapes,
            may_miss,
            strict=True,
        )
    ]
    ragged_lists = [
        batch.list_ragged(*column)
        for column in _triples(
            list_ragged, feature_list_ragged_value_types, feature_list_ragged_split_types
        )
    ]
    columns = dense_columns(
        context_dense, Tcontext_dense, context_dense_shapes, context_dense_defaults
    )
    return (
        *batch.context_sparse(_pairs(context_sparse, context_sparse_types)),
        batch.context_dense(columns),
        *batch.context_ragged(
            _triples(context_ragged, context_ragged_value_types, context_ragged_split_types)
        ),
        *batch.list_sparse(_pairs(list_sparse, feature_list_sparse_types)),
        *_turned(dense_lists, 2),
        *_turned(ragged_lists, 3),
    )


@kernel("ParseSingleSequenceExample", **_OPTIONS)
def parse_single_sequence_example(
    xp: ArrayNamespace,
    serialized: Value,
    feature_list_dense_missing_assumed_empty: Value,
    context_sparse_keys: list[Value],
    context_dense_keys: list[Value],
    feature_list_sparse_keys: list[Value],
    feature_list_dense_keys: list[Value],
    context_dense_defaults: list[Value],
    debug_name: Value,
    context_sparse_types: Sequence[Any],
    Tcontext_dense: Sequence[Any],
    feature_list_dense_types: Sequence[Any],
    context_dense_shapes: Sequence[Shape],
    feature_list_sparse_types: Sequence[Any],
    feature_list_dense_shapes: Sequence[Shape],
) -> tuple[Any, ...]:
    """Parse one sequence example into sparse and dense columns."""
    del xp
    _checked_rank(serialized, 0)
    batch = _Batch(serialized, debug_name)
    missing = set(feature_list_dense_missing_assumed_empty.ravel().tolist())

    def keys(tensors: list[Value]) -> list[bytes]:
        return [tensor.item() for tensor in tensors]

    dense_lists = [
        batch.list_dense(key, dtype, _list_shape(shape, key), may_miss=key in missing)[0]
        for (key, dtype), shape in zip(
            _pairs(keys(feature_list_dense_keys), feature_list_dense_types),
            feature_list_dense_shapes,
            strict=True,
        )
    ]
    columns = dense_columns(
        keys(context_dense_keys), Tcontext_dense, context_dense_shapes, context_dense_defaults
    )
    return (
        *batch.context_sparse(_pairs(keys(context_sparse_keys), context_sparse_types)),
        batch.context_dense(columns),
        *batch.list_sparse(_pairs(keys(feature_list_sparse_keys), feature_list_sparse_types)),
        dense_lists,
    )
