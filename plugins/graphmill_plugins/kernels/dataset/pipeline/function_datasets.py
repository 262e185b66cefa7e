"""Map, Filter, TakeWhile, Scan and interleaves: datasets with a function or a selector.

Semantics: tensorflow/core/kernels/data/{map,filter,flat_map,interleave}_dataset_op.cc and
experimental/{scan,take_while,directed_interleave}_dataset_op.cc.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from graphmill.errors import InvalidArgumentError, OpError, OutOfRangeError
from graphmill.spi.kernels import check_cancelled
from graphmill_plugins.kernels._support import POINTER_SIZE, check_size
from graphmill_plugins.kernels.dataset.pipeline.background_jobs import Job, Prefetching
from graphmill_plugins.kernels.dataset.pipeline.dataset import (
    INFINITE,
    UNKNOWN,
    Dataset,
    Derived,
    ElementIterator,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.dtypes import DType
    from graphmill.spi import Shape, Value
    from graphmill_plugins.kernels.dataset.pipeline.dataset import (
        CapturedFunction,
        Element,
        Elements,
        Scope,
    )


class Map(Dataset):
    """The results of a function for each element; OutOfRange from it ends the sequence.

    Args:
        parallel: how many calls may run concurrently in the session's pool. The elements are in
            the order of the input regardless.
        preserves_cardinality: whether OutOfRange is an error instead of the end.
    """

    is_indexed = True

    waits = True

    def __init__(
        self,
        source: Dataset,
        function: CapturedFunction,
        structure: tuple[Sequence[DType], Sequence[Shape]],
        *,
        parallel: int = 1,
        preserves_cardinality: bool = False,
    ) -> None:
        super().__init__(*structure, (source,))
        self.function, self.parallel = function, parallel
        self.preserves_cardinality = preserves_cardinality

    @property
    def cardinality(self) -> int:
        """The cardinality of the input, unless the function may end the sequence."""
        return self.source.cardinality if self.preserves_cardinality else UNKNOWN

    def iterate(self, scope: Scope) -> Elements:
        """Return an iterator over the elements."""
        elements = self.source.iterate(scope)
        if self.parallel > 1 and scope.pool is not None:
            return _ParallelMapping(self, elements, scope)
        return _Mapping(self, elements, scope)

    def lookup(self, index: int, scope: Scope) -> Element:
        """Return the element at an index."""
        element = self.apply(scope, self.source.at(index, scope))
        if element is None:
            raise OutOfRangeError(f"the function ended the sequence at index {index}")
        return element

    def apply(self, scope: Scope, element: Element) -> Element | None:
        """Return the function's results for an element; None if it ends the sequence.

        Raises:
            InvalidArgumentError: it ends the sequence, but must preserve the cardinality.
        """
        try:
            return tuple(scope.call(self.function, element))
        except OutOfRangeError as error:
            if self.preserves_cardinality:
                raise InvalidArgumentError(
                    f"Function invocation produced OutOfRangeError: {error.message}"
                ) from error
            return None


class _Mapping(ElementIterator):
    def __init__(self, dataset: Map, source: Elements, scope: Scope) -> None:
        self._dataset, self._source, self._scope = dataset, source, scope

    def __next__(self) -> Element:
        result = self._dataset.apply(self._scope, next(self._source))
        if result is None:
            raise StopIteration
        return result


class _ParallelMapping(ElementIterator):
    """Runs calls for later elements in the session's pool while the first one is awaited.

    An error of the input is raised after the results of the elements before it.
    """

    def __init__(self, dataset: Map, source: Elements, scope: Scope) -> None:
        self._dataset, self._source, self._scope = dataset, source, scope
        self._jobs: deque[Job] = deque()
        self._is_at_end = False

    def __next__(self) -> Element:
        while not self._is_at_end and len(self._jobs) < self._dataset.parallel:
            self._start_next()
        if not self._jobs:
            raise StopIteration
        result: Element | None = self._jobs.popleft().result()
        if result is None:
            self._is_at_end = True
            self._jobs.clear()
            raise StopIteration
        return result

    def _start_next(self) -> None:
        try:
            element = next(self._source, None)
        except OpError as error:
            self._jobs.append(_failed(error))
            return
        if element is None:
            self._is_at_end = True
            return
        scope, apply = self._scope, self._dataset.apply
        job = Job(lambda: apply(scope, element))
        self._jobs.append(job)
        if scope.pool is not None:
            scope.pool.schedule(job.run)


def _failed(error: OpError) -> Job:
    """Return a job whose result raises an error."""

    def fail() -> None:
        raise error

    return Job(fail)


class Filter(Derived):
    """The elements for which a predicate returns true."""

    waits = True

    def __init__(self, source: Dataset, predicate: CapturedFunction) -> None:
        super().__init__(source)
        self._predicate = predicate

    @property
    def batch_size(self) -> int:
        """The batch size of the input."""
        return self.source.batch_size

    def iterate(self, scope: Scope) -> Elements:
        """Return an iterator over the elements."""
        return _Filtering(self.source.iterate(scope), self._predicate, scope)


class _Filtering(ElementIterator):
    def __init__(self, source: Elements, predicate: CapturedFunction, scope: Scope) -> None:
        self._source, self._predicate, self._scope = source, predicate, scope

    def __next__(self) -> Element:
        while True:
            element = next(self._source)
            if self._predicate.test(self._scope, element, "Filter predicate `f`"):
                return element


class TakeWhile(Derived):
    """The elements before the first one for which a predicate returns false."""

    waits = True

    def __init__(self, source: Dataset, predicate: CapturedFunction) -> None:
        super().__init__(source)
        self._predicate = predicate

    def iterate(self, scope: Scope) -> Elements:
        """Return an iterator over the elements."""
        return _TakingWhile(self.source.iterate(scope), self._predicate, scope)


class _TakingWhile(ElementIterator):
    def __init__(self, source: Elements, predicate: CapturedFunction, scope: Scope) -> None:
        self._source: Elements | None = source
        self._predicate, self._scope = predicate, scope

    def __next__(self) -> Element:
        if self._source is not None:
            element = next(self._source, None)
            if element is not None and self._predicate.test(self._scope, element, "`predicate`"):
                return element
            self._source = None
        raise StopIteration


class Scan(Dataset):
    """The results of a function that maps a state and an element to the next state and results."""

    waits = True

    def __init__(
        self,
        source: Dataset,
        state: Sequence[Value],
        function: CapturedFunction,
        structure: tuple[Sequence[DType], Sequence[Shape]],
        *,
        preserves_cardinality: bool,
    ) -> None:
        super().__init__(*structure, (source,))
        self._state, self._function = tuple(state), function
        self._preserves_cardinality = preserves_cardinality

    @property
    def cardinality(self) -> int:
        """The cardinality of the input, unless the function may end the sequence."""
        return self.source.cardinality if self._preserves_cardinality else UNKNOWN

    def iterate(self, scope: Scope) -> Elements:
        """Return an iterator over the elements."""
        return _Scanning(self.source.iterate(scope), self._state, self._function, scope)


class _Scanning(ElementIterator):
    def __init__(
        self, source: Elements, state: Sequence[Value], function: CapturedFunction, scope: Scope
    ) -> None:
        self._source, self._state = source, list(state)
        self._function, self._scope = function, scope

    def __next__(self) -> Element:
        count = len(self._state)
        arguments = [*self._state, *next(self._source)]
        results = self._function.elements(self._scope, arguments)
        if results is None:
            raise StopIteration
        self._state = results[:count]
        return tuple(results[count:])


class Interleave(Dataset):
    """The elements of the datasets that a function returns, interleaved.

    Args:
        cycle: the number of datasets that are open concurrently; 1 concatenates them (`FlatMap`).
        block: the number of consecutive elements of one dataset.
        buffer: the number of elements to prefetch from each open dataset; 0 for none.
    """

    waits = True

    def __init__(
        self,
        source: Dataset,
        function: CapturedFunction,
        structure: tuple[Sequence[DType], Sequence[Shape]],
        *,
        cycle: int = 1,
        block: int = 1,
        buffer: int = 0,
    ) -> None:
        for what, value in (("cycle_length", cycle), ("block_length", block)):
            if value <= 0:
                raise InvalidArgumentError(f"`{what}` must be > 0, got {value}")
        super().__init__(*structure, (source,))
        self.function, self.cycle, self.block, self.buffer = function, cycle, block, buffer

    def iterate(self, scope: Scope) -> Elements:
        """Return an iterator over the elements."""
        return _Interleaving(self, scope)


class _Interleaving(ElementIterator):
    def __init__(self, dataset: Interleave, scope: Scope) -> None:
        self._dataset, self._scope = dataset, scope
        self._source: Elements | None = dataset.source.iterate(scope)
        check_size((dataset.cycle,), "the cycle of datasets", itemsize=POINTER_SIZE)
        self._open: list[Elements | None] = [None] * dataset.cycle
        self._cycle_index = 0
        self._block_count = 0

    def __next__(self) -> Element:
        while self._source is not None or any(self._open):
            current = self._open[self._cycle_index]
            if current is None:
                check_cancelled()
                self._open_next()
                continue
            element = next(current, None)
            if element is None:
                self._open[self._cycle_index] = None
                self._next_in_cycle()
                continue
            self._block_count += 1
            if self._block_count == self._dataset.block:
                self._next_in_cycle()
            return element
        raise StopIteration

    def _next_in_cycle(self) -> None:
        self._block_count = 0
        self._cycle_index = (self._cycle_index + 1) % len(self._open)

    def _open_next(self) -> None:
        """Open the next dataset at this cycle index, or skip the index if there is none."""
        element = next(self._source, None) if self._source is not None else None
        if element is None:
            self._source = None
            self._next_in_cycle()
            return
        scope, dataset = self._scope, self._dataset
        opened = dataset.function.dataset(scope, element).iterate(scope)
        buffer = dataset.buffer if scope.pool is not None else 0
        self._open[self._cycle_index] = Prefetching(opened, buffer, scope) if buffer else opened


class DirectedInterleave(Dataset):
    """Elements of several datasets, each taken from the one that a selector dataset names."""

    def __init__(
        self, selector: Dataset, inputs: Sequence[Dataset], *, stops_on_empty: bool
    ) -> None:
        for other in inputs[1:]:
            if other.dtypes != inputs[0].dtypes:
                raise InvalidArgumentError(
                    "DirectedInterleave needs inputs of the same element types"
                )
        super().__init__(inputs[0].dtypes, inputs[0].shapes, (selector, *inputs))
        self._stops_on_empty = stops_on_empty

    @property
    def cardinality(self) -> int:
        """Infinite if one of the inputs is, for any selector; else unknown."""
        counts = [source.cardinality for source in self.inputs[1:]]
        return INFINITE if INFINITE in counts else UNKNOWN

    def iterate(self, scope: Scope) -> Elements:
        """Return an iterator over the elements."""
        selector, *sources = (source.iterate(scope) for source in self.inputs)
        return _Directed(selector, list(sources), self._stops_on_empty)


class _Directed(ElementIterator):
    def __init__(self, selector: Elements, sources: list[Elements], stops_on_empty: bool) -> None:
        self._selector = selector
        self._sources: list[Elements | None] = list(sources)
        self._stops_on_empty = stops_on_empty

    def __next__(self) -> Element:
        while any(source is not None for source in self._sources):
            check_cancelled()
            choice = int(next(self._selector)[0])
            if not 0 <= choice < len(self._sources):
                raise InvalidArgumentError(
                    f"Selector index {choice} is not in [0, {len(self._sources)})"
                )
            source = self._sources[choice]
            if source is None:
                continue
            element = next(source, None)
            if element is not None:
                return element
            self._sources[choice] = None
            if self._stops_on_empty:
                self._sources = []
        raise StopIteration
