"""Datasets of random numbers, counters, and datasets that choose elements among others.

Semantics: tensorflow/python/data/ops/{random,counter,sample_from_datasets,choose_from_datasets,
directed_interleave}_op.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.data.components import Component, scalar
from graphmill.data.dataset import Dataset, dataset_leaves
from graphmill.data.element_spec import (
    TensorSpec,
    check_same_structure,
    most_general,
    output_attrs,
)
from graphmill.data.steps import seeds_of
from graphmill.errors import InvalidValueError
from graphmill.functions import expand_dims
from graphmill.ops import dataset as ops
from graphmill.ops import math, random

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.graph.builder import Graph
    from graphmill.graph.tensor import Tensor

_NUMBER = TensorSpec([], "int64")


def random_numbers(seed: int | None, rerandomizes: bool) -> Dataset:
    """Return a dataset of random numbers; see `Dataset.random`."""
    seeds = [scalar(part, "int64", "random: seed") for part in seeds_of(seed)]
    attrs = output_attrs(_NUMBER)

    def build(graph: Graph, inputs: list[Tensor]) -> Tensor:
        del inputs
        one, other = (part.add_to(graph) for part in seeds)
        if not rerandomizes:
            return ops.random_dataset(one, other, **attrs)
        generator = ops.dummy_seed_generator()
        return ops.random_dataset_v2(
            one, other, generator, rerandomize_each_iteration=True, **attrs
        )

    return Dataset(build, _NUMBER, components=seeds)


def counter(start: Any, step: Any, dtype: Any, name: str | None) -> Dataset:
    """Return an infinite dataset of numbers; see `Dataset.counter`."""
    first = scalar(start, dtype, "counter: start")
    distance = scalar(step, dtype, "counter: step")
    if first.value is None or distance.value is None:
        raise InvalidValueError("counter: start and step must be numbers, not tensors of a graph")
    forever = Dataset.from_tensors(0, name).repeat()
    return forever.scan(first.value, lambda state, _: (state + distance.value, state))


def sampled(
    datasets: Sequence[Dataset],
    weights: Any,
    seed: int | None,
    stops: bool,
    rerandomizes: bool,
) -> Dataset:
    """Choose each element's dataset at random; see `Dataset.sample_from_datasets`."""
    sources = _several(datasets, "sample_from_datasets")
    if not isinstance(weights, Dataset):
        sources, row = _weighted(sources, weights)
        if len(sources) == 1:
            return sources[0]
        # A tensor of a graph reaches the function as an element.
        weights = Dataset.from_tensors(row).repeat()
    seeds = random_numbers(seed, rerandomizes).batch(2)
    choices = Dataset.zip((weights, seeds)).map(_drawn)
    return _directed(choices, sources, stops, "sample_from_datasets")


def chosen(datasets: Sequence[Dataset], choices: Any, stops: bool) -> Dataset:
    """Take each element from the dataset at a chosen index; see `Dataset.choose_from_datasets`."""
    sources = _several(datasets, "choose_from_datasets")
    if not isinstance(choices, Dataset):
        raise InvalidValueError(
            "choose_from_datasets: `choice_dataset` must be a Dataset, got "
            f"{type(choices).__name__}; use Dataset.from_tensor_slices for numbers"
        )
    spec = choices.element_spec
    if not isinstance(spec, TensorSpec) or not spec.is_compatible_with(_NUMBER):
        raise InvalidValueError(
            f"choose_from_datasets: elements of `choice_dataset` must be scalars, int64, not {spec}"
        )
    return _directed(choices, sources, stops, "choose_from_datasets")


def _several(datasets: Sequence[Dataset], what: str) -> list[Dataset]:
    return dataset_leaves(tuple(datasets), what)[0]


def _directed(choices: Dataset, sources: list[Dataset], stops: bool, what: str) -> Dataset:
    """Return the dataset that takes each element from the dataset at a position."""
    spec = sources[0].element_spec
    for position, source in enumerate(sources[1:], 1):
        found = f"{what}: the element of dataset {position}"
        check_same_structure(spec, source.element_spec, found, "the element of dataset 0")
        spec = most_general(spec, source.element_spec)

    def build(graph: Graph, inputs: list[Tensor]) -> Tensor:
        del graph
        attrs = {"stop_on_empty_dataset": stops, **output_attrs(spec)}
        return ops.directed_interleave_dataset(inputs[0], inputs[1:], **attrs)

    return Dataset(build, spec, [choices, *sources])


def _weighted(sources: list[Dataset], weights: Any) -> tuple[list[Dataset], Any]:
    """Return datasets that may be chosen, and the weight of each."""
    if weights is None:
        return sources, np.ones(len(sources), np.float32)
    row = Component(weights)
    if row.dtype.name not in ("float32", "float64"):
        raise InvalidValueError(
            f"sample_from_datasets: weights must be float32 or float64, not {row.dtype.name}"
        )
    if row.shape not in (None, [None], [len(sources)]):
        raise InvalidValueError(
            f"sample_from_datasets: weights of shape {row.shape} for {len(sources)} datasets; pass "
            "one number for each"
        )
    if row.value is None:
        return sources, weights
    is_positive = row.value > 0
    kept = [source for source, keep in zip(sources, is_positive, strict=True) if keep]
    return kept or [sources[0].take(0)], row.value[is_positive]


def _drawn(weights: Tensor, seed: Tensor) -> Tensor:
    """Return a position, drawn with a pair of seeds."""
    logits = expand_dims(math.log(weights), 0)
    return random.stateless_multinomial(logits, 1, seed)[0, 0]
