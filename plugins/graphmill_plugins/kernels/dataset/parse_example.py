"""Kernels of datasets that parse `Example`s.

Semantics: tensorflow/core/kernels/data/experimental/parse_example_dataset_op.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.dtypes import as_dtype
from graphmill.errors import InvalidArgumentError
from graphmill_plugins.kernels._strings import encode
from graphmill_plugins.kernels.dataset.pipeline.dataset import (
    dataset_maker,
    dataset_of,
    scalar,
    structure,
)
from graphmill_plugins.kernels.dataset.pipeline.parse_example import Columns, ParseExamples
from graphmill_plugins.kernels.parsing.example import dense_columns, types_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.spi import OpKernelContext, Shape, Value
    from graphmill_plugins.kernels.dataset.pipeline.dataset import Dataset

_AUTOMATIC = -1
_DETERMINISM = ("true", "false", "default")


@dataset_maker("ParseExampleDataset", "ExperimentalParseExampleDataset")
def parse_example_dataset(
    ctx: OpKernelContext,
    source: Value,
    num_parallel_calls: Value,
    dense_defaults: list[Value],
    sparse_keys: Sequence[str],
    dense_keys: Sequence[str],
    sparse_types: Sequence[Any],
    Tdense: Sequence[Any],
    dense_shapes: Sequence[Shape],
    output_types: Sequence[Any],
    output_shapes: Sequence[Shape],
    ragged_keys: Sequence[str] = (),
    ragged_value_types: Sequence[Any] = (),
    ragged_split_types: Sequence[Any] = (),
) -> Dataset:
    """Make a dataset of the columns of batches of examples, in order even if `sloppy`."""
    del ctx
    calls = int(scalar(num_parallel_calls, "num_parallel_calls"))
    if calls < 1 and calls != _AUTOMATIC:
        raise InvalidArgumentError(f"num_parallel_calls must be greater than zero, got {calls}.")
    _check_unique([*dense_keys, *sparse_keys, *ragged_keys])
    columns = Columns(
        _pairs("sparse", sparse_keys, types_of(sparse_types)),
        dense_columns(list(map(encode, dense_keys)), Tdense, dense_shapes, dense_defaults),
        [
            (key, dtype, as_dtype(split))
            for (key, dtype), split in zip(
                _pairs("ragged", ragged_keys, types_of(ragged_value_types)),
                ragged_split_types,
                strict=True,
            )
        ],
    )
    return ParseExamples(dataset_of(source), columns, structure(output_types, output_shapes))


@dataset_maker("ParseExampleDatasetV2")
def parse_example_dataset_v2(
    ctx: OpKernelContext,
    source: Value,
    num_parallel_calls: Value,
    dense_defaults: list[Value],
    sparse_keys: Sequence[str],
    dense_keys: Sequence[str],
    sparse_types: Sequence[Any],
    Tdense: Sequence[Any],
    dense_shapes: Sequence[Shape],
    output_types: Sequence[Any],
    output_shapes: Sequence[Shape],
    deterministic: str,
    ragged_keys: Sequence[str],
    ragged_value_types: Sequence[Any],
    ragged_split_types: Sequence[Any],
) -> Dataset:
    """Make a dataset of the columns of batches of examples, always in order."""
    if deterministic not in _DETERMINISM:
        raise InvalidArgumentError(
            f"deterministic must be one of {', '.join(_DETERMINISM)}, got {deterministic!r}"
        )
    dataset: Dataset = parse_example_dataset(
        *(ctx, source, num_parallel_calls, dense_defaults, sparse_keys, dense_keys),
        *(sparse_types, Tdense, dense_shapes, output_types, output_shapes),
        *(ragged_keys, ragged_value_types, ragged_split_types),
    )
    return dataset


def _check_unique(keys: Sequence[str]) -> None:
    for index, key in enumerate(keys):
        if key in keys[:index]:
            raise InvalidArgumentError(f"Duplicate key not allowed: {key}")


def _pairs(kind: str, keys: Sequence[str], types: Sequence[Any]) -> list[tuple[bytes, Any]]:
    if len(keys) != len(types):
        raise InvalidArgumentError(
            f"there are {len(keys)} {kind} keys and {len(types)} types; pass one type for each key"
        )
    return list(zip(map(encode, keys), types, strict=True))
