"""Trace `Unique` with a fixed-size output; duplicates get an out-of-range index.

A hash table finds the first of equal values. In each round every value writes its position to the
slot of its hash, and the smallest position wins. A value that finds an equal one there is done; a
value that collided tries again with another hash. Each round finishes at least one value, and few
are left after two rounds. For 2,560 integers this takes XLA:CPU 25 microseconds, a sort takes 290.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill_plugins._jax import jax_module
from graphmill_plugins.jit.idioms.sparse_dedup_analysis import SparseDedupAnalysis
from graphmill_plugins.jit.ir.errors import NotTraceable

if TYPE_CHECKING:
    from graphmill.spi import Graph, Node
    from graphmill_plugins.jit.ir.lowering_choices import LoweringChoices

_SLOTS_PER_VALUE: Final = 4  # size of the hash table, before it is rounded up
_GOLDEN: Final = np.uint32(0x9E3779B9)


class DistinctRows:
    """The distinct rows that the `Unique` nodes of a graph compute during tracing."""

    def __init__(self, graph: Graph, choices: LoweringChoices) -> None:
        self._repeated = SparseDedupAnalysis(graph, choices)
        self._looked_up: dict[Node, Any] = {}

    def __contains__(self, node: Node) -> bool:
        return node in self._repeated

    def find(self, node: Node, values: Any) -> tuple[Any, Any]:
        """Return the outputs of a `Unique`.

        Raises:
            NotTraceable: other nodes read the number of values, or its input is not a vector of
                integers.
        """
        if node not in self._repeated:
            raise NotTraceable("the size of its result depends on the number of distinct values")
        self._looked_up[node] = values
        return distinct(node, values)

    def unique_input_of(self, node: Node) -> Any:
        """Return the original row indices of a sparse update whose rows are distinct, or None."""
        unique = self._repeated.unique_of.get(node)
        return None if unique is None else self._looked_up[unique]

    def check(self, node: Node, inputs: list[Any]) -> None:
        """Reject nodes that combine distinct rows with values that have one row per distinct value.

        Raises:
            NotTraceable: the node is one. In the program the rows are as many as the indices, with
                zeros for duplicates, so shapes would differ.
        """
        uniform_inputs = self._repeated.uniform_inputs.get(node)
        if not uniform_inputs:
            return
        rank = max(np.ndim(value) for i, value in enumerate(inputs) if i not in uniform_inputs)
        shapes = [np.shape(inputs[position]) for position in uniform_inputs]
        if any(len(shape) > rank or (len(shape) == rank and shape[0] != 1) for shape in shapes):
            raise NotTraceable("the number of its rows depends on the number of distinct values")


def no_row(dtype: np.dtype[Any]) -> Any:
    """Return the index that replaces duplicates: it is out of range for any variable."""
    return np.iinfo(dtype).max


def distinct(node: Node, values: Any) -> tuple[Any, Any]:
    """Return the outputs of a `Unique` that `SparseDedupAnalysis` accepts.

    Args:
        node: the node, which determines the output types.
        values: row indices.

    Returns:
        The values, with duplicates replaced by `no_row`; and the position of the first occurrence
        of each value.
    """
    jnp = jax_module().numpy
    if not isinstance(values, (np.ndarray, jax_module().Array)) or values.ndim != 1:
        raise NotTraceable("its input is not a vector")
    if values.dtype.kind != "i":
        raise NotTraceable(f"its input has dtype {values.dtype}, expected integers")
    values = jnp.asarray(values)
    positions = jnp.arange(values.size, dtype=np.int32)
    first = _first_positions(values, positions)
    rows = jnp.where(first == positions, values, no_row(values.dtype))
    return rows, first.astype(node.output_types[1].as_numpy_dtype)


def _first_positions(values: Any, positions: Any) -> Any:
    """Return for each value the index of its first occurrence."""
    lax, jnp = jax_module().lax, jax_module().numpy
    count = values.size
    size = 1 << (_SLOTS_PER_VALUE * max(count, 1) - 1).bit_length()

    def is_not_done(carried: tuple[Any, Any]) -> Any:
        return jnp.any(carried[1] < 0)

    def next_round(carried: tuple[Any, Any]) -> tuple[Any, Any]:
        round_, first = carried
        slots = jnp.where(first < 0, _hashes(values, round_) & np.uint32(size - 1), size)
        table = jnp.full(size, count, np.int32).at[slots].min(positions, mode="drop")
        stored = jnp.take(table, slots, mode="clip")
        is_equal = (first < 0) & (jnp.take(values, stored, mode="clip") == values)
        return round_ + np.uint32(1), jnp.where(is_equal, stored, first)

    start = np.uint32(0), jnp.full(count, -1, np.int32)
    return lax.while_loop(is_not_done, next_round, start)[1]


def _hashes(values: Any, round_: Any) -> Any:
    """Return a 32-bit hash of each value, different in each round (MurmurHash3's mixing)."""
    bits = values.astype(np.uint64)
    mixed = (bits ^ (bits >> np.uint64(32))).astype(np.uint32) + round_ * _GOLDEN
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        mixed = (mixed ^ (mixed >> np.uint32(shift))) * np.uint32(factor)
    return mixed ^ (mixed >> np.uint32(16))
