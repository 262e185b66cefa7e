"""Random permutations by TensorFlow's sequence of swaps.

Semantics: tensorflow/core/kernels/random_shuffle_op.cc, a Fisher-Yates shuffle: each position is
swapped with itself or a later one, in order. No swap touches the positions before its own, so each
value's way to its last position is a chain of swaps, and all chains are followed at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill_plugins.kernels.random import _philox

if TYPE_CHECKING:
    from graphmill.spi import Value

_MAX_SEQUENTIAL: Final = 300  # number of integers up to which sequential swaps are faster


def shuffled(generator: _philox.Philox, size: int) -> Any:
    """Return the integers from 0 to `size` - 1 in random order."""
    samples = _philox.samples(np, generator, size - 1)
    others = np.arange(size - 1)
    others += samples % np.arange(size, 1, -1, dtype=np.uint32)
    return swapped(size, others)


def swapped(size: int, others: Value) -> Any:
    """Return the integers from 0 to `size` - 1 after swapping each position with another in order.

    Args:
        size: the number of integers.
        others: for each position but the last the one to swap it with, itself or a later one.
    """
    if size <= _MAX_SEQUENTIAL:
        values = list(range(size))
        for position, other in enumerate(others.tolist()):
            values[position], values[other] = values[other], values[position]
        return np.array(values)
    # A swap takes what the previous swap with the same position left there, which is the value
    # that was at that swap's own position just before it; or else the initial value.
    order = np.append(others, size - 1)
    later, previous = _repeated_targets(order)
    order[later] = _values_before_swaps(order)[previous]
    return order


def _repeated_targets(targets: Any) -> tuple[Any, Any]:
    """Return the swaps whose target an earlier one has too, and the last of the earlier ones."""
    swaps = _stable_order(targets)
    ordered = targets.take(swaps)
    repeated = np.flatnonzero(ordered[1:] == ordered[:-1])
    return swaps.take(repeated + 1), swaps.take(repeated)


def _stable_order(values: Any) -> Any:
    """Return the stable order of non-negative integers, by their halves of 16 bits.

    NumPy sorts these by radix, in half the time of a sort by comparisons or less.
    """
    order = np.argsort(values.astype(np.uint16), kind="stable")
    shift = 16
    while len(values) >> shift:
        digits = (values >> shift).astype(np.uint16)
        order = order.take(np.argsort(digits.take(order), kind="stable"))
        shift += 16
    return order


def _values_before_swaps(targets: Any) -> Any:
    """Return for each position the value that it has just before its own swap."""
    values = np.arange(len(targets))
    moved = np.flatnonzero(targets != values)
    # The last swap with a position wins: it gives the value its own.
    values[targets.take(moved)] = moved
    pending = np.flatnonzero(values != np.arange(len(targets)))
    while pending.size:  # pointer jumping: chains are halved until they end at an initial value
        nearer = values.take(pending)
        further = values.take(nearer)
        values[pending] = further
        pending = pending[further != nearer]
    return values
