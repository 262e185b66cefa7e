"""Kernels that parse `SequenceExample`s: a context and feature lists.

Semantics: tensorflow/core/kernels/example_parsing_ops.cc, example_proto_fast_parsing.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.dtypes import as_dtype
from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill_plugins.kernels._strings import encode
from graphmill_plugins.kernels._support import shape_text
from graphmill_plugins.kernels.parsing._entry_headers import HeaderCache
from graphmill_plugins.kernels.parsing._sequence import (
    SequenceColumns,
    dense_list,
    parse_sequences,
)
from graphmill_plugins.kernels.parsing.example import (
    PARSER_OPTIONS,
    ColumnCache,
    dense_columns,
    key_vector,
    types_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.dtypes import DType
    from graphmill.spi import Shape, Value
    from graphmill_plugins.kernels.parsing._sequence import DenseList


def _pairs(keys: Sequence[bytes], types: Sequence[Any]) -> list[tuple[bytes, DType]]:
    if len(keys) != len(types):
        raise InvalidArgumentError(
            f"expected one type per key, got {len(types)} types for {len(keys)} keys"
        )
    return list(zip(keys, types_of(types), strict=True))


def _triples(
    keys: Sequence[bytes], types: Sequence[Any], split_types: Sequence[Any]
) -> list[tuple[bytes, DType, DType]]:
    return list(zip(keys, types_of(types), map(as_dtype, split_types), strict=True))


def _check_rank(serialized: Value, max_rank: int) -> None:
    if serialized.ndim > max_rank:
        raise InvalidArgumentError(
            f"Expected serialized to have at most {max_rank} axes, got shape: "
            f"{shape_text(serialized.shape)}"
        )


def _dense_lists(
    keys: Sequence[bytes],
    types: Sequence[Any],
    shapes: Sequence[Shape],
    allow_missing: Sequence[bool],
) -> list[DenseList]:
    return [
        dense_list(key, dtype, shape, allow_missing=allow)
        for (key, dtype), shape, allow in zip(
            _pairs(keys, types), shapes, allow_missing, strict=True
        )
    ]


@kernel("ParseSequenceExample", **PARSER_OPTIONS)
def parse_sequence_example_v1(
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
    Ncontext_sparse: int,
    Nfeature_list_sparse: int,
    Nfeature_list_dense: int,
) -> Callable[..., tuple[Any, ...]]:
    """Parse sequence examples into sparse and dense columns."""
    _check_count("context_sparse", Ncontext_sparse, context_sparse_types)
    _check_count("feature_list_sparse", Nfeature_list_sparse, feature_list_sparse_types)
    _check_count("feature_list_dense", Nfeature_list_dense, feature_list_dense_types)
    header_cache = HeaderCache()
    missing = set(feature_list_dense_missing_assumed_empty)

    def columns_of(defaults: list[Value]) -> SequenceColumns:
        return SequenceColumns(
            context_sparse=_pairs(list(map(encode, context_sparse_keys)), context_sparse_types),
            context_dense=dense_columns(
                list(map(encode, context_dense_keys)),
                Tcontext_dense,
                context_dense_shapes,
                defaults,
            ),
            list_sparse=_pairs(
                list(map(encode, feature_list_sparse_keys)), feature_list_sparse_types
            ),
            list_dense=_dense_lists(
                list(map(encode, feature_list_dense_keys)),
                feature_list_dense_types,
                feature_list_dense_shapes,
                [key in missing for key in feature_list_dense_keys],
            ),
        )

    column_cache = ColumnCache(columns_of)

    def parse(
        serialized: Value,
        debug_name: Value,
        context_dense_defaults: list[Value],
    ) -> tuple[Any, ...]:
        _check_rank(serialized, 1)
        columns = column_cache.of(context_dense_defaults)
        parsed = parse_sequences(header_cache, serialized, debug_name, columns)
        return (*parsed[:4], *parsed[6:11])

    return parse


def _check_count(what: str, count: int, types: Sequence[Any]) -> None:
    """Check that a node has one column type per output.

    Raises:
        InvalidArgumentError: the numbers differ.
    """
    if count != len(types):
        raise InvalidArgumentError(
            f"len({what}_types) must be N{what}: {len(types)} is not {count}"
        )


@kernel("ParseSequenceExampleV2", **PARSER_OPTIONS)
def parse_sequence_example_v2(
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
    Ncontext_sparse: int,
    Nfeature_list_sparse: int,
    Nfeature_list_dense: int,
) -> Callable[..., tuple[Any, ...]]:
    """Parse sequence examples into sparse, dense and ragged columns."""
    _check_count("context_sparse", Ncontext_sparse, context_sparse_types)
    _check_count("feature_list_sparse", Nfeature_list_sparse, feature_list_sparse_types)
    _check_count("feature_list_dense", Nfeature_list_dense, feature_list_dense_types)
    header_cache = HeaderCache()

    def columns_of(
        defaults: list[Value],
        context_sparse: list[bytes],
        context_dense: list[bytes],
        context_ragged: list[bytes],
        list_sparse: list[bytes],
        list_dense: list[bytes],
        list_ragged: list[bytes],
        allow_missing: list[bool],
    ) -> SequenceColumns:
        return SequenceColumns(
            context_sparse=_pairs(context_sparse, context_sparse_types),
            context_dense=dense_columns(
                context_dense, Tcontext_dense, context_dense_shapes, defaults
            ),
            context_ragged=_triples(
                context_ragged, context_ragged_value_types, context_ragged_split_types
            ),
            list_sparse=_pairs(list_sparse, feature_list_sparse_types),
            list_dense=_dense_lists(
                list_dense, feature_list_dense_types, feature_list_dense_shapes, allow_missing
            ),
            list_ragged=_triples(
                list_ragged, feature_list_ragged_value_types, feature_list_ragged_split_types
            ),
        )

    column_cache = ColumnCache(columns_of)

    def parse(
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
    ) -> tuple[Any, ...]:
        _check_rank(serialized, 1)

        def keys(tensor: Value, types: Sequence[Any], what: str) -> list[bytes]:
            return key_vector(tensor, len(types), what)

        allow_missing = feature_list_dense_missing_assumed_empty.ravel().tolist()
        dense_keys = keys(
            feature_list_dense_keys, feature_list_dense_types, "feature_list_dense_keys"
        )
        if len(allow_missing) != len(dense_keys):
            raise InvalidArgumentError(
                f"Expected len(feature_list_dense_missing_assumed_empty) == {len(dense_keys)}, got "
                f"{len(allow_missing)}"
            )
        columns = column_cache.of(
            context_dense_defaults,
            keys(context_sparse_keys, context_sparse_types, "context_sparse_keys"),
            keys(context_dense_keys, Tcontext_dense, "context_dense_keys"),
            keys(context_ragged_keys, context_ragged_value_types, "context_ragged_keys"),
            keys(feature_list_sparse_keys, feature_list_sparse_types, "feature_list_sparse_keys"),
            dense_keys,
            keys(
                feature_list_ragged_keys,
                feature_list_ragged_value_types,
                "feature_list_ragged_keys",
            ),
            allow_missing,
        )
        return parse_sequences(header_cache, serialized, debug_name, columns)

    return parse


@kernel("ParseSingleSequenceExample", **PARSER_OPTIONS)
def parse_single_sequence_example(
    context_sparse_types: Sequence[Any],
    Tcontext_dense: Sequence[Any],
    feature_list_dense_types: Sequence[Any],
    context_dense_shapes: Sequence[Shape],
    feature_list_sparse_types: Sequence[Any],
    feature_list_dense_shapes: Sequence[Shape],
) -> Callable[..., tuple[Any, ...]]:
    """Parse one sequence example into sparse and dense columns."""
    header_cache = HeaderCache()

    def columns_of(
        defaults: list[Value],
        context_sparse: list[bytes],
        context_dense: list[bytes],
        list_sparse: list[bytes],
        list_dense: list[bytes],
        missing: list[bytes],
    ) -> SequenceColumns:
        return SequenceColumns(
            context_sparse=_pairs(context_sparse, context_sparse_types),
            context_dense=dense_columns(
                context_dense, Tcontext_dense, context_dense_shapes, defaults
            ),
            list_sparse=_pairs(list_sparse, feature_list_sparse_types),
            list_dense=_dense_lists(
                list_dense,
                feature_list_dense_types,
                feature_list_dense_shapes,
                [key in missing for key in list_dense],
            ),
        )

    column_cache = ColumnCache(columns_of)

    def parse(
        serialized: Value,
        feature_list_dense_missing_assumed_empty: Value,
        context_sparse_keys: list[Value],
        context_dense_keys: list[Value],
        feature_list_sparse_keys: list[Value],
        feature_list_dense_keys: list[Value],
        context_dense_defaults: list[Value],
        debug_name: Value,
    ) -> tuple[Any, ...]:
        _check_rank(serialized, 0)

        def keys(tensors: list[Value]) -> list[bytes]:
            return [tensor.item() for tensor in tensors]

        columns = column_cache.of(
            context_dense_defaults,
            keys(context_sparse_keys),
            keys(context_dense_keys),
            keys(feature_list_sparse_keys),
            keys(feature_list_dense_keys),
            feature_list_dense_missing_assumed_empty.ravel().tolist(),
        )
        parsed = parse_sequences(header_cache, serialized, debug_name, columns)
        return (*parsed[:4], *parsed[6:10])

    return parse
