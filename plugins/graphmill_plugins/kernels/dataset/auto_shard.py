"""Kernel of datasets that are divided among workers.

Semantics: tensorflow/core/kernels/data/experimental/auto_shard_dataset_op.cc and
grappler/optimizers/data/auto_shard.cc, where elements are sharded. TensorFlow may also shard the
files that a pipeline reads, by rewriting its graph.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from graphmill.errors import InvalidArgumentError, UnimplementedError
from graphmill_plugins.kernels.dataset.pipeline.basic import Shard
from graphmill_plugins.kernels.dataset.pipeline.dataset import dataset_maker, dataset_of, scalar
from graphmill_plugins.kernels.dataset.pipeline.files.csv import CsvRecords
from graphmill_plugins.kernels.dataset.pipeline.files.records import Records
from graphmill_plugins.kernels.dataset.pipeline.function_datasets import Interleave

if TYPE_CHECKING:
    from graphmill.spi import OpKernelContext, Value
    from graphmill_plugins.kernels.dataset.pipeline.dataset import Dataset

_OFF: Final = -1
_AUTO: Final = 0
_DATA: Final = 2


@dataset_maker("AutoShardDataset", "ExperimentalAutoShardDataset")
def auto_shard_dataset(
    ctx: OpKernelContext, source: Value, num_workers: Value, index: Value, auto_shard_policy: int
) -> Dataset:
    """Make a dataset of the elements of one worker.

    Raises:
        InvalidArgumentError: the number of workers or the index is out of range.
        UnimplementedError: the policy shards files, or pipelines that may read files.
    """
    del ctx
    workers, worker = int(scalar(num_workers, "num_workers")), int(scalar(index, "index"))
    if workers <= 0:
        raise InvalidArgumentError(f"num_workers must be greater than zero, got {workers}")
    if not 0 <= worker < workers:
        raise InvalidArgumentError(f"index must be between 0 and {workers - 1}, got {worker}")
    dataset = dataset_of(source)
    if workers == 1 or auto_shard_policy == _OFF:
        return dataset
    if auto_shard_policy == _DATA or (auto_shard_policy == _AUTO and not _may_read_files(dataset)):
        return Shard(dataset, workers, worker)
    raise UnimplementedError(
        f"auto_shard_policy {auto_shard_policy} shards files or hints, which is not supported; "
        f"use {_DATA} (DATA) or {_OFF} (OFF)"
    )


def _may_read_files(dataset: Dataset) -> bool:
    """Return whether a dataset of files is in the pipeline, or may be in one of its functions."""
    if isinstance(dataset, (Records, CsvRecords, Interleave)):
        return True
    return any(map(_may_read_files, dataset.inputs))
