"""Group the eligible nodes of a graph into clusters.

A cluster must be convex, so that the graph remains acyclic. In topological order each node gets a
depth: at least that of its inputs, odd for an eligible node, even for any other. Depth never
decreases along an edge, so every node on a path between two nodes of one depth has that depth, too.
A connected component of one depth forms a cluster if all its members share the same blocking and
deadness ancestors, so that clustering adds neither waits nor dead values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from graphmill.spi import ControlFlow, topological_order
from graphmill.spi.graphs import analyse_frames, is_constant, is_control_trigger, is_merge
from graphmill_plugins.jit.clustering.contraction import control_inputs
from graphmill_plugins.jit.clustering.pytree_edges import PytreeEdges
from graphmill_plugins.jit.clustering.shared_structures import shared_structures
from graphmill_plugins.jit.idioms.sparse_dedup_analysis import SparseDedupAnalysis
from graphmill_plugins.jit.ir.handles import takes_handle
from graphmill_plugins.jit.ir.invariant_nodes import does_nothing, is_source, is_source_or_argument

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable

    from graphmill.spi import Edge, Graph, Node
    from graphmill_plugins.jit.clustering.eligibility import Eligibility
    from graphmill_plugins.jit.ir.lowering_choices import LoweringChoices

_CALL_WEIGHT: Final = 100  # weight of a node that calls functions
_LAYERS_OF_PART: Final = 40  # at least; XLA takes a second for that many, longer for more parts
_WEIGHT_BYTES_OF_PART: Final = 4 << 20  # at least; reading them takes ten times a program's call
MAX_SIZE: Final = 2500
"""The number of nodes, with those of called functions, above which a cluster is split."""
MIN_SIZE: Final = 2
"""The smallest number of nodes in a cluster, unless the config sets another."""
_SWITCHES: Final = (ControlFlow.SWITCH, ControlFlow.SWITCH_N)
_WAITS, _MAY_BE_DEAD, _SOME_ROWS = (
    "waits",
    "may be dead",
    "has a data-dependent number of rows",
)
_Blockers: TypeAlias = frozenset[tuple[str, int, int]]


def find_clusters(
    graph: Graph,
    eligibility: Eligibility,
    outside: dict[Node, str] | None = None,
    names_variable: Callable[[Node], bool] = is_source_or_argument,
    max_size: int = MAX_SIZE,
) -> list[list[Node]]:
    """Return the clusters of a graph, each in topological order and without constants.

    Args:
        graph: the graph; it is not changed.
        eligibility: decides which nodes can be in a cluster.
        outside: gets the nodes that are in no cluster, with the reason.
        names_variable: whether a node's handles are only of variables.
        max_size: the number of nodes above which a cluster is split (see `splitting`).
    """
    outside = {} if outside is None else outside
    in_loop, waiting = nodes_in_loops(graph), eligibility.waits.among(graph)
    order = topological_order(graph)
    repeated = SparseDedupAnalysis(graph, eligibility.choices)
    refused: dict[Node, str] = {}
    separated = {node for node in order if eligibility.lists.stacks_dynamic_list(node)}
    pytrees = PytreeEdges(eligibility.choices)

    def why_not(node: Node) -> str | None:
        if node not in in_loop and node not in refused and repeated.concerns(node):
            return repeated.why_not(node)
        return refused.get(node) or _why_not(node, in_loop, eligibility)

    while True:
        groups = _grouped(order, waiting, why_not, outside, repeated, separated)
        shared = shared_structures(graph, groups, names_variable, pytrees.carries)
        shared |= repeated.incomplete([frozenset(members) for members in groups])
        if shared.keys() <= refused.keys():
            break
        refused |= shared

    def fits(parts: list[list[Node]]) -> bool:
        """Return whether no structure or pattern of one cluster lies in several parts."""
        shared = shared_structures(graph, parts, names_variable, pytrees.carries)
        return not (shared or repeated.incomplete([frozenset(part) for part in parts]))

    return [
        part for members in groups for part in _parts(members, eligibility, max_size, fits, outside)
    ]


def _parts(
    members: list[Node],
    eligibility: Eligibility,
    max_size: int,
    fits: Callable[[list[list[Node]]], bool],
    outside: dict[Node, str],
) -> list[list[Node]]:
    """Return the parts of a cluster; the cluster itself if it is small or indivisible."""
    size_of = eligibility.size
    size = sum(map(size_of, members))
    max_size = min(max_size, -(-size // _num_stages(members, eligibility.choices)))
    if size <= max_size:
        return [members]
    # Imported here: few graphs are that large.
    from graphmill_plugins.jit.clustering.splitting import READ_BY_SEVERAL, split

    parts = split(members, size_of, max_size)
    if not fits(parts):
        return [members]
    inside = {node for part in parts for node in part}
    outside.update({node: READ_BY_SEVERAL for node in members if node not in inside})
    return parts


def _num_stages(members: list[Node], choices: LoweringChoices) -> int:
    """Return the number of parts in which a deep network is compiled; 1 for other clusters.

    Each part is used as soon as it is ready, so steps become faster long before the whole network
    is compiled. A part has so many layers, and so many weights, that the call of one more program
    is negligible. A cluster that changes variables is not divided: what its forward pass computes
    and its gradients read would be a result of a program.
    """
    weights: dict[Node, int] = {}
    num_layers = 0
    if len(members) < 2 * _LAYERS_OF_PART:
        return 1
    for node in members:
        constants = [edge.src for edge in node.in_edges if is_constant(edge.src)]
        fresh = [one for one in constants if one not in weights]
        if not fresh:
            continue
        kernel = choices.kernel_choice(node)
        if kernel is None or not kernel.definition.expensive:
            continue
        num_layers += 1
        weights.update((one, one.attrs["value"].numpy().nbytes) for one in fresh)
    stages = min(num_layers // _LAYERS_OF_PART, sum(weights.values()) // _WEIGHT_BYTES_OF_PART)
    return stages if stages > 1 and not any(map(takes_handle, members)) else 1


def _grouped(
    order: Iterable[Node],
    waiting: Container[Node],
    why_not: Callable[[Node], str | None],
    outside: dict[Node, str],
    repeated: SparseDedupAnalysis,
    separated: Container[Node],
) -> list[list[Node]]:
    """Return the clusters; nodes in `separated` and their consumers are in different ones."""
    level: dict[Node, tuple[int, _Blockers]] = {}
    chosen: list[Node] = []
    none: _Blockers = frozenset()
    for node in order:
        depth, blockers = 0, none
        for edge in _inputs(node):
            if edge.src in level:
                src_depth, src_blockers = level[edge.src]
                depth = max(depth, src_depth)
                blockers = blockers | src_blockers if blockers != src_blockers else blockers
                if _decides(edge.src) and not edge.is_control:
                    blockers = blockers | {(_MAY_BE_DEAD, edge.src.id, edge.src_output)}
                if edge.src in separated and not edge.is_control:
                    blockers = blockers | {(_SOME_ROWS, edge.src.id, edge.src_output)}
        reason = why_not(node)
        if is_control_trigger(node) and blockers:
            reason = "it is live even where its ancestors may be dead"
        is_member = reason is None
        if reason is not None:
            outside[node] = reason
        if is_source(node) and not control_inputs(node):
            continue
        if is_member:
            chosen.append(node)
        else:
            blockers = _propagated(node, blockers, waits=node in waiting)
        level[node] = (depth + ((depth & 1) != is_member), blockers)
        for earlier in repeated.exclusive_inputs.get(node, ()):
            if is_member and why_not(earlier) is None:
                level[earlier] = level[node]  # deeper than needed; no node has read it yet
    return _connected(chosen, level)


def _decides(node: Node) -> bool:
    """Return whether a node decides which of its outputs are dead."""
    traits = node.op_def.traits
    return traits.gives_dead or traits.control_flow in _SWITCHES


def _propagated(node: Node, blockers: _Blockers, *, waits: bool) -> _Blockers:
    """Return the blocking and deadness ancestors that an unclustered node passes on.

    A `Merge` or a `ControlTrigger` may be alive with dead inputs.
    """
    if is_merge(node) or is_control_trigger(node):
        blockers = frozenset(blocker for blocker in blockers if blocker[0] is not _MAY_BE_DEAD)
    if waits:  # a value received from another device may also be dead
        blockers = blockers | {(_WAITS, node.id, 0), (_MAY_BE_DEAD, node.id, 0)}
    elif node.op_def.traits.is_control_flow and node.op_def.traits.control_flow not in _SWITCHES:
        blockers = blockers | {(_MAY_BE_DEAD, node.id, 0)}
    return blockers


def _why_not(node: Node, in_loop: set[Node], eligibility: Eligibility) -> str | None:
    if node in in_loop:
        return "it is in a v1 control-flow loop that is not functionalized"
    if is_source(node):
        return "copied into each cluster that reads it"
    return eligibility.why_not(node)


def _connected(chosen: list[Node], level: dict[Node, Any]) -> list[list[Node]]:
    """Return the connected components of data edges among nodes at one level."""
    leader: dict[Node, Node] = {node: node for node in chosen}

    def find(node: Node) -> Node:
        while leader[node] is not node:
            leader[node] = leader[leader[node]]
            node = leader[node]
        return node

    for node in chosen:
        for edge in _inputs(node):
            src = edge.src
            if src in leader and level[src] == level[node]:
                leader[find(src)] = find(node)
    groups: dict[Node, list[Node]] = {}
    for node in chosen:
        groups.setdefault(find(node), []).append(node)
    return list(groups.values())


def weight(node: Node, choices: LoweringChoices) -> int:
    """Return the weight of a node in a cluster's size; standalone ops count more."""
    if node.op_def.calls:
        return _CALL_WEIGHT
    if choices.is_standalone(node):
        return MIN_SIZE
    return int(not (node.op_def.traits.forwards or is_source(node) or does_nothing(node)))


def only_store(members: Iterable[Node]) -> bool:
    """Return whether nodes store values in variables and compute nothing."""
    traits = [node.op_def.traits for node in members if not (is_source(node) or does_nothing(node))]
    return any(one.only_stores for one in traits) and all(
        one.only_stores or one.forwards or one.reshapes for one in traits
    )


def _inputs(node: Node) -> list[Edge]:
    return [*node.in_edges, *control_inputs(node)]


def nodes_in_loops(graph: Graph) -> set[Node]:
    """Return the nodes inside v1 loops."""
    if not any(node.op_def.traits.is_control_flow for node in graph.nodes):
        return set()
    frames, _ = analyse_frames(graph)
    return {node for node, path in frames.items() if path}
