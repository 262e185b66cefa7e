"""Kernels of datasets that choose the fastest of several inputs."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from graphmill.errors import InvalidArgumentError
from graphmill_plugins.kernels.dataset.pipeline.choose_fastest import ChooseFastest
from graphmill_plugins.kernels.dataset.pipeline.choose_fastest_branch import ChooseFastestBranch
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


@dataset_maker("ChooseFastestDataset", "ExperimentalChooseFastestDataset")
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


@dataset_maker("ChooseFastestBranchDataset")
def choose_fastest_branch_dataset(
    ctx: OpKernelContext,
    source: Value,
    ratio_numerator: Value,
    ratio_denominator: Value,
    captured: list[Value],
    num_elements_per_branch: int,
    branches: Sequence[Any],
    other_arguments_lengths: Sequence[int],
    output_types: Sequence[Any],
    output_shapes: Sequence[Shape],
) -> Dataset:
    """Make a dataset of the elements that the fastest of several functions returns.

    Raises:
        InvalidArgumentError: the lengths of the captured values do not match the branches.
    """
    if len(branches) != len(other_arguments_lengths) or sum(other_arguments_lengths) != len(
        captured
    ):
        raise InvalidArgumentError(
            "branches and other_arguments_lengths must have the same length, and the lengths must "
            f"add up to {len(captured)}; got {len(branches)} branches and the lengths "
            f"{list(other_arguments_lengths)}"
        )
    values = iter(captured)
    functions = [
        CapturedFunction(ctx, branch, list(islice(values, count)))
        for branch, count in zip(branches, other_arguments_lengths, strict=True)
    ]
    numerator = int(scalar(ratio_numerator, "ratio_numerator"))
    ratio = (numerator, int(scalar(ratio_denominator, "ratio_denominator")))
    elements = structure(output_types, output_shapes)
    return ChooseFastestBranch(
        dataset_of(source), functions, num_elements_per_branch, ratio, elements
    )
