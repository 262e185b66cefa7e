"""GroupByWindow and GroupByReducer datasets.

Semantics: tensorflow/core/kernels/data/experimental/group_by_{window,reducer}_dataset_op.cc.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

import numpy as np

from graphmill.errors import InvalidArgumentError
from graphmill.spi.kernels import check_cancelled
from graphmill_plugins.kernels.dataset.pipeline.basic import ListOfElements
from graphmill_plugins.kernels.dataset.pipeline.dataset import (
    Dataset,
    ElementIterator,
    is_one_scalar,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.dtypes import DType
    from graphmill.spi import Shape, Value
    from graphmill_plugins.kernels.dataset.pipeline.dataset import (
        CapturedFunction,
        Element,
        Elements,
        Scope,
    )

_INT64: Final = np.int64


class GroupByWindow(Dataset):
    """Windows of elements with equal keys; a function maps each window to a dataset."""

    waits = True

    def __init__(
        self,
        source: Dataset,
        key: CapturedFunction,
        reduce: CapturedFunction,
        window_size: CapturedFunction,
        structure: tuple[Sequence[DType], Sequence[Shape]],
    ) -> None:
        super().__init__(*structure, (source,))
        self.key, self.reduce, self.window_size = key, reduce, window_size

    def iterate(self, scope: Scope) -> Elements:
        """Return an iterator over the elements."""
        return _Grouping(self, scope)


class _Grouping(ElementIterator):
    def __init__(self, dataset: GroupByWindow, scope: Scope) -> None:
        self._dataset, self._scope = dataset, scope
        self._source: Elements | None = dataset.source.iterate(scope)
        self._current: Elements = iter(())
        self._groups: dict[int, list[Element]] = {}
        self._sizes: dict[int, int] = {}

    def __next__(self) -> Element:
        while True:
            element = next(self._current, None)
            if element is not None:
                return element
            if self._source is None and not self._groups:
                raise StopIteration
            check_cancelled()
            self._fill_window()

    def _fill_window(self) -> None:
        """Take elements until a window is full; at the end, start the remaining windows."""
        while self._source is not None:
            element = next(self._source, None)
            if element is None:
                self._source = None
                break
            key = self._call_int64(self._dataset.key, element, "key_func")
            group = self._groups.setdefault(key, [])
            if key not in self._sizes:
                self._sizes[key] = self._window_size(key)
            group.append(element)
            if len(group) >= self._sizes[key]:
                self._start_window(key)
                return
        if self._groups:
            self._start_window(min(self._groups))

    def _window_size(self, key: int) -> int:
        size = self._call_int64(self._dataset.window_size, (_INT64(key),), "window_size_func")
        if size <= 0:
            raise InvalidArgumentError(f"Window size must be greater than zero, but got {size}.")
        return size

    def _call_int64(self, function: CapturedFunction, args: Sequence[Value], what: str) -> int:
        results = self._scope.call(function, args)
        if not is_one_scalar(results, _INT64):
            raise InvalidArgumentError(f"`{what}` must return a scalar int64.")
        return int(results[0])

    def _start_window(self, key: int) -> None:
        source = self._dataset.source
        window = ListOfElements(self._groups.pop(key), source.dtypes, source.shapes)
        self._sizes.pop(key)
        dataset = self._dataset.reduce.dataset(self._scope, (_INT64(key), window))
        self._current = dataset.iterate(self._scope)


class GroupByReducer(Dataset):
    """Elements reduced by key to a state, which a function maps to an element."""

    waits = True

    def __init__(
        self,
        source: Dataset,
        key: CapturedFunction,
        init: CapturedFunction,
        reduce: CapturedFunction,
        finalize: CapturedFunction,
        structure: tuple[Sequence[DType], Sequence[Shape]],
    ) -> None:
        super().__init__(*structure, (source,))
        self._key, self._init, self._reduce, self._finalize = key, init, reduce, finalize

    def iterate(self, scope: Scope) -> Elements:
        """Return an iterator over the elements."""
        return _Reducing(lambda: self._states(scope), self._finalize, scope)

    def _states(self, scope: Scope) -> list[Sequence[Value]]:
        states: dict[int, Sequence[Value]] = {}
        for element in self.source.iterate(scope):
            results = scope.call(self._key, element)
            if not is_one_scalar(results, _INT64):
                raise InvalidArgumentError("`key_func` must return a scalar int64.")
            key = int(results[0])
            state = states.get(key)
            if state is None:
                state = scope.call(self._init, (_INT64(key),))
            states[key] = scope.call(self._reduce, (*state, *element))
        return [states[key] for key in sorted(states)]


class _Reducing(ElementIterator):
    def __init__(
        self,
        states: Callable[[], list[Sequence[Value]]],
        finalize: CapturedFunction,
        scope: Scope,
    ) -> None:
        self._make, self._finalize, self._scope = states, finalize, scope
        self._states: deque[Sequence[Value]] | None = None

    def __next__(self) -> Element:
        if self._states is None:
            self._states = deque(self._make())
        if not self._states:
            raise StopIteration
        return tuple(self._scope.call(self._finalize, self._states.popleft()))
