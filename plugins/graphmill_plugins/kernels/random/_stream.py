"""Streams of random numbers, drawn one at a time.

Semantics: tensorflow/core/lib/random/random_distributions.h, SingleSampleAdapter over Philox;
tensorflow/core/lib/random/simple_philox.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill_plugins.kernels.random._philox import blocks, seeded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphmill_plugins.kernels.random._philox import Philox

_BATCH = 64
_MAX_UINT32 = (1 << 32) - 1
_MAX_UINT64 = (1 << 64) - 1


def random_seeds(seed: int, seed2: int) -> tuple[int, int]:
    """Return the two seeds, or two random ones if both are zero."""
    if seed or seed2:
        return seed, seed2
    drawn: list[int] = np.random.SeedSequence().generate_state(2, np.uint64).tolist()
    return drawn[0], drawn[1]


def random_numbers(seed: int, seed2: int) -> Iterator[int]:
    """Yield random 32-bit integers; the same as TensorFlow's if a seed is not zero."""
    return numbers_of(seeded(*random_seeds(seed, seed2)))


def numbers_of(generator: Philox) -> Iterator[int]:
    """Yield the random 32-bit integers of a generator."""
    while True:
        yield from blocks(np, generator, np.arange(_BATCH, dtype=np.uint64)).ravel().tolist()
        generator = generator.skip(_BATCH)


class Numbers:
    """Random numbers of several kinds from a stream of 32-bit integers."""

    def __init__(self, stream: Iterator[int]) -> None:
        self._next = stream.__next__

    def below(self, bound: int) -> int:
        """Return a uniform integer of [0, bound) from 32-bit samples."""
        return self._unbiased(bound, _MAX_UINT32, self._next)

    def below_64(self, bound: int) -> int:
        """Return a uniform integer of [0, bound) from 64-bit samples."""
        return self._unbiased(bound, _MAX_UINT64, self._word)

    def unit(self) -> float:
        """Return a float32 of [0, 1)."""
        return (self._next() & 0x7FFFFF) * 2.0**-23

    def double(self) -> float:
        """Return a float64 of [0, 1)."""
        high = self._next() & 0xFFFFF
        return (high << 32 | self._next()) * 2.0**-52

    def _word(self) -> int:
        return self._next() | self._next() << 32

    @staticmethod
    def _unbiased(bound: int, max_sample: int, draw: Any) -> int:
        if not bound & (bound - 1):
            return int(draw()) & (bound - 1)
        threshold = max_sample % bound + 1  # rejecting smaller samples removes the bias of modulo
        while (number := draw()) < threshold:
            pass
        return int(number % bound)
