"""Reject random ops without a seed in a deterministic session.

Semantics: `GuardedPhiloxRandom::Init` in `tensorflow/core/util/guarded_philox_random.cc` with
`OpDeterminismRequired`; TensorFlow also checks when it creates the kernel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from graphmill.errors import InvalidArgumentError
from graphmill.graph.functions.function_calls import called_functions
from graphmill.ops.definition.effects import randomness_of
from graphmill.ops.definition.op_traits import Randomness

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from graphmill import proto
    from graphmill.graph.graph import Graph
    from graphmill.ops.definition.op_def import OpDef
    from graphmill.ops.definition.op_registry import OpRegistry

_SEEDS: Final = ("seed", "seed2")


def check_seeds(graph: Graph, ops: OpRegistry) -> None:
    """Check that each random node of a graph, and of the functions that it may call, has a seed.

    Args:
        graph: the graph, with its library.
        ops: supplies the ops of nodes in functions.

    Raises:
        InvalidArgumentError: a random node has no seed; the message names it.
    """
    library = graph.library
    pending: list[str] = []
    for node in graph.nodes:
        if _is_unseeded(node.op_def, node.attrs):
            raise _unseeded_error(node.name, node.op)
        if len(library):
            pending.extend(called.name for called in called_functions(node, library))
    seen = set()
    while pending:
        name = pending.pop()
        if name in seen or name not in library:
            continue
        seen.add(name)
        for inner in library.get(name).node_def:
            if _is_unseeded_def(inner, ops):
                raise _unseeded_error(f"{inner.name} in function {name}", inner.op)
            pending.extend(_called_by_def(inner))


def _is_unseeded_def(node: proto.NodeDef, ops: OpRegistry) -> bool:
    op_def = ops.find(node.op)
    if op_def is None:
        return False  # a function of the library
    return _is_unseeded(op_def, {key: node.attr[key].i for key in _SEEDS if key in node.attr})


def _is_unseeded(op_def: OpDef, attrs: Mapping[str, Any]) -> bool:
    randomness = randomness_of(op_def)
    if randomness is Randomness.SEEDED:
        return not any(attrs.get(key) for key in _SEEDS)
    return randomness is Randomness.UNSEEDED


def _called_by_def(node: proto.NodeDef) -> Iterator[str]:
    yield node.op
    for value in node.attr.values():
        if value.HasField("func"):
            yield value.func.name
        yield from (function.name for function in value.list.func)


def _unseeded_error(node: str, op: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        "When determinism is enabled, random ops must have a seed specified. Give the attrs seed "
        "and seed2 values that are not both 0",
        node=node,
        op_type=op,
    )
