"""AssertCardinality, IgnoreErrors and Unique datasets."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import numpy as np

from graphmill.errors import (
    FailedPreconditionError,
    OpError,
    OutOfRangeError,
    RefusedEffectError,
)
from graphmill.spi.kernels import check_cancelled, shape_of_value
from graphmill_plugins.kernels.dataset.pipeline.dataset import (
    INFINITE,
    Dataset,
    Derived,
    ElementIterator,
)

if TYPE_CHECKING:
    from graphmill.dtypes import DType
    from graphmill.spi import Value
    from graphmill_plugins.kernels.dataset.pipeline.dataset import Element, Elements, Scope


_log = logging.getLogger("graphmill.kernels")


class AssertCardinality(Derived):
    """The elements; fails unless their number is the asserted one."""

    is_indexed = True

    def __init__(self, source: Dataset, count: int) -> None:
        super().__init__(source)
        self._count = count

    @property
    def cardinality(self) -> int:
        """The asserted number of elements."""
        return self._count

    @property
    def batch_size(self) -> int:
        """The batch size of the input."""
        return self.source.batch_size

    def iterate(self, scope: Scope) -> Elements:
        """Return an iterator over the elements."""
        return _Counting(self.source.iterate(scope), self._count)

    def at(self, index: int, scope: Scope) -> Element:
        """Return the element at an index.

        Raises:
            FailedPreconditionError: the input has fewer elements than asserted.
            OutOfRangeError: there should be no such element.
        """
        if index < 0 or INFINITE < self._count <= index:
            raise OutOfRangeError(f"Index {index} is out of range for {_count_text(self._count)}")
        try:
            return self.source.at(index, scope)
        except OutOfRangeError as error:
            raise FailedPreconditionError(
                f"Input dataset was expected to contain {_count_text(self._count)} but index "
                f"{index} could not be retrieved: {error.message}"
            ) from error


class _Counting(ElementIterator):
    def __init__(self, source: Elements, count: int) -> None:
        self._source = source
        self._expected, self._seen = count, 0

    def __next__(self) -> Element:
        element = next(self._source, None)
        if element is None:
            if self._expected == INFINITE or self._seen != self._expected:
                raise FailedPreconditionError(
                    f"Input dataset was expected to contain {_count_text(self._expected)} but "
                    f"contained only {_count_text(self._seen)}."
                )
            raise StopIteration
        self._seen += 1
        if self._expected != INFINITE and self._seen > self._expected:
            raise FailedPreconditionError(
                f"Input dataset was expected to contain {_count_text(self._expected)} but "
                f"contained at least {_count_text(self._seen)}."
            )
        return element


def _count_text(count: int) -> str:
    if count == INFINITE:
        return "an infinite number of elements"
    return f"{count} element{'' if count == 1 else 's'}"


class IgnoreErrors(Derived):
    """The elements, without those that fail.

    An effect that the model's rules do not allow fails the iterator: skipped elements would hide
    what has to be allowed.
    """

    def __init__(self, source: Dataset, logs_errors: bool) -> None:
        super().__init__(source)
        self._logs_errors = logs_errors

    def iterate(self, scope: Scope) -> Elements:
        """Return an iterator over the elements."""
        return _Ignoring(self.source.iterate(scope), scope, self._logs_errors)


class _Ignoring(ElementIterator):
    def __init__(self, source: Elements, scope: Scope, logs_errors: bool) -> None:
        self._source = source
        self._scope = scope
        self._logs_errors = logs_errors

    def __next__(self) -> Element:
        while True:
            check_cancelled()
            try:
                return next(self._source)
            except RefusedEffectError:
                raise
            except OpError as error:
                if self._scope.cancellation.is_cancelled:
                    raise
                if self._logs_errors:
                    _log.warning("skipped an element of a dataset: %s", error)


class Unique(Derived):
    """The elements of one component, without duplicates."""

    def iterate(self, scope: Scope) -> Elements:
        """Return an iterator over the elements."""
        return _Distinct(self.source.iterate(scope), self.dtypes[0])


class _Distinct(ElementIterator):
    def __init__(self, source: Elements, dtype: DType) -> None:
        self._source = source
        self._dtype = dtype
        self._seen: set[object] = set()

    def __next__(self) -> Element:
        while True:
            check_cancelled()
            element = next(self._source)
            (value,) = element
            key = (shape_of_value(value, self._dtype), _key(value))
            if key not in self._seen:
                self._seen.add(key)
                return element


def _key(value: Value) -> object:
    array = np.asarray(value)
    return tuple(array.ravel().tolist()) if array.dtype == object else array.tobytes()
