"""Trace `Unique` with a fixed-size output; duplicates get an out-of-range index.

A hash table finds the first of equal values: in each round every value writes its position to the
slot of its hash, the earliest wins, and a value that finds an equal one there is done. Values that
collided try again with another hash. Each round finishes at least one value, and few are left after
two. For 2,560 integers this takes XLA:CPU 25 microseconds, a sort takes 290.
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

_SPARE: Final = 4  # places of the table for each value
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
            NotTraceable: how many values it finds is asked, or it is given no numbers of rows.
        """
        if node not in self._repeated:
            raise NotTraceable("the size of its result depends on the number of distinct values")
        self._looked_up[node] = values
        return distinct(node, values)

    def wanted(self, node: Node) -> Any:
        """Return the number of rows that `indices` refer to if they are distinct ones, or None."""
        unique = self._repeated.unique_of.get(node)
        return None if unique is None else self._looked_up[unique]

    def check(self, node: Node, inputs: list[Any]) -> None:
        """Refuse to combine distinct rows with values that have a row for each index.

        Raises:
            NotTraceable: that is so; here each element of the gradient has a row, and many none.
        """
        beside = self._repeated.beside.get(node)
        if not beside:
            return
        rank = max(np.ndim(value) for n, value in enumerate(inputs) if n not in beside)
        shapes = [np.shape(inputs[position]) for position in beside]
        if any(len(shape) > rank or (len(shape) == rank and shape[0] != 1) for shape in shapes):
            raise NotTraceable("the number of its rows depends on the number of distinct values")


def no_row(dtype: np.dtype[Any]) -> Any:
    """Return the index that stands for duplicates: out of range for any variable."""
    return np.iinfo(dtype).max


def distinct(node: Node, values: Any) -> tuple[Any, Any]:
    """Return the outputs of a `Unique` that `SparseDedupAnalysis` accepts.

    Args:
        node: its types count.
        values: numbers of rows.

    Returns:
        The values, `no_row` for those that come again; for each the place of the first like it.
    """
    jnp = jax_module().numpy
    if not isinstance(values, (np.ndarray, jax_module().Array)) or values.ndim != 1:
        raise NotTraceable("its input is not a vector")
    if values.dtype.kind != "i":
        raise NotTraceable(f"it is given {values.dtype}")
    values = jnp.asarray(values)
    places = jnp.arange(values.size, dtype=np.int32)
    first = _first_places(values, places)
    numbers = jnp.where(first == places, values, no_row(values.dtype))
    return numbers, first.astype(node.output_types[1].as_numpy_dtype)


def _first_places(values: Any, places: Any) -> Any:
    """Return for each value the index of its first occurrence."""
    lax, jnp = jax_module().lax, jax_module().numpy
    count = values.size
    size = 1 << (_SPARE * max(count, 1) - 1).bit_length()

    def is_not_done(carried: tuple[Any, Any]) -> Any:
        return jnp.any(carried[1] < 0)

    def turn(carried: tuple[Any, Any]) -> tuple[Any, Any]:
        number, first = carried
        marks = jnp.where(first < 0, _marks(values, number) & np.uint32(size - 1), size)
        table = jnp.full(size, count, np.int32).at[marks].min(places, mode="drop")
        found = jnp.take(table, marks, mode="clip")
        is_equal = (first < 0) & (jnp.take(values, found, mode="clip") == values)
        return number + np.uint32(1), jnp.where(is_equal, found, first)

    start = np.uint32(0), jnp.full(count, -1, np.int32)
    return lax.while_loop(is_not_done, turn, start)[1]


def _marks(values: Any, turn: Any) -> Any:
    """Return a 32-bit hash of each value, different in each round (MurmurHash3's mixing)."""
    bits = values.astype(np.uint64)
    mixed = (bits ^ (bits >> np.uint64(32))).astype(np.uint32) + turn * _GOLDEN
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        mixed = (mixed ^ (mixed >> np.uint32(shift))) * np.uint32(factor)
    return mixed ^ (mixed >> np.uint32(16))
