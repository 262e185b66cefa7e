"""Random numbers one at a time, as those who shuffle want them.

Semantics: tensorflow/core/lib/random/random_distributions.h, SingleSampleAdapter over Philox.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphmill_plugins.kernels.random._philox import blocks, seeded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphmill_plugins.kernels.random._philox import Philox

_STEP = 64


def random_seeds(seed: int, seed2: int) -> tuple[int, int]:
    """Return the two seeds, or two by chance if both are zero."""
    if seed or seed2:
        return seed, seed2
    drawn: list[int] = np.random.SeedSequence().generate_state(2, np.uint64).tolist()
    return drawn[0], drawn[1]


def random_numbers(seed: int, seed2: int) -> Iterator[int]:
    """Yield random numbers of 32 bits, those of TensorFlow if a seed is given."""
    return numbers_of(seeded(*random_seeds(seed, seed2)))


def numbers_of(generator: Philox) -> Iterator[int]:
    """Yield the random numbers of 32 bits that a generator gives."""
    while True:
        yield from blocks(np, generator, np.arange(_STEP, dtype=np.uint64)).ravel().tolist()
        generator = generator.skip(_STEP)
