"""Move nodes of devices that share host memory to one device, so that they form one program.

Several CPU devices of a process are names for the same cores and the same memory. If the nodes of a
hot graph are distributed among them, each edge between devices ends a cluster and costs a send and
a receive. So stateless nodes move to the host device before the graph is partitioned. Nodes that
use variables, queues and other resources, which belong to a device, are not moved.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill_plugins.jit.clustering.eligibility import Eligibility
from graphmill_plugins.jit.ir.handles import HANDLE_TYPES

if TYPE_CHECKING:
    from graphmill.spi import Device, Graph, Node
    from graphmill.spi.passes import PassOptions


def gather_on_host(graph: Graph, options: PassOptions) -> None:
    """Move stateless nodes of all devices with host memory to the host device."""
    host = options.devices.host
    others = {
        device.name
        for device in options.devices
        if device is not host and type(device) is type(host) and _is_plain(device)
    }
    placed = [node for node in graph.nodes if node.assigned_device in others]
    if not placed or not _is_plain(host):
        return
    eligibility = Eligibility(options.host, device=host)
    for node in placed:
        if _only_computes(node, eligibility):
            node.assigned_device = host.name


def _is_plain(device: Device) -> bool:
    """Return whether a device's kernels compute in host memory, unobserved."""
    return device.is_host_memory and not device.observes_kernels


def _only_computes(node: Node, eligibility: Eligibility) -> bool:
    """Return whether a node computes the same on any device: it uses no resources or state."""
    types = (*node.input_types, *node.output_types)
    if any(dtype.is_ref or dtype.name in HANDLE_TYPES for dtype in types):
        return False
    if node.op_def.calls or node.op in node.graph.library:
        return False  # a body may name variables of the device
    return node.op_def.traits.is_control_flow or eligibility.why_not(node) is None
