"""Distributions from which candidate classes are sampled.

Semantics: tensorflow/core/kernels/range_sampler.cc, tensorflow/core/lib/random/weighted_picker.cc,
distribution_sampler.cc. The alias method is public (Walker 1977, Vose 1991).
"""

from __future__ import annotations

import math
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from graphmill.errors import InvalidArgumentError
from graphmill.spi.kernels import check_cancelled
from graphmill.spi.process import fork_safe_lock
from graphmill_plugins.kernels._support import check_size
from graphmill_plugins.kernels.nn.sampling._count_tree import CountTree
from graphmill_plugins.kernels.random._philox import samples

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphmill_plugins.kernels.random._philox import Philox

_INT32_MAX = (1 << 31) - 1
_MIN_COUNTERS, _MAX_COUNTERS = 16, 1024  # bounds of the number of Philox counters in a batch


class Sampler(Protocol):
    """A distribution over the classes 0 to `size` - 1.

    Attributes:
        size: number of classes.
    """

    size: int

    def batches(self, generator: Philox, count: int) -> Iterator[Any]:
        """Yield vectors of classes endlessly; `count` estimates how many the caller takes."""
        ...

    def probability(self, classes: Any) -> Any:
        """Return the probability of each class in float32."""
        ...

    def learn(self, classes: Any) -> None:
        """Update the distribution with classes that occurred."""
        ...


class Uniform:
    """A uniform distribution."""

    def __init__(self, size: int) -> None:
        self.size = size

    def batches(self, generator: Philox, count: int) -> Iterator[Any]:
        """Yield vectors of classes endlessly; `count` estimates how many the caller takes."""
        for words in _words(generator, count):
            yield _below(words, self.size, 64)

    def probability(self, classes: Any) -> Any:
        """Return the probability of each class."""
        return np.full(classes.shape, 1 / self.size, np.float32)

    def learn(self, classes: Any) -> None:
        """Ignore the classes."""


class LogUniform:
    """A distribution like that of ranked words: class k has a weight of log((k + 2) / (k + 1))."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._scale = math.log1p(size)

    def batches(self, generator: Philox, count: int) -> Iterator[Any]:
        """Yield vectors of classes endlessly; `count` estimates how many the caller takes."""
        for words in _words(generator, count):
            # The first of two samples is the high part of a float64's mantissa.
            mantissa = (words & np.uint64(0xFFFFF)) << np.uint64(32) | words >> np.uint64(32)
            exponents = (mantissa.astype(np.float64) * 2.0**-52 * self._scale).tolist()
            powers = np.array([*map(math.exp, exponents)])  # NumPy's may differ from C's
            classes = (powers.astype(np.uint64) - np.uint64(1)) % np.uint64(self.size)
            yield classes.astype(np.int64)

    def probability(self, classes: Any) -> Any:
        """Return the probability of each class."""
        exact = classes.astype(np.float64)
        return (np.log((exact + 2) / (exact + 1)) / self._scale).astype(np.float32)

    def learn(self, classes: Any) -> None:
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
        check_size((size,), "the counts of classes", itemsize=8)
        self._counts = CountTree(size)
        self._lock = fork_safe_lock()

    def batches(self, generator: Philox, count: int) -> Iterator[Any]:
        """Yield vectors of classes endlessly; `count` estimates how many the caller takes."""
        for words in _words(generator, -(-count // 2)):
            with self._lock:
                drawn = _below(words.view(np.uint32), self._counts.total, 32)
                classes = self._counts.find(drawn.astype(np.int64))
            yield classes

    def probability(self, classes: Any) -> Any:
        """Return the probability of each class."""
        with self._lock:
            counts, total = self._counts.counts(classes), self._counts.total
        return counts.astype(np.float32) / np.float32(total)

    def learn(self, classes: Any) -> None:
        """Count classes that occurred, until the total reaches the 32-bit limit."""
        with self._lock:
            self._counts.add(classes[: _INT32_MAX - self._counts.total])


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

    def batches(self, generator: Philox, count: int) -> Iterator[Any]:
        """Yield vectors of classes endlessly; `count` estimates how many the caller takes."""
        left = np.empty(0, np.uint32)
        for words in _words(generator, count):
            numbers = np.concatenate([left, words.view(np.uint32)])
            units, slots, left = units_and_slots(numbers, self.size)
            yield np.where(units < self._shares[slots], slots, self._others[slots])

    def probability(self, classes: Any) -> Any:
        """Return the probability of each class."""
        return self._weights[classes] / self._total

    def learn(self, classes: Any) -> None:
        """Ignore the classes."""


def units_and_slots(numbers: Any, size: int) -> tuple[Any, Any, Any]:
    """Return float32 of [0, 1) and slots below `size` from pairs of 32-bit samples.

    A sample that would make some slots more likely than others is left out. The third result is the
    sample that has no partner, if there is one.
    """
    lowest = _lowest(size, 32)
    while (rejected := np.flatnonzero(numbers[1::2] < lowest)).size:
        numbers = np.delete(numbers, 2 * rejected[0] + 1)
    used = len(numbers) // 2 * 2
    units = (numbers[:used:2] & np.uint32(0x7FFFFF)).astype(np.float32) * np.float32(2.0**-23)
    return units, (numbers[1:used:2] % np.uint32(size)).astype(np.int64), numbers[used:]


def _aliases(weights: Any) -> tuple[Any, Any]:
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
    return np.array(shares).astype(np.float32), np.array(others, np.int64)


def _words(generator: Philox, count: int) -> Iterator[Any]:
    """Yield vectors of 64-bit samples endlessly, of which the caller takes about `count`."""
    counters = min(max(-(-count // 2), _MIN_COUNTERS), _MAX_COUNTERS)
    while True:
        yield samples(np, generator, 4 * counters).view(np.uint64)
        generator = generator.skip(counters)


def _below(numbers: Any, bound: int, bits: int) -> Any:
    """Convert samples to uniform integers in [0, bound); rejects a few of the samples."""
    kind = numbers.dtype.type
    lowest = _lowest(bound, bits)
    return (numbers[numbers >= kind(lowest)] if lowest else numbers) % kind(bound)


def _lowest(bound: int, bits: int) -> int:
    """Return the least sample that can be reduced to [0, bound) without bias."""
    return (1 << bits) % bound


def draw_candidates(
    sampler: Sampler, generator: Philox, count: int, unique: bool
) -> tuple[Any, int]:
    """Return `count` classes, distinct if `unique`, and the number of tries."""
    if unique:  # some are drawn more than once
        return _distinct(sampler.batches(generator, 2 * count), count)
    return _first(sampler.batches(generator, count), count), count


def _first(batches: Iterator[Any], count: int) -> Any:
    """Return the first `count` classes."""
    drawn: list[Any] = []
    while count > 0:
        check_cancelled()
        drawn.append(next(batches)[:count])
        count -= len(drawn[-1])
    return np.concatenate(drawn).astype(np.int64, copy=False)


def _distinct(batches: Iterator[Any], count: int) -> tuple[Any, int]:
    """Return the first `count` distinct classes, and the number of tries."""
    candidates: dict[int, None] = {}
    tries = 0
    while True:
        check_cancelled()
        batch = next(batches).tolist()
        candidates.update(dict.fromkeys(batch))
        if len(candidates) >= count:
            distinct = list(islice(candidates, count))
            return np.array(distinct, np.int64), tries + batch.index(distinct[-1]) + 1
        tries += len(batch)


def expected_count(probability: Any, count: int, tries: int) -> Any:
    """Return the expected count of a class among the candidates, given its probability."""
    if tries == count:
        return probability * np.float32(count)
    return -np.expm1(np.float32(tries) * np.log1p(-probability))
