"""Refuse what a deterministic session cannot give the same results for.

Semantics: `GuardedPhiloxRandom::Init` in `tensorflow/core/util/guarded_philox_random.cc` where
`OpDeterminismRequired`; TensorFlow looks when the kernel is made, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from graphmill.errors import InvalidArgumentError
from graphmill.ops.attr_types import FuncAttr

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from graphmill import proto
    from graphmill.graph.graph import Graph
    from graphmill.graph.node import Node
    from graphmill.ops.op_registry import OpRegistry

_ALWAYS_RANDOM: Final = frozenset({"NonDeterministicInts"})
# They have the attrs and draw nothing by them, or nothing unless they are asked for dropout.
_NOT_RANDOM: Final = frozenset({"AllCandidateSampler", "ComputeAccidentalHits"})
_SEEDS: Final = ("seed", "seed2")


def check_seeds(graph: Graph, ops: OpRegistry) -> None:
    """Check that each random node of a graph, and of the functions that it may call, has a seed.

    Args:
        graph: with its library.
        ops: what the nodes of functions are instances of.

    Raises:
        InvalidArgumentError: one has none; names it.
    """
    library = graph.library
    pending: list[str] = []
    for node in graph.nodes:
        if _needs_seed(node.op) and _is_unseeded(node.op, node.attrs, node.attrs):
            raise _refused(node.name, node.op)
        if len(library):
            pending.extend(_called_by(node))
    seen = set()
    while pending:
        name = pending.pop()
        if name in seen or name not in library:
            continue
        seen.add(name)
        for inner in library.get(name).node_def:
            if _is_unseeded_def(inner, ops):
                raise _refused(f"{inner.name} in function {name}", inner.op)
            pending.extend(_called_by_def(inner))


def _is_unseeded_def(node: proto.NodeDef, ops: OpRegistry) -> bool:
    if not _needs_seed(node.op) or node.op not in ops:
        return False
    declared = {attr.name for attr in ops.get(node.op).attrs}
    values = {key: node.attr[key].i if key in node.attr else 0 for key in _SEEDS}
    return _is_unseeded(node.op, declared, values)


def _needs_seed(op: str) -> bool:
    return op not in _NOT_RANDOM and not op.startswith("Cudnn")


def _is_unseeded(op: str, declared: Iterable[str], values: Any) -> bool:
    if op in _ALWAYS_RANDOM:
        return True
    return all(key in declared for key in _SEEDS) and not any(values[key] for key in _SEEDS)


def _called_by(node: Node) -> Iterator[str]:
    yield node.op
    for value in node.attrs.values():
        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, FuncAttr):
                yield item.name


def _called_by_def(node: proto.NodeDef) -> Iterator[str]:
    yield node.op
    for value in node.attr.values():
        if value.HasField("func"):
            yield value.func.name
        yield from (function.name for function in value.list.func)


def _refused(node: str, op: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        "When determinism is enabled, random ops must have a seed specified. Give the attrs seed "
        "and seed2 values that are not both 0",
        node=node,
        op=op,
    )
