"""Shuffle, Random and Sampling datasets, which reproduce TensorFlow's choices for a seed.

Semantics: tensorflow/core/kernels/data/{random_seed_ops,shuffle_dataset_op,random_dataset_op}.cc
and experimental/sampling_dataset_op.cc.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

import numpy as np

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError
from graphmill.spi.kernels import cancellable, check_cancelled
from graphmill.spi.process import fork_safe_lock
from graphmill_plugins.kernels.dataset.pipeline.dataset import (
    INFINITE,
    UNKNOWN,
    Dataset,
    Derived,
    ElementIterator,
)
from graphmill_plugins.kernels.random._stream import Numbers, random_numbers, random_seeds

if TYPE_CHECKING:
    from graphmill_plugins.kernels.dataset.pipeline.dataset import Element, Elements, Scope

_MAX_EPOCHS: Final = 3
"""The number of epochs besides the current one whose elements the buffer may hold."""


class SeedGenerator:
    """Returns the two seeds of each iterator: new seeds with `reseeds`, else always the same.

    Threads: `_lock` guards the stream of seeds.

    Attributes:
        num_drawn: the number of seeds that were drawn.
    """

    def __init__(self, seed: int, seed2: int, *, reseeds: bool) -> None:
        self._lock = fork_safe_lock()
        self._seeds = random_seeds(seed, seed2)
        self._numbers = random_numbers(*self._seeds) if reseeds else None
        self.num_drawn = 0

    def permutation(self, count: int) -> list[int]:
        """Return the indices below `count`, permuted by the initial seeds."""
        order = list(range(count))
        for index, number in zip(range(count), random_numbers(*self._seeds), strict=False):
            other = index + number % (count - index)
            order[index], order[other] = order[other], order[index]
        return order

    def next_seeds(self, scope: Scope) -> tuple[int, int]:
        """Return the seeds of the next iterator of an iteration."""
        return self._seeds if self._numbers is None else scope.next_seeds(self)

    def draw(self) -> tuple[int, int]:
        """Return the next two seeds of the stream."""
        if self._numbers is None:
            return self._seeds
        with self._lock:
            self.num_drawn += 2
            return next(self._numbers), next(self._numbers)

    def seek(self, position: int) -> None:
        """Move to the position after a number of drawn seeds."""
        with self._lock:
            self._numbers = random_numbers(*self._seeds)
            self.num_drawn = position
            for _ in cancellable(range(position)):
                next(self._numbers)


class Shuffle(Derived):
    """Elements drawn at random from a buffer of upcoming ones; epochs are not mixed.

    Args:
        size: that of the buffer; `UNKNOWN` for all elements.
        count: the number of epochs; -1 for infinitely many.
    """

    is_indexed = True

    def __init__(self, source: Dataset, size: int, seeds: SeedGenerator, *, count: int = 1) -> None:
        if size < 1 and size != UNKNOWN:
            raise InvalidArgumentError(
                f"buffer_size must be greater than zero or UNKNOWN_CARDINALITY, got {size}"
            )
        super().__init__(source)
        self.buffer_size, self.seeds, self.count = size, seeds, count
        self._order: list[int] | None = None  # two threads that set it set equal lists

    @property
    def cardinality(self) -> int:
        """The cardinality of the input times the number of epochs."""
        inner = self.source.cardinality
        if self.count == 1 or inner == 0:
            return inner
        if self.count < 0:
            return INFINITE
        return inner if inner < 0 else inner * self.count

    @property
    def batch_size(self) -> int:
        """The batch size of the input."""
        return self.source.batch_size

    def iterate(self, scope: Scope) -> Elements:
        """Return an iterator over the elements."""
        return _Shuffling(self, scope)

    @property
    def is_indexable(self) -> bool:
        """Whether the dataset can be shuffled globally: False, because it is shuffled already."""
        return False

    def lookup(self, index: int, scope: Scope) -> Element:
        """Return the element at an index, in an order that is the same for all look-ups."""
        if self._order is None:
            self._order = self.seeds.permutation(self.source.cardinality)
        return self.source.at(self._order[index % len(self._order)], scope)


class _Epoch:
    """The range of buffer indices that one pass over the input has filled."""

    __slots__ = ("end", "is_complete", "start")

    def __init__(self, start: int) -> None:
        self.start = self.end = start
        self.is_complete = False


class _Shuffling(ElementIterator):
    def __init__(self, dataset: Shuffle, scope: Scope) -> None:
        self._dataset, self._scope = dataset, scope
        self._numbers = random_numbers(*dataset.seeds.next_seeds(scope))
        self._source: Elements | None = None
        self._started_epochs = 0
        self._epochs: deque[_Epoch] = deque()
        self._buffer: dict[int, Element] = {}  # by slot of the ring buffer
        self._has_produced = False

    def __next__(self) -> Element:
        while self._needs_elements():
            if not self._take_one():
                break
        while self._epochs and self._is_exhausted(self._epochs[0]):
            self._epochs.popleft()
            if self._epochs:  # each epoch has its own seeds
                self._numbers = random_numbers(*self._dataset.seeds.next_seeds(self._scope))
        if not self._buffer:
            raise StopIteration
        epoch = self._epochs[0]
        chosen = self._slot(epoch.start + next(self._numbers) % (epoch.end - epoch.start))
        first = self._slot(epoch.start)
        element = self._buffer[chosen]
        self._buffer[chosen] = self._buffer[first]
        del self._buffer[first]
        epoch.start += 1
        self._has_produced = True
        return element

    @staticmethod
    def _is_exhausted(epoch: _Epoch) -> bool:
        return epoch.is_complete and epoch.start == epoch.end

    def _slot(self, index: int) -> int:
        size = self._dataset.buffer_size
        return index if size < 0 else index % size

    def _needs_elements(self) -> bool:
        dataset = self._dataset
        if self._source is None and dataset.count != -1 and self._started_epochs >= dataset.count:
            return False
        if len(self._epochs) > _MAX_EPOCHS and self._buffer:
            return False
        if dataset.buffer_size < 0:
            return not self._epochs or not self._epochs[0].is_complete
        return len(self._buffer) < dataset.buffer_size

    def _take_one(self) -> bool:
        """Take an element into the buffer; return False if a repeated input is empty."""
        check_cancelled()
        if self._source is None:
            start = self._epochs[-1].end if self._epochs else 0
            self._epochs.append(_Epoch(start))
            self._source = self._dataset.source.iterate(self._scope)
            self._started_epochs += 1
        epoch = self._epochs[-1]
        element = next(self._source, None)
        if element is None:
            self._source = None
            epoch.is_complete = True
            is_empty = epoch.start == epoch.end and not self._has_produced and not self._buffer
            return not (is_empty and self._dataset.count == -1)
        self._buffer[self._slot(epoch.end)] = element
        epoch.end += 1
        return True


class RandomNumbers(Dataset):
    """An infinite sequence of 32-bit random numbers."""

    def __init__(self, seeds: SeedGenerator) -> None:
        super().__init__((dtypes.int64,), ((),))
        self._seeds = seeds

    @property
    def cardinality(self) -> int:
        """The number of elements: infinite."""
        return INFINITE

    def iterate(self, scope: Scope) -> Elements:
        """Return an iterator over the elements."""
        return zip(map(np.int64, random_numbers(*self._seeds.next_seeds(scope))), strict=True)


class Sample(Derived):
    """A random sample of the elements, each with probability `rate`; the same in each iteration."""

    def __init__(self, source: Dataset, rate: float, seeds: tuple[int, int]) -> None:
        super().__init__(source)
        self._rate, self._seeds = rate, random_seeds(*seeds)

    def iterate(self, scope: Scope) -> Elements:
        """Return an iterator over the elements."""
        numbers = Numbers(random_numbers(*self._seeds))
        return _Sampling(self.source.iterate(scope), self._rate, numbers)


class _Sampling(ElementIterator):
    def __init__(self, source: Elements, rate: float, numbers: Numbers) -> None:
        self._source, self._rate, self._numbers = source, rate, numbers

    def __next__(self) -> Element:
        while True:
            check_cancelled()
            element = next(self._source)
            if self._numbers.unit() < self._rate:
                return element
