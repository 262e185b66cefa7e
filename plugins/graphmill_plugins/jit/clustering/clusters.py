"""Form clusters: groups of nodes that are compiled and replaced by one node each.

`grouping` chooses the nodes of each cluster, `splitting` divides those that are too large, and
`contraction` replaces them.

Semantics: the purpose is that of `tensorflow/compiler/jit/mark_for_compilation_pass.cc`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.spi import OutsideNote, compilation_of
from graphmill.spi.compilers import ShapeSources
from graphmill_plugins.jit.analysis.refusal import refusal_on
from graphmill_plugins.jit.clustering.constant_control_edges import move_constant_control_edges
from graphmill_plugins.jit.clustering.contraction import Contraction
from graphmill_plugins.jit.clustering.eligibility import Eligibility
from graphmill_plugins.jit.clustering.grouping import (
    MAX_SIZE,
    MIN_SIZE,
    find_clusters,
    nodes_in_loops,
    only_store,
    weight,
)
from graphmill_plugins.jit.clustering.inner_clusters import inner_bodies
from graphmill_plugins.jit.ir.cluster_op import STRAIGHT_LINE
from graphmill_plugins.jit.ir.function_bodies import bodies_on
from graphmill_plugins.jit.programs.memory import can_compile_for
from graphmill_plugins.jit.straight.straight_loops import straight_loops

if TYPE_CHECKING:
    from collections.abc import Iterable

    from graphmill.spi import Device, Graph, Node
    from graphmill.spi.passes import PassOptions
    from graphmill_plugins.jit.ir.lowering_choices import LoweringChoices


def form_clusters(graph: Graph, options: PassOptions) -> None:
    """Replace the clusters of one device's graph by `_Cluster` nodes."""
    outside: dict[Node, str] = {}
    devices = _devices(graph, options)
    if all(map(can_compile_for, devices)):
        move_constant_control_edges(graph, nodes_in_loops(graph))
        min_size = options.config.graphmill.jit_min_cluster_size or MIN_SIZE
        refusal = refusal_on(devices, options)
        device = devices[0] if devices else None
        is_on_host = all(one.is_host_memory for one in devices)
        bodies = bodies_on(device, options)
        eligibility = Eligibility(options.host, refusal, device, bodies)
        max_size = options.config.graphmill.jit_max_cluster_size or MAX_SIZE
        shapes = ShapeSources()
        for members in find_clusters(graph, eligibility, outside, max_size=max_size):
            size = _size(members, eligibility.choices, min_size)
            if size < min_size:
                reason = _too_small(size, min_size)
            elif is_on_host and only_store(members):
                reason = _contract_stores(graph, members, options)
            else:
                reason = Contraction(graph, members, options, shapes=shapes).contract()
            outside.update(dict.fromkeys(members, reason) if reason else {})
        loops = straight_loops(
            graph, options.host, nodes_in_loops(graph), refusal, eligibility.choices
        )
        for loop in loops if is_on_host else ():
            contraction = Contraction(graph, [loop], options, STRAIGHT_LINE)
            if not contraction.why_not():
                contraction.functions = inner_bodies(graph, loop, options, device, bodies)
                contraction.reason = _untraced(eligibility.why_not_functions(loop))
                contraction.contract()
                outside.pop(loop, None)
    else:
        outside = dict.fromkeys(graph.nodes, "compilation is not supported on its device")
    compilation_of(graph).outside.extend(
        OutsideNote(node.name, node.op, reason) for node, reason in outside.items()
    )


def _contract_stores(graph: Graph, members: list[Node], options: PassOptions) -> str:
    """Replace nodes that only store values in variables by one node that is never compiled.

    A program would take longer to receive and return the values than generated code to store them.

    Returns:
        Why the nodes cannot be contracted; empty if they were.
    """
    contraction = Contraction(graph, members, options, STRAIGHT_LINE)
    contraction.reason = "they only store values in variables"
    return contraction.contract()


def _untraced(reason: str | None) -> str:
    return "some of its nodes cannot be traced" + (f": {reason}" if reason else "")


def _size(members: Iterable[Node], choices: LoweringChoices, max_weight: int) -> int:
    """Return the weight of a cluster; stop counting at `max_weight`."""
    size = 0
    for node in members:
        size += weight(node, choices)
        if size >= max_weight:
            break
    return size


def _too_small(size: int, min_size: int) -> str:
    nodes = "1 node" if size == 1 else f"{size} nodes"
    return f"its connected component is too small ({nodes}, minimum {min_size})"


def _devices(graph: Graph, options: PassOptions) -> list[Device]:
    names = {node.assigned_device for node in graph.nodes if node.assigned_device}
    return [device for device in options.devices if device.name in names]
