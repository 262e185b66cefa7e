"""Fuse `SparseToDense(ComputeAccidentalHits)` into one node that computes the mask.

Sampled losses mask candidates that are true classes. The number of these hits depends on values,
so they cannot be compiled, but the shape of the mask does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill.spi.graphs import is_constant, without_forwarding
from graphmill.spi.passes import is_overridden
from graphmill_plugins.jit.idioms import HITS
from graphmill_plugins.jit.ir.unique_name import unique_name

if TYPE_CHECKING:
    from graphmill.spi import Edge, Graph, Node
    from graphmill.spi.passes import PassOptions

_SAMPLERS: Final = frozenset(
    {
        "AllCandidateSampler",
        "FixedUnigramCandidateSampler",
        "LearnedUnigramCandidateSampler",
        "LogUniformCandidateSampler",
        "ThreadUnsafeUnigramCandidateSampler",
        "UniformCandidateSampler",
    }
)


def mark_accidental_hits(graph: Graph, options: PassOptions) -> None:
    """Fuse hits that only a `SparseToDense` reads, if the candidates are unique."""
    for dense in [node for node in graph.nodes if node.op == "SparseToDense"]:
        between = _between(dense)
        if between is None:
            continue
        hits, shape = between[-1], dense.in_edges[1]
        removed = [dense, *between]
        if any(is_overridden(node, options) for node in removed):
            continue
        before = {edge.src: None for node in removed for edge in node.control_in_edges}
        before.pop(graph.source, None)
        new = graph.add_node(
            unique_name(graph, f"{dense.name}/hits", ()),
            options.host.ops.get("_AccidentalHits"),
            [(edge.src, edge.src_output) for edge in (*hits.in_edges, shape)],
            list(before),
            {"num_true": hits.attrs["num_true"], "Tshape": dense.attrs["Tindices"]},
        )
        new.assigned_device = dense.assigned_device
        graph.replace_node(dense, new)
        graph.withdraw(between)


def _between(dense: Node) -> list[Node] | None:
    """Return the nodes between a `SparseToDense` and its hits, or None for other patterns."""
    pairs, _, values, default = dense.in_edges
    hits, joined = values.src, pairs.src
    if hits.op != HITS or values.src_output != 2 or not _are_unique(hits.in_edges[1]):
        return None
    if joined.op != "ConcatV2" or len(joined.in_edges) != 3 or _constant(default) != 0:
        return None
    if _constant(joined.in_edges[2]) not in (1, -1):
        return None
    chain = [joined]
    for column, edge in enumerate(joined.in_edges[:2]):
        nodes = _as_column(edge)
        if nodes is None or (edge := nodes[-1].in_edges[0]).src is not hits:
            return None
        if edge.src_output != column:
            return None
        chain += nodes
    chain.append(hits)
    readers = [edge for node in chain for edge in node.out_edges if not _is_end(node, edge)]
    inside = {dense, *chain}
    return chain if all(edge.dst in inside and not edge.is_control for edge in readers) else None


def _is_end(node: Node, edge: Edge) -> bool:
    return edge.is_control and edge.dst is node.graph.sink


def _as_column(edge: Edge) -> list[Node] | None:
    """Return the nodes that reshape a vector of integers to a column, last one first."""
    nodes: list[Node] = []
    while (node := edge.src).op in ("Reshape", "Cast"):
        if node.op == "Reshape" and _constant(node.in_edges[1]) != [-1, 1]:
            return None
        nodes.append(node)
        edge = node.in_edges[0]
    return nodes if any(node.op == "Reshape" for node in nodes) else None


def _are_unique(candidates: Edge) -> bool:
    """Return whether candidates come from a sampler that draws without replacement."""
    node, _ = without_forwarding(candidates.src, candidates.src_output)
    return node.op in _SAMPLERS and bool(node.attrs["unique"])


def _constant(edge: Edge) -> Any:
    """Return the value of a constant as a Python object; None for other nodes."""
    node = edge.src
    return np.asarray(node.attrs["value"].numpy()).tolist() if is_constant(node) else None
