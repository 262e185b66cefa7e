"""Turn a client graph into a graph for each task: place, bind feeds and fetches, partition.

Semantics: `BuildAndRegisterPartitions` in `tensorflow/core/distributed_runtime/master_session.cc`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from graphmill import proto
from graphmill.distributed.worker.task_collectives import note_members
from graphmill.graph.device_name import task_of
from graphmill.graph.formats.import_export import graph_to_graph_def
from graphmill.graph.node_roles import is_receive, is_send
from graphmill.graph.transfer_ops import NEVER_DEAD_ATTR, signed_incarnation
from graphmill.lowering.functions.function_bodies import placement_options
from graphmill.lowering.functions.inline_call import is_plain_call
from graphmill.lowering.functions.inner_nodes import enclosing_node
from graphmill.lowering.partitioning.partition import partition
from graphmill.lowering.partitioning.receive_scheduling import schedule_receives, start_times
from graphmill.lowering.partitioning.wire_types import wire_type_of
from graphmill.lowering.passes import run_passes
from graphmill.lowering.placement.memory_types import MemoryTypeFinder
from graphmill.lowering.placement.placer import place
from graphmill.runtime.rendezvous import RendezvousKey

if TYPE_CHECKING:
    from collections.abc import Collection

    from graphmill.graph.graph import Graph
    from graphmill.graph.node import Node
    from graphmill.lowering.passes import PassOptions
    from graphmill.runtime.devices.device import Device


class TaskGraph(NamedTuple):
    """The partition of one task.

    Attributes:
        graph_def: the graph to register.
        feed_keys, fetch_keys: the rendezvous keys of its feeds and fetches, by tensor name.
    """

    graph_def: proto.GraphDef
    feed_keys: dict[str, str]
    fetch_keys: dict[str, str]


class TaskGraphMaker:
    """Creates the graphs that a session registers with its tasks.

    Threads: the session calls it under its graph lock.

    Args:
        options: config, devices of all tasks, host.
    """

    def __init__(self, options: PassOptions) -> None:
        self._options = options
        self._devices: dict[str, Device] = {d.name: d for d in options.devices}
        self._pinned: dict[str, str] = {}
        self._num_names = 0

    def make(self, graph: Graph, full: Graph) -> dict[str, TaskGraph]:
        """Return the graphs of the participating tasks, by task name.

        Args:
            graph: the client graph, with the client's sends and receives; it is consumed.
            full: the session's graph, of which it is a part.

        Raises:
            OpError: the graph cannot be placed or partitioned, or a pass refused it.
        """
        options = self._options
        place(graph, placement_options(options, None), full=full, pinned=self._pinned)
        for phase in ("POST_PLACEMENT", "POST_REWRITE_FOR_EXEC"):
            run_passes(phase, graph, options)
        note_members(graph, [device.attributes for device in options.devices])
        ends = [node for node in graph.nodes if node.attrs.get("client_terminated")]
        graphs: dict[str, TaskGraph] = {}
        for node in ends:
            if is_send(node):
                node.assigned_device = node.in_edges[0].src.assigned_device
        for node in ends:
            self._bind(node, graphs)
        memory = MemoryTypeFinder(options.host.kernels)
        graph_options, ops = options.config.graph_options, options.host.ops
        times = start_times(graph) if graph_options.enable_recv_scheduling else {}
        wire_type = wire_type_of(graph_options)
        known = {node.name for node in graph.nodes if _is_known(node.name, full)}
        for device, part in partition(graph, options.devices, ops, memory, wire_type):
            schedule_receives(part, times, ops)
            self._add(part, known, _part_of(device.name, graphs).graph_def)
        return graphs

    def _bind(self, end: Node, graphs: dict[str, TaskGraph]) -> None:
        """Receive a feed, or send a fetch, on the device of its node."""
        device = self._devices[end.assigned_device].attributes
        tensor = end.attrs["tensor_name"].decode("utf-8", "surrogateescape")
        # What is fed may be fetched as well: the two must not take each other's value.
        edge = f"{'fetch' if is_send(end) else 'feed'}_{tensor}"
        key = str(RendezvousKey(device.name, device.incarnation, device.name, edge))
        end.attrs = {
            **end.attrs,
            "tensor_name": edge.encode("utf-8", "surrogateescape"),
            "send_device": device.name.encode(),
            "send_device_incarnation": signed_incarnation(device.incarnation),
            "recv_device": device.name.encode(),
        }
        part = _part_of(device.name, graphs)
        (part.feed_keys if is_receive(end) else part.fetch_keys)[tensor] = key

    def _add(self, part: Graph, known: Collection[str], whole: proto.GraphDef) -> None:
        """Add the partition of a device to the graph of its task; all share the library."""
        for node in part.nodes:
            if NEVER_DEAD_ATTR in node.attrs:
                node.attrs = {k: v for k, v in node.attrs.items() if k != NEVER_DEAD_ATTR}
        message = graph_to_graph_def(part)
        self._make_names_unique(message, known)
        whole.ClearField("library")
        whole.ClearField("versions")
        whole.MergeFrom(message)

    def _make_names_unique(self, message: proto.GraphDef, known: Collection[str]) -> None:
        """Rename nodes that are not `known`, because the names of two devices may collide.

        Workers store stateful kernels by name for the session, so a name must not be reused in
        another graph either.
        """
        new: dict[str, str] = {}
        for node in message.node:
            if node.name not in known:
                self._num_names += 1
                new[node.name] = f"{node.name}_G{self._num_names}"
        for node in message.node:
            node.name = new.get(node.name, node.name)
            node.input[:] = [_renamed(text, new) for text in node.input]


def _is_known(name: str, full: Graph) -> bool:
    """Return whether a name denotes one node in all graphs: in `full`, or inside a call."""
    if full.has_node(name):
        return True
    call = enclosing_node(full, name)
    return call is not None and is_plain_call(call)


def _renamed(text: str, new: dict[str, str]) -> str:
    is_control = text.startswith("^")
    name, colon, output = text.removeprefix("^").partition(":")
    return f"{'^' if is_control else ''}{new.get(name, name)}{colon}{output}"


def _part_of(device: str, graphs: dict[str, TaskGraph]) -> TaskGraph:
    return graphs.setdefault(task_of(device), TaskGraph(proto.GraphDef(), {}, {}))
