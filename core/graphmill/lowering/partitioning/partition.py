"""Partition a graph by device and join the parts with sends and receives (clause P3).

Semantics: `tensorflow/core/graph/graph_partition.cc`. A tensor that crosses devices is sent once to
each device and memory that reads it; a control edge is sent as an empty dummy tensor. In a loop,
the control loop of the frame starts the receives of each iteration (`control_loops`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.dtypes import bfloat16, float32
from graphmill.errors import InvalidArgumentError
from graphmill.graph.graph import Graph
from graphmill.graph.node_roles import is_receive
from graphmill.graph.transfer_ops import NEVER_DEAD_ATTR, signed_incarnation
from graphmill.lowering.partitioning.control_loops import ControlLoops, colocate_control_flow
from graphmill.ops.attrs.attr_types import TensorAttr

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.dtypes import DType
    from graphmill.graph.node import Edge, Node
    from graphmill.lowering.placement.memory_types import MemoryTypeFinder
    from graphmill.ops.definition.op_registry import OpRegistry
    from graphmill.runtime.devices.device import Device
    from graphmill.runtime.devices.device_mgr import DeviceMgr


def partition(
    graph: Graph,
    devices: DeviceMgr,
    ops: OpRegistry,
    memory: MemoryTypeFinder,
    wire_type: Callable[[Edge], DType] | None = None,
) -> list[tuple[Device, Graph]]:
    """Return the non-empty partitions of a graph, in the order of the devices.

    If all nodes are on one device, the result is the graph itself. Otherwise this consumes `graph`:
    it adds control loops to it, and the graph must not be run afterwards.

    Args:
        graph: the graph, whose nodes are assigned to devices.
        devices: all devices.
        ops: supplies the ops of sends and receives.
        memory: determines which ends of edges are in host memory.
        wire_type: returns the element type in which a tensor is sent; None to keep the types.

    Raises:
        InvalidArgumentError: a reference crosses devices, or a loop across devices has no
            condition.
    """
    assigned = {node.assigned_device for node in graph.nodes}
    used = [device for device in devices if device.name in assigned]
    if len(used) <= 1:
        return [(used[0] if used else devices.host, graph)]
    loops = None
    if any(_may_be_dead(node) for node in graph.nodes):
        loops = ControlLoops(graph, ops)
        if not loops.were_given:
            colocate_control_flow(graph)
        loops.add()
    parts = _Partitioner(graph, used, ops, memory, loops, wire_type or base_type).split()
    return [(device, part) for device, part in parts if len(part)]


def base_type(edge: Edge) -> DType:
    """Return the element type of an edge's value, without the reference."""
    return edge.src.output_types[edge.src_output].base_dtype


class _Partitioner:
    """Split one graph."""

    def __init__(
        self,
        graph: Graph,
        devices: list[Device],
        ops: OpRegistry,
        memory: MemoryTypeFinder,
        loops: ControlLoops | None,
        wire_type: Callable[[Edge], DType],
    ) -> None:
        self.graph = graph
        self.ops = ops
        self.memory = memory
        self.loops = loops
        self.wire_type = wire_type
        self.devices = {device.name: device for device in devices}
        self.parts = {device.name: _empty_like(graph) for device in devices}
        self.copies: dict[Node, Node] = {}
        self.num_edges = 0
        # Nodes that receive a value, by its producer and output, the device, and `to_host`.
        self.received: dict[tuple[Node, int, str, bool], Node] = {}

    def split(self) -> list[tuple[Device, Graph]]:
        for name, part in self.parts.items():
            own = [node for node in self.graph.nodes if node.assigned_device == name]
            self.copies.update(part.copy_nodes(own))
        for node in self.graph.nodes:
            self._connect(node)
        return [(self.devices[name], part) for name, part in self.parts.items()]

    def _connect(self, node: Node) -> None:
        copy = self.copies[node]
        part = copy.graph
        for position, edge in enumerate(node.in_edges):
            if edge.src.assigned_device == node.assigned_device:
                part.add_edge(self.copies[edge.src], edge.src_output, copy, position)
            else:
                part.add_edge(self._receive(edge), 0, copy, position)
        sources = []
        for edge in node.control_in_edges:
            if edge.src is self.graph.source:
                continue
            is_local = edge.src.assigned_device == node.assigned_device
            sources.append(self.copies[edge.src] if is_local else self._receive(edge))
        part.add_control_edges(sources, copy)

    def _receive(self, edge: Edge) -> Node:
        """Return the node that replaces an edge's producer on the device of its consumer."""
        source = self.devices[edge.src.assigned_device]
        target = self.devices[edge.dst.assigned_device]
        from_host, to_host, is_ref = False, False, False
        if not edge.is_control:
            from_host = self.memory.output_on_host(edge, source)
            to_host = self.memory.input_on_host(edge, target)
            is_ref = edge.src.output_types[edge.src_output].is_ref
            _check_no_ref(edge)
        key = (edge.src, edge.src_output, target.name, to_host)
        receive = self.received.get(key)
        if receive is None or is_ref:
            # Sending a reference reads its value. So each consumer gets its own transfer, which
            # waits for the control inputs of that consumer.
            attrs = self._transfer_attrs(edge, source, target)
            self._add_send(edge, "_HostSend" if from_host else "_Send", attrs, is_ref)
            receive = self._add_recv(edge, "_HostRecv" if to_host else "_Recv", attrs)
            self.received[key] = receive
        return receive

    def _transfer_attrs(self, edge: Edge, source: Device, target: Device) -> dict[str, Any]:
        self.num_edges += 1
        return {
            "tensor_name": f"edge_{self.num_edges}_{edge.src.name}".encode(),
            "send_device": source.name.encode(),
            "send_device_incarnation": signed_incarnation(source.attributes.incarnation),
            "recv_device": target.name.encode(),
            "client_terminated": False,
        }

    def _add_send(self, edge: Edge, op: str, attrs: dict[str, Any], is_ref: bool) -> None:
        producer = self.copies[edge.src]
        part, device = producer.graph, edge.src.assigned_device
        if edge.is_control:
            dummy = {"dtype": float32, "value": TensorAttr(np.zeros((0,), np.float32))}
            const = self._add(part, f"{producer.name}/_dummy", "Const", [], dummy, device)
            part.add_control_edge(producer, const)
            value, dtype = (const, 0), float32
        else:
            value = (producer, edge.src_output)
            dtype, own = self.wire_type(edge), base_type(edge)
            if dtype is not own:
                value = (self._add_cast(part, value, own, dtype, op, device), 0)
        name = f"{producer.name}/_send"
        send = self._add(part, name, op, [value], {**attrs, "T": dtype}, device)
        if is_ref:
            before = [e.src for e in edge.dst.control_in_edges if e.src.assigned_device == device]
            part.add_control_edges([self.copies[src] for src in before], send)

    def _add_recv(self, edge: Edge, op: str, attrs: dict[str, Any]) -> Node:
        """Add the receiver; return the node that consumers read, an `Identity` for a control edge.

        The `Identity` makes the nodes that it controls dead if the receiver gets a dead tensor.
        """
        device = edge.dst.assigned_device
        part = self.parts[device]
        dtype = float32 if edge.is_control else self.wire_type(edge)
        attrs = {**attrs, "tensor_type": dtype}
        if self.loops is None:
            attrs[NEVER_DEAD_ATTR] = True
        recv = self._add(part, f"{edge.src.name}/_recv", op, [], attrs, device)
        if self.loops is not None:
            merge = self.loops.merge_of(self.loops.frame_of(edge), device)
            if merge is not None:
                part.add_control_edge(self.copies[merge], recv)
        if not edge.is_control:
            own = base_type(edge)
            return recv if dtype is own else self._add_cast(part, (recv, 0), dtype, own, op, device)
        return self._add(part, f"{recv.name}_ctl", "Identity", [(recv, 0)], {"T": dtype}, device)

    def _add_cast(
        self,
        part: Graph,
        value: tuple[Node, int],
        source: DType,
        target: DType,
        transfer: str,
        device: str,
    ) -> Node:
        """Add the cast to or from the wire type, in the memory of the transfer."""
        op = "_HostCast" if transfer.startswith("_Host") else "Cast"
        attrs = {"SrcT": source, "DstT": target, "Truncate": target is bfloat16}
        return self._add(part, f"{value[0].name}/_cast", op, [value], attrs, device)

    def _add(
        self,
        part: Graph,
        name: str,
        op: str,
        inputs: list[tuple[Node, int]],
        attrs: dict[str, Any],
        device: str,
    ) -> Node:
        suffix = 0
        free = name
        while self.graph.has_node(free) or part.has_node(free):
            suffix += 1
            free = f"{name}_{suffix}"
        op_def = self.ops.get(op)
        node = part.add_node(free, op_def, inputs, attrs=op_def.with_defaults(attrs), device=device)
        node.assigned_device = device
        return node


def _may_be_dead(node: Node) -> bool:
    """Return whether an output of a node may be dead although its inputs are alive."""
    from_another_task = is_receive(node) and NEVER_DEAD_ATTR not in node.attrs
    return node.op_def.traits.may_be_dead or from_another_task


def _empty_like(graph: Graph) -> Graph:
    empty = Graph()
    empty.library = graph.library
    empty.versions = graph.versions
    return empty


def _check_no_ref(edge: Edge) -> None:
    if edge.dst.input_types[edge.dst_input].is_ref:
        raise InvalidArgumentError(
            f"'{edge.dst.name}' on {edge.dst.assigned_device} takes a reference to "
            f"'{edge.src.name}' on {edge.src.assigned_device}; references cannot cross devices",
            node=edge.dst.name,
            op_type=edge.dst.op,
        )
