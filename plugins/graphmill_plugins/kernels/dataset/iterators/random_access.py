"""Kernels that look up elements of datasets by index."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.dtypes import as_dtype
from graphmill.errors import InvalidArgumentError
from graphmill_plugins.kernels.dataset.iterators.consume import ConsumingKernel
from graphmill_plugins.kernels.dataset.iterators.ops import element_error
from graphmill_plugins.kernels.dataset.pipeline.dataset import (
    CapturedFunction,
    Scope,
    dataset_kernel,
    dataset_maker,
    dataset_of,
    scalar,
    structure,
)
from graphmill_plugins.kernels.dataset.pipeline.indexed import (
    GlobalShuffle,
    IndexFlatMap,
    WeightedFlatMap,
)
from graphmill_plugins.kernels.dataset.sources import seed_generator_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.spi import OpKernelContext, Shape, Value
    from graphmill_plugins.kernels.dataset.pipeline.dataset import Dataset


@dataset_kernel("GetElementAtIndex", async_=True, waits=False)
class GetElementAtIndexKernel(ConsumingKernel):
    """Return the element of a dataset at an index."""

    def result(self, ctx: OpKernelContext, *inputs: Any) -> Any:
        """Return the components of the element."""
        dataset, index = inputs
        scope = Scope(ctx)
        try:
            element = dataset_of(dataset).at(int(scalar(index, "index")), scope)
        finally:
            scope.close()
        error = element_error(element, *self.expected)
        if error is not None:
            raise error
        return list(element)


@dataset_maker("GlobalShuffleDataset", effects=("rng", "state"))
def global_shuffle_dataset(
    ctx: OpKernelContext,
    source: Value,
    seed: Value,
    seed2: Value,
    seed_generator: Any,
    reshuffle_each_iteration: bool,
) -> Dataset:
    """Make a dataset of all elements in random order, without a buffer."""
    del ctx
    seeds = seed_generator_of(seed_generator, seed, seed2, reseeds=reshuffle_each_iteration)
    return GlobalShuffle(dataset_of(source), seeds)


@dataset_maker("IndexFlatMapDataset")
def index_flat_map_dataset(
    ctx: OpKernelContext,
    source: Value,
    map_captured: list[Value],
    index_map_captured: list[Value],
    output_cardinality: Value,
    map_func: Any,
    index_map_func: Any,
    output_types: Sequence[Any],
    output_shapes: Sequence[Shape],
) -> Dataset:
    """Make a dataset of rows of mapped elements, which a function of the index chooses."""
    return IndexFlatMap(
        dataset_of(source),
        CapturedFunction(ctx, map_func, map_captured),
        CapturedFunction(ctx, index_map_func, index_map_captured),
        int(scalar(output_cardinality, "output_cardinality")),
        structure(output_types, output_shapes),
    )


@dataset_maker("WeightedFlatMapDataset")
def weighted_flat_map_dataset(
    ctx: OpKernelContext,
    sources: list[Value],
    weights: list[Value],
    output_types: Sequence[Any],
    output_shapes: Sequence[Shape],
) -> Dataset:
    """Make a dataset that takes elements of several datasets according to weights."""
    del ctx
    datasets = [dataset_of(source) for source in sources]
    numbers = [float(scalar(weight, "weight")) for weight in weights]
    _check_weighted(datasets, numbers, [as_dtype(dtype) for dtype in output_types])
    return WeightedFlatMap(datasets, numbers, structure(output_types, output_shapes))


def _check_weighted(
    datasets: Sequence[Dataset], weights: Sequence[float], types: Sequence[Any]
) -> None:
    if len(datasets) != len(weights):
        raise InvalidArgumentError(
            f"there are {len(datasets)} input datasets and {len(weights)} weights; pass one each"
        )
    for index, (dataset, weight) in enumerate(zip(datasets, weights, strict=True)):
        if not weight > 0:
            raise InvalidArgumentError(f"weight {index} must be greater than zero, got {weight}")
        if list(dataset.dtypes) != types:
            raise InvalidArgumentError(
                f"input {index} of WeightedFlatMapDataset and the output differ in element types"
            )
        if dataset.cardinality <= 0:
            raise InvalidArgumentError(
                f"input {index} of WeightedFlatMapDataset must have a non-empty finite "
                f"cardinality, got {dataset.cardinality}"
            )
