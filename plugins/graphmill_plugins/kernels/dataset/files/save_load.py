"""Kernels that save datasets to files and load them.

Semantics: tensorflow/core/kernels/data/experimental/{save_dataset_op,load_dataset_op}.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill_plugins.kernels._path_strings import scalar_path
from graphmill_plugins.kernels.dataset.iterators.consume import ConsumingKernel, Iteration
from graphmill_plugins.kernels.dataset.pipeline.dataset import (
    CapturedFunction,
    dataset_kernel,
    dataset_maker,
    dataset_of,
    structure,
)
from graphmill_plugins.kernels.dataset.pipeline.files.saved import Load, Save

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.spi import OpKernelConstruction, OpKernelContext, Shape, Value
    from graphmill.spi.files import Broker
    from graphmill_plugins.kernels.dataset.pipeline.dataset import Dataset


@dataset_kernel("SaveDataset", async_=True, effects=("fs.write",), brokered=True)
class SaveDatasetKernel(ConsumingKernel):
    """Write all elements of a dataset to files."""

    def __init__(self, construction: OpKernelConstruction) -> None:
        super().__init__(construction)
        self._broker = construction.broker
        self._compression = construction.attr("compression")
        self._shards = construction.attr("use_shard_func")
        self._shard_function = construction.attrs["shard_func"]

    def result(self, ctx: OpKernelContext, *inputs: Any) -> None:
        """Write the files."""
        source, path, captured = inputs
        chosen = CapturedFunction(ctx, self._shard_function, captured) if self._shards else None
        folder = scalar_path(path, "path")
        saved = Save(dataset_of(source), folder, self._compression, chosen, self._broker)
        with Iteration(ctx, saved) as iteration:
            while iteration.next() is not None:
                pass


@dataset_maker("SaveDatasetV2", effects=("fs.write",), brokered=True)
def save_dataset_v2(
    ctx: OpKernelContext,
    source: Value,
    path: Value,
    captured: list[Value],
    compression: str,
    shard_func: Any,
    use_shard_func: bool,
    *,
    broker: Broker,
) -> Dataset:
    """Make a dataset of the same elements that writes them to files."""
    chosen = CapturedFunction(ctx, shard_func, captured) if use_shard_func else None
    return Save(dataset_of(source), scalar_path(path, "path"), compression, chosen, broker)


@dataset_maker("LoadDataset", effects=("fs.read",), brokered=True)
def load_dataset(
    ctx: OpKernelContext,
    path: Value,
    captured: list[Value],
    compression: str,
    reader_func: Any,
    output_types: Sequence[Any],
    output_shapes: Sequence[Shape],
    *,
    broker: Broker,
) -> Dataset:
    """Make a dataset of saved elements."""
    reader = CapturedFunction(ctx, reader_func, captured)
    elements = structure(output_types, output_shapes)
    return Load(scalar_path(path, "path"), compression, reader, elements, broker)
