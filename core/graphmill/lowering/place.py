"""The placer: which device each node runs on (row P1).

Semantics: `tensorflow/core/common_runtime/placer.cc`, as far as one device goes: a request
must name a device that exists, unless soft placement is allowed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.errors import InvalidArgumentError, UnimplementedError

if TYPE_CHECKING:
    from graphmill.graph.graph import Graph
    from graphmill.graph.node import Node
    from graphmill.runtime.device import Device
    from graphmill.runtime.device_mgr import DeviceMgr


def place(graph: Graph, devices: DeviceMgr, *, allow_soft_placement: bool = False) -> Device:
    """Assign a device to every node; return the one device that all of them are on.

    Raises:
        InvalidArgumentError: a node asks for a device that the session does not have, or its name
            is malformed.
        UnimplementedError: the nodes ask for several devices.
    """
    by_request: dict[str, Device] = {}
    for node in graph.nodes:
        device = by_request.get(node.device)
        if device is None:
            device = by_request[node.device] = _choose(node, devices, allow_soft_placement)
        node.assigned_device = device.name
    chosen = _explicit(by_request) or {devices.host}
    if len(chosen) > 1:
        names = ", ".join(sorted(device.name for device in chosen))
        raise UnimplementedError(
            f"the graph asks for several devices ({names}); a step on several devices is not "
            "implemented yet. Clear the device requests, or ask for one device"
        )
    (device,) = chosen
    for node in graph.nodes:
        node.assigned_device = device.name
    return device


def _explicit(by_request: dict[str, Device]) -> set[Device]:
    """Return the devices that nodes asked for; one without a request goes where the others are."""
    return {device for request, device in by_request.items() if request}


def _choose(node: Node, devices: DeviceMgr, allow_soft_placement: bool) -> Device:
    if not node.device:
        return devices.host
    try:
        matching = devices.matching(node.device)
    except InvalidArgumentError as error:
        error.locate(node=node.name, op=node.op)
        raise
    if devices.host in matching:
        return devices.host
    if matching:
        return matching[0]
    if allow_soft_placement:
        return devices.host
    raise InvalidArgumentError(
        f"Cannot assign a device for operation {node.name}: it asks for {node.device!r}, available "
        f"are [{', '.join(device.name for device in devices)}]. Make sure that the request names a "
        "device of the session, install a plugin that supplies it, or set allow_soft_placement",
        node=node.name,
        op=node.op,
    )
