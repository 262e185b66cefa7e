"""Distributions from which candidate classes are sampled one at a time.

Semantics: tensorflow/core/kernels/range_sampler.cc, tensorflow/core/lib/random/weighted_picker.cc,
distribution_sampler.cc. The alias method is public (Walker 1977, Vose 1991).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from graphmill.errors import InvalidArgumentError
from graphmill.spi.kernels import cancellable, check_cancelled
from graphmill.spi.process import fork_safe_lock
from graphmill_plugins.kernels._support import check_size
from graphmill_plugins.kernels.random._philox import samples
from graphmill_plugins.kernels.random._stream import Numbers, numbers_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from graphmill_plugins.kernels.random._philox import Philox

_TRIES_BETWEEN_CHECKS = 1024
_INT32_MAX = (1 << 31) - 1
_MIN_COUNTERS, _MAX_COUNTERS = 16, 1024  # bounds of the number of Philox counters in a batch


class Sampler(Protocol):
    """A distribution over the classes 0 to `size` - 1.

    Attributes:
        size: number of classes.
    """

    size: int

    def stream(self, generator: Philox, count: int) -> Iterator[int]:
        """Yield classes endlessly; `count` estimates how many the caller takes."""
        ...

    def probability(self, classes: Any) -> Any:
        """Return the probability of each class in float32."""
        ...

    def learn(self, classes: Sequence[int]) -> None:
        """Update the distribution with classes that occurred."""
        ...


class Uniform:
    """A uniform distribution."""

    def __init__(self, size: int) -> None:
        self.size = size

    def stream(self, generator: Philox, count: int) -> Iterator[int]:
        """Yield classes endlessly; `count` estimates how many the caller takes."""
        for words in _words(generator, count):
            yield from _below(words, self.size, 64).tolist()

    def probability(self, classes: Any) -> Any:
        """Return the probability of each class."""
        return np.full(classes.shape, 1 / self.size, np.float32)

    def learn(self, classes: Sequence[int]) -> None:
        """Ignore the classes."""


class LogUniform:
    """A distribution like that of ranked words: class k has a weight of log((k + 2) / (k + 1))."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._scale = math.log1p(size)

    def stream(self, generator: Philox, count: int) -> Iterator[int]:
        """Yield classes endlessly; `count` estimates how many the caller takes."""
        for words in _words(generator, count):
            # The first of two samples is the high part of a float64's mantissa.
            mantissa = (words & np.uint64(0xFFFFF)) << np.uint64(32) | words >> np.uint64(32)
            for exponent in (mantissa.astype(np.float64) * 2.0**-52 * self._scale).tolist():
                yield (int(math.exp(exponent)) - 1) % self.size

    def probability(self, classes: Any) -> Any:
        """Return the probability of each class."""
        exact = classes.astype(np.float64)
        return (np.log((exact + 2) / (exact + 1)) / self._scale).astype(np.float32)

    def learn(self, classes: Sequence[int]) -> None:
        """Ignore the classes."""


class Unigram:
    """A distribution proportional to the occurrences of each class, plus one.

    Threads: `_lock` guards the counts.

    Raises:
        InvalidArgumentError: there are more classes than 32 bits can count.
    """

    def __init__(self, size: int) -> None:
        if size >= _INT32_MAX:
            raise InvalidArgumentError(
                f"range_max must be less than {_INT32_MAX} for unigram samplers, got {size}"
            )
        self.size = size
        check_size((size,), "the counts of classes", itemsize=16)  # copies and sums of them, too
        self._counts = np.ones(size, np.int32)
        self._ends: Any = None  # cumulative counts, computed on first use
        self._lock = fork_safe_lock()

    def stream(self, generator: Philox, count: int) -> Iterator[int]:
        """Yield classes endlessly; `count` estimates how many the caller takes."""
        ends = self._sums()
        for words in _words(generator, count):
            drawn = _below(words.view(np.uint32), int(ends[-1]), 32)
            yield from np.searchsorted(ends, drawn, side="right").tolist()

    def probability(self, classes: Any) -> Any:
        """Return the probability of each class."""
        return self._counts[classes].astype(np.float32) / np.float32(self._sums()[-1])

    def learn(self, classes: Sequence[int]) -> None:
        """Count classes that occurred, until the total reaches the 32-bit limit."""
        with self._lock:
            left = _INT32_MAX - int(self._counts.sum(dtype=np.int64))
            counts = self._counts.copy()
            np.add.at(counts, classes[:left], 1)
            self._counts, self._ends = counts, None

    def _sums(self) -> Any:
        with self._lock:
            if self._ends is None:
                self._ends = np.cumsum(self._counts, dtype=np.int64)
            return self._ends


class FixedUnigram:
    """A distribution with a fixed weight for each class.

    Raises:
        InvalidArgumentError: the number of weights is not the number of classes.
    """

    def __init__(self, size: int, weights: Any) -> None:
        if len(weights) != size:
            raise InvalidArgumentError(
                f"range {size} must be equal to the number of weights, {len(weights)}"
            )
        self.size = size
        self._weights = weights
        self._total = np.add.accumulate(weights)[-1] if size else np.float32(0)
        self._shares, self._others = _aliases(weights)

    def stream(self, generator: Philox, count: int) -> Iterator[int]:
        """Yield classes endlessly, one at a time; each takes a varying number of samples."""
        del count
        numbers = Numbers(numbers_of(generator))
        while True:
            unit, slot = numbers.unit(), numbers.below(self.size)
            yield slot if unit < self._shares[slot] else self._others[slot]

    def probability(self, classes: Any) -> Any:
        """Return the probability of each class."""
        return self._weights[classes] / self._total

    def learn(self, classes: Sequence[int]) -> None:
        """Ignore the classes."""


def _aliases(weights: Any) -> tuple[list[float], list[int]]:
    """Return the alias tables: for each slot, the probability of its class and the other class."""
    size = len(weights)
    total = float(np.add.accumulate(weights, dtype=np.float64)[-1])
    shares = ((weights * np.float32(size)).astype(np.float64) / total).tolist()
    others = [-1] * size
    high = [slot for slot in range(size) if not shares[slot] < 1]
    low = [slot for slot in range(size) if shares[slot] < 1]
    while high and low:
        poor, rich = low.pop(), high.pop()
        others[poor] = rich
        shares[rich] -= 1 - shares[poor]
        (low if shares[rich] < 1 else high).append(rich)
    for slot in (*high, *low):  # the remainder after rounding
        shares[slot], others[slot] = 1.0, slot
    return np.array(shares).astype(np.float32).tolist(), others


def _words(generator: Philox, count: int) -> Iterator[Any]:
    """Yield arrays of 64-bit samples endlessly; their size depends on `count`."""
    counters = min(max(count, _MIN_COUNTERS), _MAX_COUNTERS)
    while True:
        yield samples(np, generator, 4 * counters).view(np.uint64)
        generator = generator.skip(counters)


def _below(numbers: Any, bound: int, bits: int) -> Any:
    """Convert samples to uniform integers in [0, bound); rejects a few of the samples."""
    kind = numbers.dtype.type
    if not bound & (bound - 1):
        return numbers & kind(bound - 1)
    lowest = ((1 << bits) - 1) % bound + 1
    return numbers[numbers >= kind(lowest)] % kind(bound)


def draw_candidates(
    sampler: Sampler, generator: Philox, count: int, unique: bool
) -> tuple[Any, int]:
    """Return `count` classes, distinct if `unique`, and the number of tries."""
    drawn = sampler.stream(generator, count)
    if not unique:
        return np.fromiter(cancellable(drawn), np.int64, count), count
    candidates: dict[int, None] = {}
    tries = 0
    while len(candidates) < count:
        if not tries % _TRIES_BETWEEN_CHECKS:
            check_cancelled()
        tries += 1
        candidates[next(drawn)] = None
    return np.fromiter(candidates, np.int64, count), tries


def expected_count(probability: Any, count: int, tries: int) -> Any:
    """Return the expected count of a class among the candidates, given its probability."""
    if tries == count:
        return probability * np.float32(count)
    return -np.expm1(np.float32(tries) * np.log1p(-probability))
