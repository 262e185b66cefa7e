"""Map, Filter, TakeWhile, Scan and Interleave: datasets that call a function per element.

Semantics: tensorflow/core/kernels/data/{map,filter,flat_map,interleave}_dataset_op.cc and
experimental/{scan,take_while,group_by_window,group_by_reducer}_dataset_op.cc.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

import numpy as np

from graphmill.errors import InvalidArgumentError, OutOfRangeError
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

_INT64: Final = np.int64


class Map(Dataset):
    """The results of a function for each element; it may end the sequence by raising OutOfRange.

    Args:
        parallel: how many calls may run at the same time, in threads of the session. The order of
            the elements is that of the input, whatever the number.
        keeps_count: whether OutOfRange is an error and not the end.
    """

    waits = True

    def __init__(
        self,
        source: Dataset,
        function: CapturedFunction,
        structure: tuple[Sequence[DType], Sequence[Shape]],
        *,
        parallel: int = 1,
        keeps_count: bool = False,
    ) -> None:
        super().__init__(*structure, (source,))
        self.function, self.parallel, self.keeps_count = function, parallel, keeps_count

    @property
    def cardinality(self) -> int:
        """That of the input, if the function may not end the sequence."""
        return self.source.cardinality if self.keeps_count else UNKNOWN

    def iterate(self, scope: Scope) -> Elements:
        """Return an iterator over the elements."""
        elements = self.source.iterate(scope)
        if self.parallel > 1 and scope.pool is not None:
            return _MappingAhead(self, elements, scope)
        return _Mapping(self, elements, scope)

    def applied(self, scope: Scope, element: Element) -> Element | None:
        """Return the function's results for an element; None where it ends the sequence.

        Raises:
            InvalidArgumentError: it must not, and did.
        """
        try:
            return tuple(scope.call(self.function, element))
        except OutOfRangeError as error:
            if self.keeps_count:
                raise InvalidArgumentError(
                    f"Function invocation produced OutOfRangeError: {error.message}"
                ) from error
            return None


class _Mapping(ElementIterator):
    def __init__(self, dataset: Map, source: Elements, scope: Scope) -> None:
        self._dataset, self._source, self._scope = dataset, source, scope

    def __next__(self) -> Element:
        result = self._dataset.applied(self._scope, next(self._source))
        if result is None:
            raise StopIteration
        return result


class _MappingAhead(ElementIterator):
    """Calls for the next elements run in the session's threads while the first is waited for."""

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
        element = next(self._source, None)
        if element is None:
            self._is_at_end = True
            return
        scope, applied = self._scope, self._dataset.applied
        job = Job(lambda: applied(scope, element))
        self._jobs.append(job)
        if scope.pool is not None:
            scope.pool.schedule(job.run)


class Filter(Derived):
    """The elements for which a function returns true."""

    waits = True

    def __init__(self, source: Dataset, predicate: CapturedFunction) -> None:
        super().__init__(source)
        self._predicate = predicate

    def iterate(self, scope: Scope) -> Elements:
        """Return an iterator over the elements."""
        return _Filtering(self.source.iterate(scope), self._predicate, scope)


class _Filtering(ElementIterator):
    def __init__(self, source: Elements, predicate: CapturedFunction, scope: Scope) -> None:
        self._source, self._predicate, self._scope = source, predicate, scope

    def __next__(self) -> Element:
        while True:
            element = next(self._source)
            if self._predicate.truth(self._scope, element, "Filter predicate `f`"):
                return element


class TakeWhile(Derived):
    """The elements before the first one for which a function returns false."""

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
            if element is not None and self._predicate.truth(self._scope, element, "`predicate`"):
                return element
            self._source = None
        raise StopIteration


class Scan(Dataset):
    """The results of a function of a state and each element; it also returns the next state."""

    waits = True

    def __init__(
        self,
        source: Dataset,
        state: Sequence[Value],
        function: CapturedFunction,
        structure: tuple[Sequence[DType], Sequence[Shape]],
        *,
        keeps_count: bool,
    ) -> None:
        super().__init__(*structure, (source,))
        self._state, self._function, self._keeps_count = tuple(state), function, keeps_count

    @property
    def cardinality(self) -> int:
        """That of the input, if the function may not end the sequence."""
        return self.source.cardinality if self._keeps_count else UNKNOWN

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
    """The elements of the datasets that a function returns, of which several are open at a time.

    Args:
        cycle: how many are open; 1 is one after the other (`FlatMap`).
        block: the number of consecutive elements of one dataset.
        ahead: how many elements of each open one are made ahead of time; 0 for none.
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
        ahead: int = 0,
    ) -> None:
        for what, value in (("cycle_length", cycle), ("block_length", block)):
            if value <= 0:
                raise InvalidArgumentError(f"`{what}` must be > 0, got {value}")
        super().__init__(*structure, (source,))
        self.function, self.cycle, self.block, self.ahead = function, cycle, block, ahead

    def iterate(self, scope: Scope) -> Elements:
        """Return an iterator over the elements."""
        return _Interleaving(self, scope)


class _Interleaving(ElementIterator):
    def __init__(self, dataset: Interleave, scope: Scope) -> None:
        self._dataset, self._scope = dataset, scope
        self._source: Elements | None = dataset.source.iterate(scope)
        self._open: list[Elements | None] = [None] * dataset.cycle
        self._turn = 0
        self._taken = 0

    def __next__(self) -> Element:
        while self._source is not None or any(self._open):
            current = self._open[self._turn]
            if current is None:
                self._open_next()
                continue
            element = next(current, None)
            if element is None:
                self._open[self._turn] = None
                self._pass_on()
                continue
            self._taken += 1
            if self._taken == self._dataset.block:
                self._pass_on()
            return element
        raise StopIteration

    def _pass_on(self) -> None:
        self._taken = 0
        self._turn = (self._turn + 1) % len(self._open)

    def _open_next(self) -> None:
        """Open the next dataset at this place, or pass on if there is none."""
        element = next(self._source, None) if self._source is not None else None
        if element is None:
            self._source = None
            self._pass_on()
            return
        scope, dataset = self._scope, self._dataset
        opened = dataset.function.dataset(scope, element).iterate(scope)
        ahead = dataset.ahead if scope.pool is not None else 0
        self._open[self._turn] = Prefetching(opened, ahead, scope) if ahead else opened


class DirectedInterleave(Dataset):
    """Elements of several datasets, in the order in which another one names these."""

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
            choice = int(next(self._selector)[0])
            if not 0 <= choice < len(self._sources):
                raise InvalidArgumentError(
                    f"Selector index out of range: {choice} >= {len(self._sources)}"
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
