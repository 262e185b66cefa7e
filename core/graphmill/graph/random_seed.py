"""The seed of a graph, and the two seeds of an op that are derived from it.

    graphmill.set_random_seed(7)
    seed, seed2 = graphmill.get_seed(None)

Semantics: tensorflow/python/framework/random_seed.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from graphmill.graph.infer_graph import infer_graph

if TYPE_CHECKING:
    from graphmill.graph.builder import Graph

DEFAULT_GRAPH_SEED: Final = 87654321
"""The first seed of an op with its own seed, in a graph without one."""
_MODULUS: Final = 2**31 - 1


def set_random_seed(seed: int | None, graph: Graph | None = None) -> None:
    """Set the seed of a graph (by default the default graph) for the random ops added from now on.

    None removes the seed: ops without a seed of their own are then different in each session.
    """
    (infer_graph() if graph is None else graph).seed = seed


def get_seed(op_seed: int | None, graph: Graph | None = None) -> tuple[int, int]:
    """Return the attrs `seed` and `seed2` of a random op.

    They depend on the seed of the graph, and on `op_seed` or else on how many ops without a seed
    were added to the graph before. `(0, 0)` means a different seed in each session.

    Args:
        op_seed: the seed of the op, or None.
        graph: the graph of the op, by default the default graph.
    """
    graph = infer_graph() if graph is None else graph
    if graph.seed is None:
        return (0, 0) if op_seed is None else _non_zero(DEFAULT_GRAPH_SEED, op_seed)
    if op_seed is None:
        op_seed = graph.unseeded_op_count
        graph.unseeded_op_count += 1
    return _non_zero(graph.seed, op_seed)


def _non_zero(graph_seed: int, op_seed: int) -> tuple[int, int]:
    seeds = graph_seed % _MODULUS, op_seed % _MODULUS
    return seeds if any(seeds) else (0, _MODULUS)
