"""Kernels of datasets that call functions: map, filter, scan, interleave, group by."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from graphmill.errors import InvalidArgumentError
from graphmill_plugins.kernels.dataset.pipeline import function_datasets, group_by
from graphmill_plugins.kernels.dataset.pipeline.batch import Batch
from graphmill_plugins.kernels.dataset.pipeline.dataset import (
    CapturedFunction,
    dataset_maker,
    dataset_of,
    scalar,
    structure,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.spi import OpKernelContext, Shape, Value
    from graphmill_plugins.kernels.dataset.pipeline.dataset import Dataset

    Types = Sequence[Any]
    Shapes = Sequence[Shape]

_AUTOMATIC: Final = -1


def _parallel_calls(number: Value) -> int:
    """Return the number of concurrent calls; -1 stands for the number of processors."""
    count = int(scalar(number, "num_parallel_calls"))
    if count < 1 and count != _AUTOMATIC:
        raise InvalidArgumentError(f"num_parallel_calls must be greater than zero, got {count}.")
    return _processors() if count == _AUTOMATIC else count


def _processors() -> int:
    return os.cpu_count() or 1


@dataset_maker("MapDataset")
def map_dataset(
    ctx: OpKernelContext,
    source: Value,
    captured: list[Value],
    f: Any,
    output_types: Types,
    output_shapes: Shapes,
    preserve_cardinality: bool,
) -> Dataset:
    """Make a dataset that maps a function over the elements."""
    return function_datasets.Map(
        dataset_of(source),
        CapturedFunction(ctx, f, captured),
        structure(output_types, output_shapes),
        preserves_cardinality=preserve_cardinality,
    )


@dataset_maker("ParallelMapDataset", "ParallelMapDatasetV2")
def parallel_map_dataset(
    ctx: OpKernelContext,
    source: Value,
    captured: list[Value],
    num_parallel_calls: Value,
    f: Any,
    output_types: Types,
    output_shapes: Shapes,
    preserve_cardinality: bool,
) -> Dataset:
    """Make a dataset that maps a function over the elements in parallel."""
    return function_datasets.Map(
        dataset_of(source),
        CapturedFunction(ctx, f, captured),
        structure(output_types, output_shapes),
        parallel=_parallel_calls(num_parallel_calls),
        preserves_cardinality=preserve_cardinality,
    )


@dataset_maker("MapAndBatchDataset", "ExperimentalMapAndBatchDataset")
def map_and_batch_dataset(
    ctx: OpKernelContext,
    source: Value,
    captured: list[Value],
    batch_size: Value,
    num_parallel_calls: Value,
    drop_remainder: Value,
    f: Any,
    output_types: Types,
    output_shapes: Shapes,
    preserve_cardinality: bool,
) -> Dataset:
    """Make a dataset of batches of mapped elements."""
    types, shapes = structure(output_types, output_shapes)
    rows = [None if shape is None else shape[1:] for shape in shapes]
    mapped = function_datasets.Map(
        dataset_of(source),
        CapturedFunction(ctx, f, captured),
        (types, rows),
        parallel=_parallel_calls(num_parallel_calls),
        preserves_cardinality=preserve_cardinality,
    )
    size = int(scalar(batch_size, "batch_size"))
    return Batch(mapped, size, drops_remainder=bool(scalar(drop_remainder, "drop_remainder")))


@dataset_maker("FilterDataset")
def filter_dataset(
    ctx: OpKernelContext, source: Value, captured: list[Value], predicate: Any
) -> Dataset:
    """Make a dataset of the elements that satisfy a predicate."""
    return function_datasets.Filter(dataset_of(source), CapturedFunction(ctx, predicate, captured))


@dataset_maker("ParallelFilterDataset")
def parallel_filter_dataset(
    ctx: OpKernelContext,
    source: Value,
    captured: list[Value],
    num_parallel_calls: Value,
    predicate: Any,
) -> Dataset:
    """Make a dataset of the elements that satisfy a predicate, in order."""
    _parallel_calls(num_parallel_calls)
    return function_datasets.Filter(dataset_of(source), CapturedFunction(ctx, predicate, captured))


@dataset_maker("TakeWhileDataset", "ExperimentalTakeWhileDataset")
def take_while_dataset(
    ctx: OpKernelContext, source: Value, captured: list[Value], predicate: Any
) -> Dataset:
    """Make a dataset of the elements before the first that fails a predicate."""
    return function_datasets.TakeWhile(
        dataset_of(source), CapturedFunction(ctx, predicate, captured)
    )


@dataset_maker("ScanDataset", "ExperimentalScanDataset")
def scan_dataset(
    ctx: OpKernelContext,
    source: Value,
    initial_state: list[Value],
    captured: list[Value],
    f: Any,
    output_types: Types,
    output_shapes: Shapes,
    preserve_cardinality: bool,
) -> Dataset:
    """Make a dataset that maps a function with a running state over the elements."""
    return function_datasets.Scan(
        dataset_of(source),
        initial_state,
        CapturedFunction(ctx, f, captured),
        structure(output_types, output_shapes),
        preserves_cardinality=preserve_cardinality,
    )


@dataset_maker("FlatMapDataset")
def flat_map_dataset(
    ctx: OpKernelContext,
    source: Value,
    captured: list[Value],
    f: Any,
    output_types: Types,
    output_shapes: Shapes,
) -> Dataset:
    """Make a dataset that concatenates the datasets that a function returns."""
    return function_datasets.Interleave(
        dataset_of(source),
        CapturedFunction(ctx, f, captured),
        structure(output_types, output_shapes),
    )


@dataset_maker("InterleaveDataset")
def interleave_dataset(
    ctx: OpKernelContext,
    source: Value,
    captured: list[Value],
    cycle_length: Value,
    block_length: Value,
    f: Any,
    output_types: Types,
    output_shapes: Shapes,
) -> Dataset:
    """Make a dataset that interleaves the datasets that a function returns."""
    return function_datasets.Interleave(
        dataset_of(source),
        CapturedFunction(ctx, f, captured),
        structure(output_types, output_shapes),
        cycle=_cycle_length(cycle_length),
        block=int(scalar(block_length, "block_length")),
    )


def _cycle_length(length: Value) -> int:
    cycle = int(scalar(length, "cycle_length"))
    return _processors() if cycle == _AUTOMATIC else cycle


def _concurrent_calls(cycle_length: Value, num_parallel_calls: Value) -> int:
    """Return the number of concurrent calls of an interleaved dataset.

    Raises:
        InvalidArgumentError: it exceeds the cycle length.
    """
    cycle, calls = _cycle_length(cycle_length), _parallel_calls(num_parallel_calls)
    if int(num_parallel_calls) != _AUTOMATIC and calls > cycle:
        raise InvalidArgumentError(
            f"`num_parallel_calls` must be at most `cycle_length`, got {calls} and {cycle}"
        )
    return calls


@dataset_maker("ParallelInterleaveDatasetV2", "ParallelInterleaveDatasetV3")
def parallel_interleave_dataset(
    ctx: OpKernelContext,
    source: Value,
    captured: list[Value],
    cycle_length: Value,
    block_length: Value,
    num_parallel_calls: Value,
    f: Any,
    output_types: Types,
    output_shapes: Shapes,
) -> Dataset:
    """Make a dataset that interleaves datasets, computed ahead of time."""
    block = int(scalar(block_length, "block_length"))
    return function_datasets.Interleave(
        dataset_of(source),
        CapturedFunction(ctx, f, captured),
        structure(output_types, output_shapes),
        cycle=_cycle_length(cycle_length),
        block=block,
        buffer=block if _concurrent_calls(cycle_length, num_parallel_calls) > 1 else 0,
    )


@dataset_maker("ParallelInterleaveDatasetV4")
def parallel_interleave_dataset_v4(
    ctx: OpKernelContext,
    source: Value,
    captured: list[Value],
    cycle_length: Value,
    block_length: Value,
    buffer_output_elements: Value,
    prefetch_input_elements: Value,
    num_parallel_calls: Value,
    f: Any,
    output_types: Types,
    output_shapes: Shapes,
) -> Dataset:
    """Make a dataset that interleaves datasets, computed ahead of time."""
    del prefetch_input_elements
    block = int(scalar(block_length, "block_length"))
    buffer = int(scalar(buffer_output_elements, "buffer_output_elements"))
    return function_datasets.Interleave(
        dataset_of(source),
        CapturedFunction(ctx, f, captured),
        structure(output_types, output_shapes),
        cycle=_cycle_length(cycle_length),
        block=block,
        buffer=max(buffer, block) if _concurrent_calls(cycle_length, num_parallel_calls) > 1 else 0,
    )


@dataset_maker("ParallelInterleaveDataset", "ExperimentalParallelInterleaveDataset")
def legacy_parallel_interleave_dataset(
    ctx: OpKernelContext,
    source: Value,
    captured: list[Value],
    cycle_length: Value,
    block_length: Value,
    sloppy: Value,
    buffer_output_elements: Value,
    prefetch_input_elements: Value,
    f: Any,
    output_types: Types,
    output_shapes: Shapes,
) -> Dataset:
    """Make a dataset that interleaves datasets, in order even if `sloppy`."""
    del sloppy, prefetch_input_elements
    block = int(scalar(block_length, "block_length"))
    buffer = int(scalar(buffer_output_elements, "buffer_output_elements"))
    return function_datasets.Interleave(
        dataset_of(source),
        CapturedFunction(ctx, f, captured),
        structure(output_types, output_shapes),
        cycle=_cycle_length(cycle_length),
        block=block,
        buffer=max(buffer, block),
    )


@dataset_maker("LegacyParallelInterleaveDatasetV2")
def legacy_parallel_interleave_dataset_v2(
    ctx: OpKernelContext,
    source: Value,
    captured: list[Value],
    cycle_length: Value,
    block_length: Value,
    buffer_output_elements: Value,
    prefetch_input_elements: Value,
    f: Any,
    output_types: Types,
    output_shapes: Shapes,
) -> Dataset:
    """Make a dataset that interleaves datasets, always in order."""
    dataset: Dataset = legacy_parallel_interleave_dataset(
        *(ctx, source, captured, cycle_length, block_length, None),
        *(buffer_output_elements, prefetch_input_elements, f, output_types, output_shapes),
    )
    return dataset


@dataset_maker("GroupByWindowDataset", "ExperimentalGroupByWindowDataset")
def group_by_window_dataset(
    ctx: OpKernelContext,
    source: Value,
    key_captured: list[Value],
    reduce_captured: list[Value],
    size_captured: list[Value],
    key_func: Any,
    reduce_func: Any,
    window_size_func: Any,
    output_types: Types,
    output_shapes: Shapes,
) -> Dataset:
    """Make a dataset that maps a function over windows of elements with equal keys."""
    return group_by.GroupByWindow(
        dataset_of(source),
        CapturedFunction(ctx, key_func, key_captured),
        CapturedFunction(ctx, reduce_func, reduce_captured),
        CapturedFunction(ctx, window_size_func, size_captured),
        structure(output_types, output_shapes),
    )


@dataset_maker("GroupByReducerDataset", "ExperimentalGroupByReducerDataset")
def group_by_reducer_dataset(
    ctx: OpKernelContext,
    source: Value,
    key_captured: list[Value],
    init_captured: list[Value],
    reduce_captured: list[Value],
    finalize_captured: list[Value],
    key_func: Any,
    init_func: Any,
    reduce_func: Any,
    finalize_func: Any,
    output_types: Types,
    output_shapes: Shapes,
) -> Dataset:
    """Make a dataset that reduces all elements with equal keys."""
    return group_by.GroupByReducer(
        dataset_of(source),
        CapturedFunction(ctx, key_func, key_captured),
        CapturedFunction(ctx, init_func, init_captured),
        CapturedFunction(ctx, reduce_func, reduce_captured),
        CapturedFunction(ctx, finalize_func, finalize_captured),
        structure(output_types, output_shapes),
    )


@dataset_maker("DirectedInterleaveDataset", "ExperimentalDirectedInterleaveDataset")
def directed_interleave_dataset(
    ctx: OpKernelContext, selector: Value, sources: list[Value], stop_on_empty_dataset: bool = False
) -> Dataset:
    """Make a dataset that takes each element from the dataset that a selector chooses."""
    del ctx
    return function_datasets.DirectedInterleave(
        dataset_of(selector),
        [dataset_of(source) for source in sources],
        stops_on_empty=stop_on_empty_dataset,
    )
