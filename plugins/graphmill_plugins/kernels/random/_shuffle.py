"""Random permutations by the swaps that TensorFlow makes.

Semantics: tensorflow/core/kernels/random_shuffle_op.cc: the method of Fisher and Yates. Each place
in turn is exchanged with one that is not before it. Of a run of places that is short beside what is
left, nearly all exchanges touch places that no other one touches: these are made at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill_plugins.kernels.random import _philox

if TYPE_CHECKING:
    from graphmill.spi import Value

_FEW: Final = 1 << 14  # places that are left when one exchange after the other is quicker
_SHARE: Final = 128  # what is left, to a run
_LONGEST: Final = 1 << 12


def shuffled(generator: _philox.Philox, size: int) -> Any:
    """Return the integers from 0 to `size` - 1 in random order."""
    places = np.arange(size - 1)
    samples = _philox.samples(np, generator, size - 1)
    others = places + samples % (size - places).astype(np.uint32)
    return exchanged(size, others)


def exchanged(size: int, others: Value) -> Any:
    """Return the integers from 0 to `size` - 1, each position swapped with another in turn.

    Args:
        size: how many there are.
        others: for each place the one that it is exchanged with, itself or a later one.
    """
    order, touched_by = np.arange(size), np.empty(size, np.int64)
    start, count = 0, len(others)
    while size - start > _FEW and start < count:
        run = max(min((size - start) // _SHARE, _LONGEST), 1)
        stop = min(start + run, count)
        _exchange(order, touched_by, start, others[start:stop])
        start = stop
    rest = order[start:].tolist()
    for place, other in enumerate((others[start:] - start).tolist()):
        rest[place], rest[other] = rest[other], rest[place]
    order[start:] = rest
    return order


def _exchange(order: Any, touched_by: Any, start: int, others: Any) -> None:
    """Exchange a run of places, in place; `touched_by` is room for a number for each place."""
    own = np.arange(start, start + len(others))
    touched_by[others] = own  # what is written last stays
    touched_by[others[touched_by[others] != own]] = -1
    is_shared = touched_by[others] < 0
    within = np.flatnonzero(others < start + len(others))
    is_shared[within] = True
    is_shared[others[within] - start] = True
    alone = ~is_shared
    here, there = own[alone], others[alone]
    order[here], order[there] = order[there], order[here]
    shared = np.flatnonzero(is_shared)
    for first, second in zip((start + shared).tolist(), others[shared].tolist(), strict=True):
        number = int(order[first])
        order[first] = order[second]
        order[second] = number
