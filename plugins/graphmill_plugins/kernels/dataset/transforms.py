"""Kernels of datasets that transform others: take, batch, shuffle, cache and more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.errors import InvalidArgumentError
from graphmill.spi import ResourceHandle
from graphmill.spi.files import as_path
from graphmill_plugins.kernels._strings import decode
from graphmill_plugins.kernels._support import to_ints
from graphmill_plugins.kernels.dataset.pipeline import basic, batch, element_checks
from graphmill_plugins.kernels.dataset.pipeline.buffering import (
    Cache,
    CacheFiles,
    FileCache,
    MemoryCache,
    Prefetch,
    Window,
)
from graphmill_plugins.kernels.dataset.pipeline.dataset import (
    dataset_maker,
    dataset_of,
    scalar,
    structure,
)
from graphmill_plugins.kernels.dataset.pipeline.hint import Hint
from graphmill_plugins.kernels.dataset.pipeline.shuffle import SeedGenerator, Shuffle
from graphmill_plugins.kernels.dataset.sources import seed_generator_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.spi import OpKernelContext, Shape, Value
    from graphmill.spi.files import Broker
    from graphmill_plugins.kernels.dataset.pipeline.dataset import Dataset


@dataset_maker(
    "ModelDataset",
    "FinalizeDataset",
    "RewriteDataset",
    "NonSerializableDataset",
    "ExperimentalNonSerializableDataset",
    "MaxIntraOpParallelismDataset",
    "ExperimentalMaxIntraOpParallelismDataset",
)
def same_dataset(ctx: OpKernelContext, source: Value, *rest: Value) -> Dataset:
    """Make a dataset of the same elements: these ops are performance hints."""
    del ctx, rest
    return Hint(dataset_of(source))


@dataset_maker("OptionsDataset")
def options_dataset(ctx: OpKernelContext, source: Value, serialized_options: str) -> Dataset:
    """Make a dataset of the same elements that carries options, which are performance hints."""
    del ctx
    return Hint(dataset_of(source), serialized_options.encode("utf-8", "surrogateescape"))


@dataset_maker("OptimizeDataset", "OptimizeDatasetV2")
def optimized_dataset(ctx: OpKernelContext, source: Value, *names: Value) -> Dataset:
    """Make a dataset of the same elements: graph optimizations of datasets are not applied."""
    del ctx
    for value in names:
        if value.ndim != 1:
            raise InvalidArgumentError(f"optimizations must be a vector, got {list(value.shape)}")
    return Hint(dataset_of(source))


@dataset_maker("PrivateThreadPoolDataset", "ExperimentalPrivateThreadPoolDataset")
def private_thread_pool_dataset(ctx: OpKernelContext, source: Value, num_threads: Value) -> Dataset:
    """Make a dataset of the same elements: its functions run in the session's threads.

    Raises:
        InvalidArgumentError: the number of threads is negative.
    """
    del ctx
    if int(scalar(num_threads, "num_threads")) < 0:
        raise InvalidArgumentError("`num_threads` must be >= 0")
    return Hint(dataset_of(source))


def _count(value: Value, what: str = "count") -> int:
    return int(scalar(value, what))


@dataset_maker("TakeDataset")
def take_dataset(ctx: OpKernelContext, source: Value, count: Value) -> Dataset:
    """Make a dataset of the first elements."""
    del ctx
    return basic.Take(dataset_of(source), _count(count))


@dataset_maker("SkipDataset")
def skip_dataset(ctx: OpKernelContext, source: Value, count: Value) -> Dataset:
    """Make a dataset that skips the first elements."""
    del ctx
    return basic.Skip(dataset_of(source), _count(count))


@dataset_maker("RepeatDataset")
def repeat_dataset(ctx: OpKernelContext, source: Value, count: Value) -> Dataset:
    """Make a dataset that repeats the elements."""
    del ctx
    return basic.Repeat(dataset_of(source), _count(count))


@dataset_maker("ConcatenateDataset")
def concatenate_dataset(ctx: OpKernelContext, source: Value, other: Value) -> Dataset:
    """Make a dataset that concatenates two datasets."""
    del ctx
    return basic.Concatenate(dataset_of(source), dataset_of(other))


@dataset_maker("ZipDataset")
def zip_dataset(ctx: OpKernelContext, sources: list[Value]) -> Dataset:
    """Make a dataset that zips several datasets."""
    del ctx
    return basic.Zip([dataset_of(source) for source in sources])


@dataset_maker("ShardDataset")
def shard_dataset(
    ctx: OpKernelContext, source: Value, num_shards: Value, index: Value, require_non_empty: bool
) -> Dataset:
    """Make a dataset of every `num_shards`-th element."""
    del ctx
    count, first = _count(num_shards, "num_shards"), _count(index, "index")
    return basic.Shard(dataset_of(source), count, first, requires_non_empty=require_non_empty)


@dataset_maker("BatchDataset")
def batch_dataset(ctx: OpKernelContext, source: Value, batch_size: Value) -> Dataset:
    """Make a dataset of batches."""
    del ctx
    return batch.Batch(dataset_of(source), _count(batch_size, "batch_size"), drops_remainder=False)


@dataset_maker("BatchDatasetV2")
def batch_dataset_v2(
    ctx: OpKernelContext, source: Value, batch_size: Value, drop_remainder: Value
) -> Dataset:
    """Make a dataset of batches, with or without a smaller last one."""
    del ctx
    size, drops = _count(batch_size, "batch_size"), scalar(drop_remainder, "drop_remainder")
    return batch.Batch(dataset_of(source), size, drops_remainder=bool(drops))


@dataset_maker("ParallelBatchDataset")
def parallel_batch_dataset(
    ctx: OpKernelContext,
    source: Value,
    batch_size: Value,
    num_parallel_calls: Value,
    drop_remainder: Value,
) -> Dataset:
    """Make a dataset of batches; the order does not depend on `num_parallel_calls`."""
    scalar(num_parallel_calls, "num_parallel_calls")
    dataset: Dataset = batch_dataset_v2(ctx, source, batch_size, drop_remainder)
    return dataset


@dataset_maker("PaddedBatchDataset")
def padded_batch_dataset(
    ctx: OpKernelContext,
    source: Value,
    batch_size: Value,
    padded_shapes: list[Value],
    padding_values: list[Value],
) -> Dataset:
    """Make a dataset of padded batches."""
    del ctx
    return _padded(source, batch_size, padded_shapes, padding_values, drops_remainder=False)


@dataset_maker("PaddedBatchDatasetV2")
def padded_batch_dataset_v2(
    ctx: OpKernelContext,
    source: Value,
    batch_size: Value,
    padded_shapes: list[Value],
    padding_values: list[Value],
    drop_remainder: Value,
) -> Dataset:
    """Make a dataset of padded batches, with or without a smaller last one."""
    del ctx
    drops = bool(scalar(drop_remainder, "drop_remainder"))
    return _padded(source, batch_size, padded_shapes, padding_values, drops_remainder=drops)


def _padded(
    source: Value, size: Value, shapes: list[Value], padding: list[Value], *, drops_remainder: bool
) -> Dataset:
    for shape in shapes:
        if shape.ndim != 1:
            raise InvalidArgumentError("All padded shapes must be vectors")
        if shape.size and shape.min() < -1:
            raise InvalidArgumentError(f"padded shape {shape.tolist()} has a size below -1")
    return batch.PaddedBatch(
        dataset_of(source),
        _count(size, "batch_size"),
        [to_ints(shape) for shape in shapes],
        padding,
        drops_remainder=drops_remainder,
    )


@dataset_maker("UnbatchDataset", "ExperimentalUnbatchDataset")
def unbatch_dataset(ctx: OpKernelContext, source: Value) -> Dataset:
    """Make a dataset of the rows of each batch."""
    del ctx
    return batch.Unbatch(dataset_of(source))


@dataset_maker("RebatchDatasetV2")
def rebatch_dataset_v2(
    ctx: OpKernelContext, source: Value, batch_sizes: Value, drop_remainder: Value
) -> Dataset:
    """Make a dataset of batches that are regrouped into other batch sizes."""
    del ctx
    sizes = batch_sizes.ravel().tolist()
    drops = bool(scalar(drop_remainder, "drop_remainder"))
    return batch.Rebatch(dataset_of(source), sizes, drops_remainder=drops)


@dataset_maker("WindowDataset")
def window_dataset(
    ctx: OpKernelContext,
    source: Value,
    size: Value,
    shift: Value,
    stride: Value,
    drop_remainder: Value,
    output_types: Sequence[Any],
    output_shapes: Sequence[Shape],
) -> Dataset:
    """Make a dataset of windows over the elements."""
    del ctx
    sizes = (_count(size, "size"), _count(shift, "shift"), _count(stride, "stride"))
    elements = structure(output_types, output_shapes)
    drops = bool(scalar(drop_remainder, "drop_remainder"))
    return Window(dataset_of(source), *sizes, elements, drops_remainder=drops)


@dataset_maker("AssertCardinalityDataset")
def assert_cardinality_dataset(ctx: OpKernelContext, source: Value, cardinality: Value) -> Dataset:
    """Make a dataset that fails unless it has the asserted number of elements."""
    del ctx
    return element_checks.AssertCardinality(dataset_of(source), _count(cardinality, "cardinality"))


@dataset_maker("IgnoreErrorsDataset", "ExperimentalIgnoreErrorsDataset")
def ignore_errors_dataset(ctx: OpKernelContext, source: Value, log_warning: bool) -> Dataset:
    """Make a dataset that skips elements with errors."""
    del ctx
    return element_checks.IgnoreErrors(dataset_of(source), log_warning)


@dataset_maker("UniqueDataset", "ExperimentalUniqueDataset")
def unique_dataset(ctx: OpKernelContext, source: Value) -> Dataset:
    """Make a dataset of the distinct elements."""
    del ctx
    dataset = dataset_of(source)
    if len(dataset.dtypes) != 1:
        raise InvalidArgumentError(
            f"UniqueDataset only supports inputs with a single component, got {len(dataset.dtypes)}"
        )
    if dataset.dtypes[0].kind == "h":
        raise InvalidArgumentError(
            f"UniqueDataset cannot compare elements of type {dataset.dtypes[0].name}"
        )
    return element_checks.Unique(dataset)


@dataset_maker("PrefetchDataset")
def prefetch_dataset(ctx: OpKernelContext, source: Value, buffer_size: Value) -> Dataset:
    """Make a dataset that prefetches elements."""
    del ctx
    return Prefetch(dataset_of(source), _count(buffer_size, "buffer_size"))


@dataset_maker("CacheDataset", effects=("fs.read", "fs.write"), brokered=True)
def cache_dataset(
    ctx: OpKernelContext, source: Value, filename: Value, *, broker: Broker
) -> Dataset:
    """Make a dataset that caches its elements in memory or in files."""
    return _cached(source, filename, MemoryCache(), _files(ctx, broker))


@dataset_maker("CacheDatasetV2", effects=("fs.read", "fs.write", "state"), brokered=True)
def cache_dataset_v2(
    ctx: OpKernelContext, source: Value, filename: Value, cache: Any, *, broker: Broker
) -> Dataset:
    """Make a dataset that caches its elements in a cache resource or in files."""
    resource = cache.resource if isinstance(cache, ResourceHandle) else None
    memory = resource if isinstance(resource, MemoryCache) else MemoryCache()
    return _cached(source, filename, memory, _files(ctx, broker))


def _files(ctx: OpKernelContext, broker: Broker) -> CacheFiles:
    return CacheFiles(broker, ctx.functions.host.variants)


def _cached(source: Value, filename: Value, cache: MemoryCache, files: CacheFiles) -> Dataset:
    path = as_path(decode(scalar(filename, "filename")))
    dataset = dataset_of(source)
    return FileCache(dataset, path, files) if path else Cache(dataset, cache)


@dataset_maker("ShuffleDataset", effects=("rng",))
def shuffle_dataset(
    ctx: OpKernelContext,
    source: Value,
    buffer_size: Value,
    seed: Value,
    seed2: Value,
    reshuffle_each_iteration: bool,
) -> Dataset:
    """Make a dataset of the elements in random order."""
    del ctx
    seeds = seed_generator_of(None, seed, seed2, reseeds=reshuffle_each_iteration)
    return Shuffle(dataset_of(source), _count(buffer_size, "buffer_size"), seeds)


@dataset_maker("ShuffleDatasetV2", effects=("rng", "state"))
def shuffle_dataset_v2(
    ctx: OpKernelContext, source: Value, buffer_size: Value, seed_generator: Any
) -> Dataset:
    """Make a dataset of the elements in random order, with the seeds of a generator."""
    del ctx
    seeds = seed_generator.expect(SeedGenerator)
    return Shuffle(dataset_of(source), _count(buffer_size, "buffer_size"), seeds)


@dataset_maker("ShuffleDatasetV3", effects=("rng", "state"))
def shuffle_dataset_v3(
    ctx: OpKernelContext,
    source: Value,
    buffer_size: Value,
    seed: Value,
    seed2: Value,
    seed_generator: Any,
    reshuffle_each_iteration: bool,
) -> Dataset:
    """Make a dataset of the elements in random order, with the seeds of a generator if any."""
    del ctx
    seeds = seed_generator_of(seed_generator, seed, seed2, reseeds=reshuffle_each_iteration)
    return Shuffle(dataset_of(source), _count(buffer_size, "buffer_size"), seeds)


@dataset_maker("ShuffleAndRepeatDataset", effects=("rng",))
def shuffle_and_repeat_dataset(
    ctx: OpKernelContext,
    source: Value,
    buffer_size: Value,
    seed: Value,
    seed2: Value,
    count: Value,
    reshuffle_each_iteration: bool,
) -> Dataset:
    """Make a dataset that repeats the elements, shuffled again each time."""
    del ctx
    seeds = seed_generator_of(None, seed, seed2, reseeds=reshuffle_each_iteration)
    size = _count(buffer_size, "buffer_size")
    return Shuffle(dataset_of(source), size, seeds, count=_epoch_count(count))


@dataset_maker("ShuffleAndRepeatDatasetV2", effects=("rng", "state"))
def shuffle_and_repeat_dataset_v2(
    ctx: OpKernelContext,
    source: Value,
    buffer_size: Value,
    seed: Value,
    seed2: Value,
    count: Value,
    seed_generator: Any,
    reshuffle_each_iteration: bool,
) -> Dataset:
    """Make a dataset that repeats the elements, shuffled again each time."""
    del ctx
    seeds = seed_generator_of(seed_generator, seed, seed2, reseeds=reshuffle_each_iteration)
    size = _count(buffer_size, "buffer_size")
    return Shuffle(dataset_of(source), size, seeds, count=_epoch_count(count))


def _epoch_count(count: Value) -> int:
    epochs = _count(count)
    if epochs < 1 and epochs != -1:
        raise InvalidArgumentError("count must be greater than zero or equal to -1.")
    return epochs
