"""Random permutations by TensorFlow's sequence of swaps.

Semantics: tensorflow/core/kernels/random_shuffle_op.cc, a Fisher-Yates shuffle: each position is
swapped with itself or a later one, in order. In a run that is short compared to the remaining
positions, most swaps are disjoint from all others; these are made in one vectorized step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill_plugins.kernels.random import _philox

if TYPE_CHECKING:
    from graphmill.spi import Value

_MAX_SEQUENTIAL: Final = 1 << 14  # remaining positions up to which sequential swaps are faster
_POSITIONS_PER_SWAP: Final = 128  # remaining positions per swap of a run
_MAX_RUN: Final = 1 << 12


def shuffled(generator: _philox.Philox, size: int) -> Any:
    """Return the integers from 0 to `size` - 1 in random order."""
    positions = np.arange(size - 1)
    samples = _philox.samples(np, generator, size - 1)
    others = positions + samples % (size - positions).astype(np.uint32)
    return swapped(size, others)


def swapped(size: int, others: Value) -> Any:
    """Return the integers from 0 to `size` - 1 after swapping each position with another in order.

    Args:
        size: the number of integers.
        others: for each position the one to swap it with, itself or a later one.
    """
    order, touched_by = np.arange(size), np.empty(size, np.int64)
    start, count = 0, len(others)
    while size - start > _MAX_SEQUENTIAL and start < count:
        run = max(min((size - start) // _POSITIONS_PER_SWAP, _MAX_RUN), 1)
        stop = min(start + run, count)
        _swap_run(order, touched_by, start, others[start:stop])
        start = stop
    rest = order[start:].tolist()
    for position, other in enumerate((others[start:] - start).tolist()):
        rest[position], rest[other] = rest[other], rest[position]
    order[start:] = rest
    return order


def _swap_run(order: Any, touched_by: Any, start: int, others: Any) -> None:
    """Swap a run of positions of `order` in place; `touched_by` is scratch space per position."""
    own = np.arange(start, start + len(others))
    touched_by[others] = own  # of duplicates, the last write wins
    touched_by[others[touched_by[others] != own]] = -1
    is_shared = touched_by[others] < 0
    within = np.flatnonzero(others < start + len(others))
    is_shared[within] = True
    is_shared[others[within] - start] = True
    is_disjoint = ~is_shared
    left, right = own[is_disjoint], others[is_disjoint]
    order[left], order[right] = order[right], order[left]
    shared = np.flatnonzero(is_shared)
    for first, second in zip((start + shared).tolist(), others[shared].tolist(), strict=True):
        value = int(order[first])
        order[first] = order[second]
        order[second] = value
