"""Kernels of datasets that choose the fastest of several inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill_plugins.kernels.dataset.pipeline.choose_fastest import ChooseFastest
from graphmill_plugins.kernels.dataset.pipeline.dataset import dataset_kernel, dataset_of, structure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.spi import OpKernelContext, Shape, Value
    from graphmill_plugins.kernels.dataset.pipeline.dataset import Dataset


@dataset_kernel("ChooseFastestDataset", "ExperimentalChooseFastestDataset")
def choose_fastest_dataset(
    ctx: OpKernelContext,
    sources: list[Value],
    num_experiments: int,
    output_types: Sequence[Any],
    output_shapes: Sequence[Shape],
) -> Dataset:
    """Make a dataset of the elements of the fastest of several equal datasets."""
    del ctx
    datasets = [dataset_of(source) for source in sources]
    return ChooseFastest(datasets, num_experiments, structure(output_types, output_shapes))
