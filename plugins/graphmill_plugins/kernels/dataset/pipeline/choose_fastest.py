"""ChooseFastest dataset: the fastest of several equal datasets.

Semantics: tensorflow/core/kernels/data/experimental/choose_fastest_dataset_op.cc.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import numpy as np

from graphmill.errors import InvalidArgumentError, OpError
from graphmill_plugins.kernels.dataset.pipeline.dataset import UNKNOWN, Dataset, ElementIterator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.dtypes import DType
    from graphmill.spi import Shape
    from graphmill_plugins.kernels.dataset.pipeline.dataset import Element, Elements, Scope

_PERCENTILE: Final = 90


class ChooseFastest(Dataset):
    """The elements of the fastest input; all inputs must have equal elements.

    Args:
        inputs: the datasets.
        experiments: the number of elements that are taken of each input, one input after the
            other, to measure them.
        structure: element types and shapes.

    Raises:
        InvalidArgumentError: the inputs differ in element types, number of components or
            cardinality.
    """

    def __init__(
        self,
        inputs: Sequence[Dataset],
        experiments: int,
        structure: tuple[Sequence[DType], Sequence[Shape]],
    ) -> None:
        super().__init__(*structure, inputs)
        for index, source in enumerate(inputs):
            if source.dtypes != self.dtypes:
                raise InvalidArgumentError(
                    "All inputs to ChooseFastestDataset must have the same output types. Input "
                    f"{index} has {_names(source.dtypes)}, expected {_names(self.dtypes)}."
                )
        self.experiments = experiments
        self._count = _common_cardinality(inputs)

    @property
    def cardinality(self) -> int:
        """The cardinality of the inputs."""
        return self._count

    def iterate(self, scope: Scope) -> Elements:
        """Return an iterator over the elements."""
        return _Choosing([source.iterate(scope) for source in self.inputs], self.experiments)


def _names(types: Sequence[DType]) -> str:
    return "(" + ", ".join(dtype.name for dtype in types) + ")"


def _common_cardinality(inputs: Sequence[Dataset]) -> int:
    common = UNKNOWN
    for index, source in enumerate(inputs):
        count = source.cardinality
        if common == UNKNOWN:
            common = count
        elif count not in (common, UNKNOWN):
            raise InvalidArgumentError(
                "All inputs to ChooseFastestDataset must have compatible cardinalities. Input "
                f"{index} has cardinality: {count}, while all prior inputs have cardinality: "
                f"{common}."
            )
    return common


class _Choosing(ElementIterator):
    def __init__(self, sources: list[Elements], experiments: int) -> None:
        self._sources = sources
        self._seconds: list[list[float]] = [[] for _ in sources]
        self._experiments = experiments
        self._fastest: Elements | None = None

    def __next__(self) -> Element:
        if self._experiments <= 0 and self._fastest is None:
            self._fastest = self._choose()
        if self._fastest is not None:
            return next(self._fastest)
        self._experiments -= 1
        element, failure = self._measure()
        if failure is not None:
            raise failure
        if element is None:
            raise StopIteration
        return element

    def _measure(self) -> tuple[Element | None, OpError | None]:
        """Take an element of each input; return that of the first input, or its error."""
        results: list[tuple[Element | None, OpError | None]] = []
        for source, seconds in zip(self._sources, self._seconds, strict=True):
            start = time.perf_counter()
            # All inputs advance, even if one fails, so that they stay in step.
            try:
                results.append((next(source, None), None))
            except OpError as error:
                results.append((None, error))
            seconds.append(time.perf_counter() - start)
        return results[0]

    def _choose(self) -> Elements:
        typical = [float(np.percentile(one, _PERCENTILE)) if one else 0.0 for one in self._seconds]
        return self._sources[typical.index(min(typical))]
