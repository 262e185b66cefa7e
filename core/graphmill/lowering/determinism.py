"""Refuse what a deterministic session cannot give the same results for.

Semantics: `GuardedPhiloxRandom::Init` in `tensorflow/core/util/guarded_philox_random.cc` where
`OpDeterminismRequired`; TensorFlow looks when the kernel is made, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from graphmill.errors import InvalidArgumentError

if TYPE_CHECKING:
    from graphmill.graph.graph import Graph
    from graphmill.graph.node import Node

_ALWAYS_RANDOM: Final = frozenset({"NonDeterministicInts"})
# They have the attrs and draw nothing by them, or nothing unless they are asked for dropout.
_NOT_RANDOM: Final = frozenset({"AllCandidateSampler", "ComputeAccidentalHits"})


def check_seeds(graph: Graph) -> None:
    """Check that each random node of a graph has a seed.

    Raises:
        InvalidArgumentError: one has none; names it.
    """
    for node in graph.nodes:
        if _is_unseeded(node):
            raise InvalidArgumentError(
                "When determinism is enabled, random ops must have a seed specified. Give the "
                "attrs seed and seed2 values that are not both 0",
                node=node.name,
                op=node.op,
            )


def _is_unseeded(node: Node) -> bool:
    if node.op in _ALWAYS_RANDOM:
        return True
    attrs = node.attrs
    if "seed" not in attrs or "seed2" not in attrs or node.op in _NOT_RANDOM:
        return False
    return not (attrs["seed"] or attrs["seed2"] or node.op.startswith("Cudnn"))
