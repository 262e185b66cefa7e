"""Form clusters: replace each group of connected nodes with PyTorch kernels by one node.

A cluster must be convex. To ensure this, each node gets a depth that is at least that of its
inputs: odd for a node that can join a cluster, even for one that cannot. The depth never decreases
along an edge, so every path between two nodes of equal depth has only nodes of that depth. All
members of a cluster have the same blocking ancestors (receives, queues, calls), so clustering adds
no waits.
Graphs with control flow v1 are not clustered.
"""

from __future__ import annotations

import itertools
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import array_api_compat.torch as xp

from graphmill.spi import (
    COMPILED,
    STRAIGHT_LINE,
    ClusterRecord,
    OpKernelConstruction,
    SignatureRecord,
    bind,
    compilation_of,
    kernels_of,
    topological_order,
)
from graphmill_torch import OWN_KERNELS
from graphmill_torch.cluster_op import CLUSTER, ProgramAttr
from graphmill_torch.program import Program

if TYPE_CHECKING:
    from collections.abc import Iterable

    from graphmill.spi import Device, Edge, Graph, KernelDef, Node

_MIN_SIZE: Final = 2
_CONTROL_FLOW: Final = frozenset({"Switch", "RefSwitch", "_SwitchN", "Merge", "RefMerge", "Enter"})
_WAITING_FAMILIES: Final = frozenset({"data_flow", "functional"})
_ids = itertools.count()


def form_clusters(graph: Graph, device: Device, backend: str) -> int:
    """Replace the clusters of a device's partition; return their number.

    Args:
        graph: the device's partition.
        device: the device.
        backend: the backend of `torch.compile`; "" runs the kernels of a cluster as they are.
    """
    if any(node.op in _CONTROL_FLOW for node in graph.nodes):
        return 0
    clusters = [members for members in _groups(graph) if len(members) >= _MIN_SIZE]
    for members in clusters:
        _replace(graph, members, device, backend)
    return len(clusters)


def _groups(graph: Graph) -> list[list[Node]]:
    """Return the connected components of nodes with equal depth and blocking ancestors."""
    level: dict[Node, tuple[int, frozenset[Node]]] = {}  # depth and blocking ancestors
    leader: dict[Node, Node] = {}
    for node in topological_order(graph):
        depth = 0
        waits: frozenset[Node] = frozenset()
        for edge in _inputs(node):
            if edge.src in level:
                depth = max(depth, level[edge.src][0])
                waits |= level[edge.src][1]
                waits |= {edge.src} if _may_wait(edge.src) else frozenset()
        is_member = _definition(node) is not None
        level[node] = (depth + ((depth & 1) != is_member), waits)
        if is_member:
            leader[node] = node
    for node in leader:
        for edge in node.in_edges:
            if edge.src in leader and level[edge.src] == level[node]:
                leader[_find(leader, edge.src)] = _find(leader, node)
    groups: dict[Node, list[Node]] = {}
    for node in leader:  # in topological order
        groups.setdefault(_find(leader, node), []).append(node)
    return list(groups.values())


def _find(leader: dict[Node, Node], node: Node) -> Node:
    while leader[node] is not node:
        leader[node] = leader[leader[node]]
        node = leader[node]
    return node


def _inputs(node: Node) -> Iterable[Edge]:
    return itertools.chain(node.in_edges, node.control_in_edges)


def _may_wait(node: Node) -> bool:
    return "Recv" in node.op or node.op_def.family in _WAITING_FAMILIES


@cache
def _definitions() -> dict[str, list[KernelDef]]:
    found: dict[str, list[KernelDef]] = {}
    for module in OWN_KERNELS:
        for definition in kernels_of(import_module(f"graphmill_torch.kernels.{module}")):
            for op in definition.ops:
                found.setdefault(op, []).append(definition)
    return found


def _definition(node: Node) -> KernelDef | None:
    """Return the PyTorch kernel of a node if a cluster can run it."""
    for definition in _definitions().get(node.op, ()):
        types = definition.types.items()
        if not definition.static and all(node.attrs[name] in allowed for name, allowed in types):
            return definition
    return None


def _replace(graph: Graph, members: list[Node], device: Device, backend: str) -> None:
    inside = {node: index for index, node in enumerate(members)}
    inputs: dict[tuple[Node, int], int] = {}
    steps = []
    for node in members:
        sources = [
            (inside[edge.src], edge.src_output)
            if edge.src in inside
            else (-1, inputs.setdefault((edge.src, edge.src_output), len(inputs)))
            for edge in node.in_edges
        ]
        steps.append((_bound(node, device), sources))
    leaving = [e for node in members for e in node.out_edges if e.dst not in inside]
    outputs = list(dict.fromkeys((e.src, e.src_output) for e in leaving if not e.is_control))
    program = Program(steps, [(inside[src], output) for src, output in outputs], backend)
    before = {e.src: None for node in members for e in node.control_in_edges}
    attrs: dict[str, Any] = {
        "Tin": tuple(src.output_types[output] for src, output in inputs),
        "Tout": tuple(src.output_types[output] for src, output in outputs),
        "f": ProgramAttr(program),
    }
    cluster = graph.add_node(
        f"{members[-1].name}/torch_cluster_{next(_ids)}",
        CLUSTER,
        list(inputs),
        control_inputs=[src for src in before if src not in inside and src is not graph.source],
        attrs=attrs,
    )
    cluster.assigned_device = members[0].assigned_device
    after = {e.dst: None for e in leaving if e.is_control and e.dst is not graph.sink}
    for follower in after:
        graph.add_control_edge(cluster, follower)
    for index, (src, output) in enumerate(outputs):
        graph.redirect(src, output, cluster, index)
    _record(graph, cluster.name, members, backend)
    graph.withdraw(members)


def _record(graph: Graph, name: str, members: list[Node], backend: str) -> None:
    """Record which nodes were clustered, for `graphmill explain`."""
    signature = SignatureRecord(
        "any shapes",
        tier=COMPILED if backend else STRAIGHT_LINE,
        is_wanted=bool(backend),
        reason="" if backend else "the setting `compile` of torch disables compilation",
    )
    nodes = tuple(node.name for node in members)
    compilation_of(graph).clusters.append(ClusterRecord(name, nodes, signatures=[signature]))


def _bound(node: Node, device: Device) -> Any:
    definition = _definition(node)
    assert definition is not None, node.name  # every member has one
    return bind(definition, OpKernelConstruction(node.name, node.op_def, node.attrs, device, xp))
