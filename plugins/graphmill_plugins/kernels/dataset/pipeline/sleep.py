"""Sleep dataset: delay each element.

Semantics: tensorflow/core/kernels/data/experimental/sleep_dataset_op.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.errors import InvalidArgumentError
from graphmill_plugins.kernels.dataset.pipeline.dataset import Dataset, Derived, ElementIterator

if TYPE_CHECKING:
    from graphmill_plugins.kernels.dataset.pipeline.dataset import Element, Elements, Scope


class Sleep(Derived):
    """The elements, each taken from the input after a delay.

    Raises:
        InvalidArgumentError: the delay is negative.
    """

    waits = True

    def __init__(self, source: Dataset, microseconds: int) -> None:
        if microseconds < 0:
            raise InvalidArgumentError(f"`sleep_microseconds` must be >= 0, got {microseconds}")
        super().__init__(source)
        self._seconds = microseconds * 1e-6

    @property
    def cardinality(self) -> int:
        """The cardinality of the input."""
        return self.source.cardinality

    def iterate(self, scope: Scope) -> Elements:
        """Return an iterator over the elements."""
        return _Sleeping(self.source.iterate(scope), self._seconds, scope)


class _Sleeping(ElementIterator):
    def __init__(self, source: Elements, seconds: float, scope: Scope) -> None:
        self._source, self._seconds, self._scope = source, seconds, scope

    def __next__(self) -> Element:
        self._scope.sleep(self._seconds)
        return next(self._source)
