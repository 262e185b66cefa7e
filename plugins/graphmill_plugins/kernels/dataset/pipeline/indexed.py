"""GlobalShuffle, IndexFlatMap and WeightedFlatMap datasets.

Semantics: tensorflow/core/kernels/data/experimental/{global_shuffle,index_flat_map,
weighted_flat_map}_dataset_op.cc.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING, Final

import numpy as np

from graphmill.errors import FailedPreconditionError, InvalidArgumentError
from graphmill.spi.kernels import check_cancelled, shape_of_value
from graphmill_plugins.kernels.dataset.pipeline.dataset import Dataset, Derived, ElementIterator
from graphmill_plugins.kernels.random._index_shuffle import shuffled_range
from graphmill_plugins.kernels.unstack import row

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from graphmill.dtypes import DType
    from graphmill.spi import Shape
    from graphmill_plugins.kernels.dataset.pipeline.dataset import (
        CapturedFunction,
        Element,
        Elements,
        Scope,
    )
    from graphmill_plugins.kernels.dataset.pipeline.shuffle import SeedGenerator

_ROUNDS: Final = 8
_WORD: Final = (1 << 32) - 1
_SHUFFLED_TOGETHER: Final = 1024


class GlobalShuffle(Derived):
    """All elements in random order, looked up one by one.

    Raises:
        FailedPreconditionError: elements of an input cannot be looked up.
        InvalidArgumentError: the input is empty, or its cardinality is unknown or infinite.
    """

    def __init__(self, source: Dataset, seeds: SeedGenerator) -> None:
        if not source.is_indexable:
            raise FailedPreconditionError(
                "`global_shuffle` requires all upstream transformations be compatible with random "
                f"access, {source!r} or one of its inputs is not"
            )
        if source.cardinality <= 0:
            raise InvalidArgumentError(
                "`global_shuffle` requires the input dataset to have a non-empty finite "
                f"cardinality. Got cardinality {source.cardinality} for dataset {source!r}"
            )
        super().__init__(source)
        self._seeds = seeds

    @property
    def cardinality(self) -> int:
        """The cardinality of the input."""
        return self.source.cardinality

    def iterate(self, scope: Scope) -> Elements:
        """Return an iterator over the elements."""
        first, second = self._seeds.next_seeds(scope)
        third, _ = self._seeds.next_seeds(scope)
        key = (first & _WORD, second & _WORD, third & _WORD)
        return _Permuted(self.source, key, scope)


class _Permuted(ElementIterator):
    def __init__(self, source: Dataset, key: tuple[int, int, int], scope: Scope) -> None:
        self._source, self._key, self._scope = source, key, scope
        self._next, self._count = 0, source.cardinality
        self._indices: Iterator[int] = iter(())

    def __next__(self) -> Element:
        check_cancelled()
        index = next(self._indices, None)
        if index is None:
            if self._next >= self._count:
                raise StopIteration
            self._indices = iter(self._shuffled())
            index = next(self._indices)
        return self._source.at(index, self._scope)

    def _shuffled(self) -> list[int]:
        """Return the positions of the next elements; computing many at once is faster."""
        start, self._next = self._next, min(self._next + _SHUFFLED_TOGETHER, self._count)
        return shuffled_range(range(start, self._next), self._key, self._count - 1, _ROUNDS)


class WeightedFlatMap(Dataset):
    """The first elements of several datasets, one dataset after the other.

    The numbers of elements taken are in the proportion of the weights, and as large as the shortest
    dataset, relative to its weight, allows.

    Raises:
        InvalidArgumentError: a dataset has fewer elements than its weight asks for.
    """

    def __init__(
        self,
        inputs: Sequence[Dataset],
        weights: Sequence[float],
        structure: tuple[Sequence[DType], Sequence[Shape]],
    ) -> None:
        super().__init__(*structure, inputs)
        counts = _weighted_counts([source.cardinality for source in inputs], weights)
        self._ends = list(accumulate(counts))

    @property
    def cardinality(self) -> int:
        """The total number of elements taken from the inputs."""
        return self._ends[-1]

    def iterate(self, scope: Scope) -> Elements:
        """Return an iterator over the elements."""
        return _Concatenated([source.iterate(scope) for source in self.inputs], self._ends)


def _weighted_counts(counts: Sequence[int], weights: Sequence[float]) -> list[int]:
    largest = max(weights)
    scaled = [count * weight / largest for count, weight in zip(counts, weights, strict=True)]
    smallest = min(scaled)
    unit = weights[scaled.index(smallest)]
    needed_counts = [int(smallest * weight / unit) for weight in weights]
    for index, (needed, count) in enumerate(zip(needed_counts, counts, strict=True)):
        if needed > count:
            raise InvalidArgumentError(
                f"Input {index} needs to have at least {needed} elements. It only has {count} "
                "elements."
            )
    return needed_counts


class _Concatenated(ElementIterator):
    def __init__(self, sources: list[Elements], ends: list[int]) -> None:
        self._sources, self._ends = sources, ends
        self._next = 0

    def __next__(self) -> Element:
        if self._next >= self._ends[-1]:
            raise StopIteration
        element = next(self._sources[bisect_right(self._ends, self._next)])
        self._next += 1
        return element


class IndexFlatMap(Dataset):
    """Rows of the results of a function, chosen by another function.

    Args:
        function: maps an element to tensors.
        index_function: maps an index to the index of an element, and a row of its results.
        count: the cardinality.
    """

    waits = True
    is_indexed = True

    def __init__(
        self,
        source: Dataset,
        function: CapturedFunction,
        index_function: CapturedFunction,
        count: int,
        structure: tuple[Sequence[DType], Sequence[Shape]],
    ) -> None:
        super().__init__(*structure, (source,))
        self.function, self._index_function, self._count = function, index_function, count

    @property
    def cardinality(self) -> int:
        """The number of elements, as given to the dataset."""
        return self._count

    def iterate(self, scope: Scope) -> Elements:
        """Return an iterator over the elements."""
        return _FlatMapping(self, self.source.iterate(scope), scope)

    def lookup(self, index: int, scope: Scope) -> Element:
        """Return the element at an index."""
        place, offset = self.place(index, scope)
        results = tuple(scope.call(self.function, self.source.at(place, scope)))
        return self.rows(results, offset)

    def place(self, index: int, scope: Scope) -> tuple[int, int]:
        """Return the index of an element of the input, and of a row of its results.

        Raises:
            InvalidArgumentError: the function returns something else than two integers.
        """
        results = scope.call(self._index_function, (np.int64(index),))
        if len(results) != 2 or any(
            value.ndim or value.dtype.kind not in "iu" for value in results
        ):
            raise InvalidArgumentError(
                "The `index_map_fn` for `index_flat_map` is expected to return two int values "
                "representing the element index and an offset within the element, got "
                f"{len(results)} values: {results}"
            )
        return int(results[0]), int(results[1])

    def rows(self, results: Element, offset: int) -> Element:
        """Return a row of each tensor; of a scalar, the scalar.

        Raises:
            InvalidArgumentError: there is no such row.
        """
        values = []
        for value, dtype in zip(results, self.dtypes, strict=True):
            shape = shape_of_value(value, dtype)
            if shape and not 0 <= offset < shape[0]:
                raise InvalidArgumentError(
                    f"the offset {offset} of `index_map_fn` is out of range for a tensor of "
                    f"{shape[0]} rows"
                )
            values.append(row(value, offset, dtype) if shape else value)
        return tuple(values)


class _FlatMapping(ElementIterator):
    def __init__(self, dataset: IndexFlatMap, source: Elements, scope: Scope) -> None:
        self._dataset, self._source, self._scope = dataset, source, scope
        self._next = self._place = 0
        self._results: Element | None = None

    def __next__(self) -> Element:
        dataset = self._dataset
        place, offset = dataset.place(self._next, self._scope)
        if self._results is None or place > self._place:
            self._results = None
            element = next(self._source)
            self._results = tuple(self._scope.call(dataset.function, element))
            self._place = place
        self._next += 1
        return dataset.rows(self._results, offset)
