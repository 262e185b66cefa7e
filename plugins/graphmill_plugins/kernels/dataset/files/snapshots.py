"""Kernels of snapshots of datasets.

Semantics: tensorflow/core/kernels/data/experimental/{snapshot_dataset_op,list_snapshot_chunks_
dataset_op,snapshot_chunk_dataset_op}.cc and core/data/snapshot_utils.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from graphmill_plugins.kernels._path_strings import scalar_path
from graphmill_plugins.kernels.dataset._graph_of_dataset import fingerprint
from graphmill_plugins.kernels.dataset.pipeline.dataset import (
    CapturedFunction,
    dataset_maker,
    dataset_of,
    scalar,
    structure,
)
from graphmill_plugins.kernels.dataset.pipeline.files.saved import Nested, ShardElements
from graphmill_plugins.kernels.dataset.pipeline.files.snapshot import Chunk, Chunks, Snapshot
from graphmill_plugins.kernels.dataset.pipeline.files.snapshot_files import SNAPPY, prefixed
from graphmill_plugins.kernels.dataset.pipeline.files.snapshot_v1 import SnapshotOptions, SnapshotV1

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.spi import OpKernelContext, Shape, Value
    from graphmill.spi.files import Broker
    from graphmill_plugins.kernels.dataset.pipeline.dataset import Dataset

    Types = Sequence[Any]
    Shapes = Sequence[Shape]

_AUTO: Final = "AUTO"
"""The compression that leaves the choice to the kernel."""


@dataset_maker("SnapshotDataset", effects=("fs.read", "fs.write"), brokered=True)
def snapshot_dataset(
    ctx: OpKernelContext,
    source: Value,
    path: Value,
    compression: str,
    reader_path_prefix: str,
    writer_path_prefix: str,
    shard_size_bytes: int,
    pending_snapshot_expiry_seconds: int,
    shuffle_on_read: bool,
    seed: int,
    seed2: int,
    mode: str,
    snapshot_name: str,
    *,
    broker: Broker,
) -> Dataset:
    """Make a dataset that writes its elements to files, or reads them, as its mode says.

    One thread reads and writes, so the numbers of threads and the sizes of buffers have no effect.
    """
    dataset = dataset_of(source)
    options = SnapshotOptions(
        compression,
        reader_path_prefix,
        writer_path_prefix,
        shard_size_bytes,
        pending_snapshot_expiry_seconds,
        shuffle_on_read,
        seed << 32 | (seed2 % (1 << 32)) if seed or seed2 else None,
        mode,
        snapshot_name,
    )
    graph_hash = fingerprint(dataset, functions=ctx.functions)
    return SnapshotV1(dataset, scalar_path(path, "path"), graph_hash, options, broker)


@dataset_maker("SnapshotDatasetV2", effects=("fs.read", "fs.write"), brokered=True)
def snapshot_dataset_v2(
    ctx: OpKernelContext,
    source: Value,
    path: Value,
    reader_captured: list[Value],
    shard_captured: list[Value],
    compression: str,
    reader_prefix: str,
    hash_valid: bool,
    hash: int,  # noqa: A002 - the name of the op's attr
    reader_func: Any,
    shard_func: Any,
    *,
    broker: Broker,
) -> Dataset:
    """Make a dataset that writes its elements to files in the first iteration, then reads them."""
    dataset = dataset_of(source)
    known = hash % (1 << 64)
    graph_hash = known if hash_valid else fingerprint(dataset, functions=ctx.functions)
    folder = scalar_path(path, "path")
    return Snapshot(
        dataset,
        prefixed(reader_prefix, folder),
        graph_hash,
        SNAPPY if compression == _AUTO else compression,
        CapturedFunction(ctx, shard_func, shard_captured),
        CapturedFunction(ctx, reader_func, reader_captured),
        broker,
    )


@dataset_maker("SnapshotDatasetReader", effects=("fs.read",), brokered=True)
def snapshot_dataset_reader(
    ctx: OpKernelContext,
    shard_dir: Value,
    start_index: Value,
    output_types: Types,
    output_shapes: Shapes,
    compression: str,
    version: int,
    *,
    broker: Broker,
) -> Dataset:
    """Make a dataset of the elements of a shard."""
    del ctx
    start = int(scalar(start_index, "start_index"))
    elements = structure(output_types, output_shapes)
    folder = scalar_path(shard_dir, "shard_dir")
    return ShardElements(folder, compression, elements, version, broker, start)


@dataset_maker("SnapshotNestedDatasetReader", effects=("fs.read",), brokered=True)
def snapshot_nested_dataset_reader(
    ctx: OpKernelContext, inputs: list[Value], output_types: Types, output_shapes: Shapes
) -> Dataset:
    """Make a dataset of datasets."""
    del ctx
    datasets = [(dataset_of(value),) for value in inputs]
    return Nested(datasets, *structure(output_types, output_shapes))


@dataset_maker("SnapshotChunkDataset", effects=("fs.read",), brokered=True)
def snapshot_chunk_dataset(
    ctx: OpKernelContext,
    chunk_file: Value,
    output_types: Types,
    output_shapes: Shapes,
    compression: str,
    *,
    broker: Broker,
) -> Dataset:
    """Make a dataset of the elements of one file."""
    del ctx
    elements = structure(output_types, output_shapes)
    return Chunk(scalar_path(chunk_file, "chunk_file"), compression, elements, broker)


@dataset_maker("ListSnapshotChunksDataset", effects=("fs.read",), brokered=True)
def list_snapshot_chunks_dataset(
    ctx: OpKernelContext, snapshot_path: Value, *, broker: Broker
) -> Dataset:
    """Make a dataset of the paths of the files of a snapshot."""
    del ctx
    return Chunks(scalar_path(snapshot_path, "snapshot_path"), broker)
