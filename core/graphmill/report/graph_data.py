"""The graph of a report: nodes with device, tier and costs, and the groupings to draw them in."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from graphmill.report.groupings import (
    Grouping,
    frame_path,
    function_path,
    grouping,
    scope_path,
)
from graphmill.report.traced_steps import short_device

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from graphmill.explain.step import NodeRecord, StepRecord
    from graphmill.report.graph_nodes import GraphNodes
    from graphmill.report.groupings import Path
    from graphmill.report.traced_steps import TracedStep

_NOT_RUN: Final = "not run"
_NOT_RUN_REASON: Final = "it was folded, merged or pruned before the step, or is in a function"


class _Table:
    """Values that are stored once, with the index of each."""

    def __init__(self) -> None:
        self.values: dict[Hashable, int] = {}

    def index(self, value: Hashable) -> int:
        return self.values.setdefault(value, len(self.values))


def graph_data(
    nodes: GraphNodes, record: StepRecord, step: TracedStep | None, max_nodes: int
) -> tuple[dict[str, Any], dict[str, int]]:
    """Return the graph as plain values, and the positions of its nodes by name.

    Args:
        nodes: the nodes.
        record: the devices and tiers of the nodes that run.
        step: the step whose times are shown; None if none ran.
        max_nodes: with more nodes, those of each name scope become one.

    Returns:
        Columns: `name`, `op`, `inputs` (`~position` for control inputs), `device`, `tier`,
        `reason`, `cluster`, `kernel`, `attrs` (indices into the lists of `tables`), `time`
        (nanoseconds), `bytes`, `constants`, `loops_back`, `calls`, and `groupings`.
    """
    scopes = grouping("scope", "Name scopes", nodes, partial(scope_path, nodes))
    if len(nodes) > max_nodes:
        return _reduced(nodes, scopes), {}
    records = {one.node: one for one in record.nodes}
    run_records = [records.get(name) for name in nodes.names]
    tables = {
        name: _Table() for name in ("op", "device", "tier", "reason", "cluster", "kernel", "attrs")
    }
    columns: dict[str, list[int]] = {name: [] for name in tables}
    for position, one in enumerate(run_records):
        values = {
            "op": nodes.ops[position],
            "device": short_device(one.device) if one else "",
            "tier": one.tier if one else _NOT_RUN,
            "reason": one.tier_reason if one else _NOT_RUN_REASON,
            "cluster": one.cluster if one else "",
            "kernel": f"{one.kernel} ({one.backend})" if one and one.kernel else "",
            "attrs": nodes.attrs[position],
        }
        for name, value in values.items():
            columns[name].append(tables[name].index(value))
    totals = step.totals if step else {}
    costs = [totals.get(name) for name in nodes.names]
    graph = {
        "is_reduced": False,
        "num_nodes": len(nodes),
        "name": nodes.names,
        "inputs": nodes.inputs,
        **columns,
        "time": [total.nanoseconds if total else 0 for total in costs],
        "bytes": [total.num_bytes if total else 0 for total in costs],
        "constants": sorted(nodes.constants),
        "loops_back": sorted(nodes.loops_back),
        "calls": {str(position): names for position, names in nodes.calls.items()},
        "tables": {name: list(table.values) for name, table in tables.items()},
        "groupings": [tree.as_dict() for tree in (scopes, *_other_groupings(nodes, run_records))],
    }
    return graph, {name: position for position, name in enumerate(nodes.names)}


def _other_groupings(nodes: GraphNodes, records: Sequence[NodeRecord | None]) -> list[Grouping]:
    """Return the groupings by function, frame, cluster and device that have more than one group."""

    def cluster_path(position: int) -> Path:
        one = records[position]
        return ((one.cluster, "cluster"),) if one and one.cluster else ()

    def device_path(position: int) -> Path:
        one = records[position]
        return ((short_device(one.device), "device"),) if one else ((_NOT_RUN, "device"),)

    groupings = []
    if any(nodes.functions):
        groupings.append(grouping("function", "Functions", nodes, partial(function_path, nodes)))
    if any(nodes.frames):
        groupings.append(grouping("frame", "Loop frames", nodes, partial(frame_path, nodes)))
    if any(one and one.cluster for one in records):
        groupings.append(grouping("cluster", "Clusters", nodes, cluster_path))
    groupings.append(grouping("device", "Devices", nodes, device_path))
    return groupings


def _reduced(nodes: GraphNodes, scopes: Grouping) -> dict[str, Any]:
    """Return a graph in which one node stands for the nodes of each group."""
    counts: dict[int, int] = {}
    for group in scopes.of:
        counts[group] = counts.get(group, 0) + 1
    positions = {group: position for position, group in enumerate(counts)}
    inputs: list[dict[int, None]] = [{} for _ in positions]
    for position, sources in enumerate(nodes.inputs):
        target = positions[scopes.of[position]]
        for source in sources:
            group_node = positions[scopes.of[max(source, ~source)]]
            if group_node != target:
                inputs[target][group_node] = None
    of_groups = Grouping(
        scopes.key, scopes.title, scopes.parents, scopes.labels, scopes.kinds, list(positions)
    )
    zeros = [0] * len(positions)
    return {
        "is_reduced": True,
        "num_nodes": len(nodes),
        "name": [f"{count:,} nodes" for count in counts.values()],
        "inputs": [list(sources) for sources in inputs],
        **dict.fromkeys(
            ("op", "device", "tier", "reason", "cluster", "kernel", "attrs", "time", "bytes"), zeros
        ),
        "constants": [],
        "loops_back": [],
        "calls": {},
        "tables": {
            key: [""] for key in ("op", "device", "tier", "reason", "cluster", "kernel", "attrs")
        },
        "groupings": [of_groups.as_dict()],
    }
