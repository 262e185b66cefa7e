"""Kernels of datasets that regroup elements: sliding windows, sparse and smaller batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.errors import InvalidArgumentError
from graphmill_plugins.kernels._support import to_ints
from graphmill_plugins.kernels.dataset.pipeline import regroup
from graphmill_plugins.kernels.dataset.pipeline.dataset import dataset_maker, dataset_of, scalar

if TYPE_CHECKING:
    from graphmill.spi import OpKernelContext, Value
    from graphmill_plugins.kernels.dataset.pipeline.dataset import Dataset


@dataset_maker("SlidingWindowDataset", "ExperimentalSlidingWindowDataset")
def sliding_window_dataset(
    ctx: OpKernelContext,
    source: Value,
    window_size: Value,
    window_shift: Value,
    window_stride: Value,
    drop_remainder: bool = True,
) -> Dataset:
    """Make a dataset of batches of the elements in a moving window."""
    del ctx
    return regroup.SlidingWindow(
        dataset_of(source),
        int(scalar(window_size, "window_size")),
        int(scalar(window_shift, "window_shift")),
        int(scalar(window_stride, "window_stride")),
        drops_remainder=drop_remainder,
    )


@dataset_maker("DenseToSparseBatchDataset", "ExperimentalDenseToSparseBatchDataset")
def dense_to_sparse_batch_dataset(
    ctx: OpKernelContext, source: Value, batch_size: Value, row_shape: Value
) -> Dataset:
    """Make a dataset of sparse batches."""
    del ctx
    if row_shape.ndim != 1:
        raise InvalidArgumentError(f"row_shape must be a vector, got {list(row_shape.shape)}")
    sizes = to_ints(row_shape)
    if any(size < -1 for size in sizes):
        raise InvalidArgumentError(f"row_shape {list(sizes)} has a size below -1")
    size = int(scalar(batch_size, "batch_size"))
    return regroup.SparseBatch(dataset_of(source), size, sizes)


@dataset_maker("RebatchDataset", "ExperimentalRebatchDataset")
def rebatch_dataset(ctx: OpKernelContext, source: Value, num_replicas: Value) -> Dataset:
    """Make a dataset of batches that are split into one for each replica."""
    del ctx
    return regroup.SplitBatches(dataset_of(source), int(scalar(num_replicas, "num_replicas")))
