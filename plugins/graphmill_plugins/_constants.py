"""Mark values that are constant across calls of the program being traced.

A lowering may prepare such a value, for example transform the weights of a convolution, at a cost
that is acceptable once but not in each call. The tracer marks the values. The preparation is traced
like any other operation; `graphmill_plugins.jit.programs.hoist` moves it out of the program later.

Marks apply to the current thread within a `with` block; outside of one, no value is constant.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from graphmill.spi import Value

_thread = threading.local()


class Marks:
    """The tracers that represent constants; they stay referenced, so that no id is reused.

    Attributes:
        platform: JAX's name of the platform that the program is for.
    """

    def __init__(self, platform: str) -> None:
        self.platform = platform
        self._values: dict[int, Value] = {}

    def add(self, values: Iterable[Value]) -> None:
        """Mark values as constant."""
        self._values.update((id(value), value) for value in values)

    def __contains__(self, value: object) -> bool:
        """Return whether a value is concrete or marked."""
        return isinstance(value, (np.ndarray, np.generic)) or id(value) in self._values


@contextmanager
def marking(platform: str = "cpu") -> Iterator[Marks]:
    """Create marks that apply to this thread until the block ends; blocks may be nested."""
    outer = getattr(_thread, "marks", None)
    _thread.marks = marks = Marks(platform)
    try:
        yield marks
    finally:
        _thread.marks = outer


def is_prepared_once(value: Value, platform: str = "cpu") -> bool:
    """Return whether a program for `platform` runs computations on `value` alone only once."""
    marks: Marks | None = getattr(_thread, "marks", None)
    return marks is not None and marks.platform == platform and value in marks
