"""Kernel of datasets of randomly chosen elements."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill_plugins.kernels.dataset.pipeline.dataset import dataset_maker, dataset_of, scalar
from graphmill_plugins.kernels.dataset.pipeline.shuffle import Sample

if TYPE_CHECKING:
    from graphmill.spi import OpKernelContext, Value
    from graphmill_plugins.kernels.dataset.pipeline.dataset import Dataset


@dataset_maker("SamplingDataset", effects=("rng",))
def sampling_dataset(
    ctx: OpKernelContext, source: Value, rate: Value, seed: Value, seed2: Value
) -> Dataset:
    """Make a dataset of elements that are chosen at random, each with probability `rate`."""
    del ctx
    seeds = (int(scalar(seed, "seed")), int(scalar(seed2, "seed2")))
    return Sample(dataset_of(source), float(scalar(rate, "rate")), seeds)
