"""ChooseFastestBranch dataset: the fastest of several functions of the input.

Semantics: tensorflow/core/kernels/data/experimental/choose_fastest_branch_dataset_op.cc.
"""

from __future__ import annotations

import time
from itertools import islice
from typing import TYPE_CHECKING

from graphmill.errors import InvalidArgumentError
from graphmill_plugins.kernels.dataset.pipeline.dataset import (
    CapturedFunction,
    Dataset,
    Derived,
    ElementIterator,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.dtypes import DType
    from graphmill.spi import Shape
    from graphmill_plugins.kernels.dataset.pipeline.dataset import Element, Elements, Scope


class ChooseFastestBranch(Dataset):
    """The elements that the fastest branch computes from the input; all branches must agree.

    Each branch in turn makes some elements while it is timed. Then the fastest makes all others.

    Args:
        source: the input.
        branches: functions from a dataset to a dataset.
        num_per_branch: the number of elements that each branch makes at first.
        ratio: the number of input elements that a branch needs for a number of elements.
        structure: element types and shapes.

    Raises:
        InvalidArgumentError: a number is not positive, or the number of elements of the input that
            a branch needs at first is not whole.
    """

    waits = True

    def __init__(
        self,
        source: Dataset,
        branches: Sequence[CapturedFunction],
        num_per_branch: int,
        ratio: tuple[int, int],
        structure: tuple[Sequence[DType], Sequence[Shape]],
    ) -> None:
        super().__init__(*structure, (source,))
        numerator, denominator = ratio
        if numerator <= 0 or denominator <= 0:
            raise InvalidArgumentError(
                "`ratio_numerator` and `ratio_denominator` must be greater than zero, got "
                f"{numerator} and {denominator}"
            )
        if num_per_branch % denominator:
            raise InvalidArgumentError(
                "`num_elements_per_branch` must be divisible by `ratio_denominator`, got "
                f"{num_per_branch} and {denominator}"
            )
        self.branches, self.num_per_branch = branches, num_per_branch
        self._ratio = ratio

    @property
    def num_inputs_per_branch(self) -> int:
        """The number of input elements with which each branch is measured."""
        numerator, denominator = self._ratio
        return self.num_per_branch * numerator // denominator

    @property
    def cardinality(self) -> int:
        """The cardinality of the input times the ratio, as in TensorFlow."""
        count = self.source.cardinality
        numerator, denominator = self._ratio
        return count if count < 0 else count * numerator // denominator

    def iterate(self, scope: Scope) -> Elements:
        """Return an iterator over the elements."""
        return _Branching(self, scope)


class _Part(Derived):
    """The next elements of an iterator over the input, up to a number of them."""

    waits = True

    def __init__(self, source: Dataset, elements: Elements, limit: int | None) -> None:
        super().__init__(source)
        self._elements, self._most = elements, limit

    def iterate(self, scope: Scope) -> Elements:
        """Return an iterator over the elements."""
        del scope
        return islice(self._elements, self._most)


class _Branching(ElementIterator):
    def __init__(self, dataset: ChooseFastestBranch, scope: Scope) -> None:
        self._dataset, self._scope = dataset, scope
        self._source = dataset.source.iterate(scope)
        self._seconds: list[float] = []
        self._num_taken = 0
        self._current: Elements | None = None
        self._is_chosen = False

    def __next__(self) -> Element:
        if self._num_taken == self._dataset.num_per_branch and not self._is_chosen:
            self._current, self._num_taken = None, 0
        if self._current is None:
            self._current = self._next_branch()
        start = time.perf_counter()
        element = next(self._current)
        if not self._is_chosen:
            self._seconds[-1] += time.perf_counter() - start
            self._num_taken += 1
        return element

    def _next_branch(self) -> Elements:
        """Start the next branch, or the fastest one if all were measured."""
        dataset = self._dataset
        limit: int | None = dataset.num_inputs_per_branch
        number = len(self._seconds)
        if number == len(dataset.branches):
            self._is_chosen, limit = True, None
            number = self._seconds.index(min(self._seconds))
        else:
            self._seconds.append(0.0)
        part = _Part(dataset.source, self._source, limit)
        return dataset.branches[number].dataset(self._scope, (part,)).iterate(self._scope)
