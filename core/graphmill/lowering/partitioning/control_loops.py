"""Control loops: drive the receives of a loop that runs on several devices (clause P3).

Semantics: AddControlFlow in `tensorflow/core/graph/graph_partition.cc`. A partition without the
loop's condition does not know the trip count. It gets a small control loop in the same frame,
`Enter -> Merge -> Switch -> NextIteration`, whose `Switch` receives the condition from the device
that computes it; the `Merge` starts the receives of each iteration. Control loops nest like frames:
the `Enter` of an inner one reads the `Merge` of the outer one.

Unlike in TensorFlow, a device that only sends from within a frame gets a control loop, too, so it
computes values from loop invariants in every iteration.

The partition that a master built for a task already has the control loops for transfers between
tasks; they also start receives between devices of the task.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill.dtypes import int32
from graphmill.errors import InvalidArgumentError
from graphmill.graph.algorithms import topological_order
from graphmill.graph.control_flow.frames import FrameInfo, FramePath, analyse_frames, output_frame
from graphmill.graph.device_name import local_name
from graphmill.graph.node_roles import (
    is_enter,
    is_exit,
    is_loop_cond,
    is_merge,
    is_next_iteration,
    is_switch,
)
from graphmill.ops.attrs.attr_types import TensorAttr

if TYPE_CHECKING:
    from graphmill.graph.graph import Graph
    from graphmill.graph.node import Edge, Node
    from graphmill.ops.definition.op_registry import OpRegistry

_PREFIX: Final = "_cloop"
"""Prefix of the names of control loops, as in TensorFlow."""


def colocate_control_flow(graph: Graph) -> None:
    """Move control-flow nodes to the devices of their values, so that fewer edges cross devices.

    A `Switch` or `Exit` moves to the device of its data input; an `Enter` or `NextIteration` to the
    device of the `Merge` that it feeds, else to that of its only consumer.
    """
    order = topological_order(graph)
    for node in reversed(order):
        if is_next_iteration(node) or is_enter(node):
            consumers = [edge.dst for edge in node.out_edges if not edge.is_control]
            merges = [consumer for consumer in consumers if is_merge(consumer)]
            if merges or len(consumers) == 1:
                node.assigned_device = (merges or consumers)[0].assigned_device
    for node in order:
        if is_switch(node) or is_exit(node):
            node.assigned_device = node.in_edges[0].src.assigned_device


class ControlLoops:
    """Add the control loops that a placed graph needs.

    Attributes:
        frames: the frame of each node, including added nodes.
        were_given: whether the graph already had control loops.
    """

    def __init__(self, graph: Graph, ops: OpRegistry) -> None:
        self.graph = graph
        self._ops = ops
        self.frames: dict[Node, FramePath]
        self._infos: dict[FramePath, FrameInfo]
        self.frames, self._infos = analyse_frames(graph)
        self._conditions = {self.frames[node]: node for node in graph.nodes if is_loop_cond(node)}
        self._merges: dict[tuple[FramePath, str], Node] = {
            (self.frames[node], node.assigned_device): node
            for node in graph.nodes
            if is_merge(node) and node.name.startswith(_PREFIX) and self.frames[node]
        }
        self.were_given = bool(self._merges)

    def add(self) -> None:
        """Add control loops for the devices that edges within a frame connect.

        Raises:
            InvalidArgumentError: the frame of such an edge has no `LoopCond`.
        """
        crossing = [
            edge
            for node in self.graph.nodes
            for edge in (*node.in_edges, *node.control_in_edges)
            if edge.src is not self.graph.source
            and edge.src.assigned_device != edge.dst.assigned_device
        ]
        for edge in crossing:
            path = self.frame_of(edge)
            if not path:
                continue
            self._ensure(path, edge.dst.assigned_device, edge)
            condition = self._conditions.get(path)
            if condition is None:
                continue  # it is on another task; the master has added the sender's control loop
            if edge.src.assigned_device != condition.assigned_device:
                self._ensure(path, edge.src.assigned_device, edge)

    def frame_of(self, edge: Edge) -> FramePath:
        """Return the frame of an edge."""
        return output_frame(edge.src, self.frames)

    def merge_of(self, path: FramePath, device: str) -> Node | None:
        """Return the `Merge` of the control loop of a frame on a device, or None."""
        return self._merges.get((path, device))

    def _ensure(self, path: FramePath, device: str, edge: Edge) -> Node:
        """Return the `Merge` of the control loop of a frame on a device; add the loop if needed."""
        existing = self._merges.get((path, device))
        if existing is not None:
            return existing
        condition = self._conditions.get(path)
        if condition is None:
            raise InvalidArgumentError(
                f"A cross-device loop must have a pivot predicate: frame '{'/'.join(path)}' has no "
                f"LoopCond, but its nodes '{edge.src.name}' and '{edge.dst.name}' are on different "
                "devices",
                node=edge.dst.name,
                op_type=edge.dst.op,
            )
        outer = path[:-1]
        source = self._ensure(outer, device, edge) if outer else self._add_start(device, path)
        merge = self._add_loop(path, device, source, condition)
        self._merges[path, device] = merge
        return merge

    def _add_start(self, device: str, path: FramePath) -> Node:
        value = TensorAttr(np.zeros((), np.int32))
        attrs = {"dtype": int32, "value": value}
        return self._add("start", "Const", [], attrs, device, path, ())

    def _add_loop(self, path: FramePath, device: str, source: Node, condition: Node) -> Node:
        parallel = self._infos[path].parallel_iterations
        attrs: dict[str, Any] = {
            "T": int32,
            "frame_name": path[-1].encode("utf-8", "surrogateescape"),
            "is_constant": False,
            "parallel_iterations": parallel,
        }
        enter = self._add("enter", "Enter", [(source, 0)], attrs, device, path, path[:-1])
        merge = self._add_merge(enter, device, path)
        switch = self._add(
            "switch", "Switch", [(merge, 0), (condition, 0)], {"T": int32}, device, path, path
        )
        following = self._add(
            "next", "NextIteration", [(switch, 1)], {"T": int32}, device, path, path
        )
        self.graph.add_edge(following, 0, merge, 1)
        return merge

    def _add_merge(self, enter: Node, device: str, path: FramePath) -> Node:
        """Add a `Merge`, whose second input is connected later, to close the loop."""
        op_def = self._ops.get("Merge")
        name = self._free_name("merge", device, path)
        merge = self.graph.add_unconnected(
            name, op_def, op_def.with_defaults({"T": int32, "N": 2}), device
        )
        self.graph.add_edge(enter, 0, merge, 0)
        merge.assigned_device = device
        self.frames[merge] = path
        return merge

    def _add(
        self,
        role: str,
        op: str,
        inputs: list[tuple[Node, int]],
        attrs: dict[str, Any],
        device: str,
        path: FramePath,
        frame: FramePath,
    ) -> Node:
        op_def = self._ops.get(op)
        name = self._free_name(role, device, path)
        node = self.graph.add_node(
            name, op_def, inputs, attrs=op_def.with_defaults(attrs), device=device
        )
        node.assigned_device = device
        self.frames[node] = frame
        return node

    def _free_name(self, role: str, device: str, path: FramePath) -> str:
        short = local_name(device).replace(":", "_")
        name = f"{_PREFIX}/{'/'.join(path)}/{short}/{role}"
        while self.graph.has_node(name):
            name += "_"
        return name
