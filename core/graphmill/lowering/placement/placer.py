"""The placer: choose the device of each node, with reasons (clause P1).

Semantics: `tensorflow/core/common_runtime/placer.cc`, `colocation_graph.cc`. Candidates for a node
are the devices that match its request and have kernels for it and for all nodes colocated with it.
Of these, the placer takes the most preferred one; but a node without inputs follows its consumer,
and a node that only reads the shape of its input follows that input.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from graphmill.dtypes import string
from graphmill.errors import InvalidArgumentError
from graphmill.graph.device_name import DeviceName, parse_device_name
from graphmill.graph.node_roles import (
    is_argument,
    is_argument_or_result,
    is_result,
    is_transfer,
)
from graphmill.lowering.kernel_lookup import try_find_kernel
from graphmill.lowering.placement.colocation import (
    ColocationGroups,
    colocated_names,
    merge_requests,
    takes_reference_or_handle,
)
from graphmill.runtime.process.event_log import DEBUG, INFO, is_logged, log_event

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from graphmill.graph.graph import Graph
    from graphmill.graph.node import Node
    from graphmill.runtime.devices.device import Device
    from graphmill.runtime.devices.device_mgr import DeviceMgr
    from graphmill.runtime.kernels.kernel_registry import KernelRegistry

_NONE, _THROUGH_HOST, _NATIVE = 0, 1, 2  # how well a device supports a node
_ANY: Final = DeviceName()


class PlacementRecord(NamedTuple):
    """The placement of one node, with the reason.

    Attributes:
        node, op: name of the node, and its op type.
        requested: the requested device, as written in the node; may be empty.
        device: full name of the assigned device.
        reason: why the placer chose this device.
    """

    node: str
    op: str
    requested: str
    device: str
    reason: str

    def __str__(self) -> str:
        return f"{self.node}: ({self.op}): {self.device} ({self.reason})"


class PlacementOptions(NamedTuple):
    """Options of the placer.

    Attributes:
        devices: the session's devices, the most preferred first.
        kernels: the kernels of the host.
        allow_soft_placement: whether to ignore requests that cannot be met.
        log: whether to log placements, at level INFO of the logger `graphmill.placement`.
        default_device: a device to prefer over all others; None for the order of `devices`.
    """

    devices: DeviceMgr
    kernels: KernelRegistry
    allow_soft_placement: bool = False
    log: bool = False
    default_device: Device | None = None


class _Group:
    """Nodes that must be on the same device.

    Attributes:
        members: nodes of the graph, then further colocated nodes of the session's graph.
        request: the combination of all requests; `requester` is the first node that has one.
    """

    __slots__ = ("candidates", "chosen", "is_soft", "members", "reason", "request", "requester")

    def __init__(self) -> None:
        self.members: list[Node] = []
        self.request = _ANY
        self.requester: Node | None = None
        self.candidates: list[Device] | None = None
        self.is_soft = False
        self.chosen: Device | None = None
        self.reason = ""


def place(
    graph: Graph,
    options: PlacementOptions,
    *,
    full: Graph | None = None,
    pinned: dict[str, str] | None = None,
) -> list[PlacementRecord]:
    """Set `assigned_device` of every node; return the reasons, or an empty list for one device.

    Args:
        graph: the graph to place.
        options: devices, kernels, preferences.
        full: the session's graph, of which `graph` is a part. Requests of its nodes apply to nodes
            that are colocated with them, so every step places a variable on the same device.
        pinned: devices of stateful nodes by name, from earlier steps; new ones are added.

    Raises:
        InvalidArgumentError: a request is malformed or cannot be met, or colocated nodes have
            conflicting requirements; the message lists requests and kernels op by op.
    """
    records: list[PlacementRecord] = []
    if len(options.devices) == 1:
        _place_on_one(graph, options)
    else:
        records = _Placer(graph, options, full, {} if pinned is None else pinned).place()
    if is_logged("placement", DEBUG):
        _log_records(graph, records)
    return records


def check_requests(
    nodes: Sequence[Node], devices: DeviceMgr, *, allow_soft_placement: bool
) -> None:
    """Check that each requested device exists, also for nodes that no step needs.

    Nodes that take a reference or a handle are left out: the request of a variable may override
    theirs, which only the placer knows.

    Args:
        nodes: nodes of the session's graph.
        devices: the session's devices.
        allow_soft_placement: whether only job, replica and task have to exist.

    Raises:
        InvalidArgumentError: a request is malformed, or no device matches it.
    """
    unmet = {node.device for node in nodes} - {""}
    names = [parse_device_name(device.name) for device in devices] if unmet else []
    for node in nodes:
        if not unmet:
            return
        if node.device not in unmet or takes_reference_or_handle(node):
            continue
        request = _request_of(node)
        if allow_soft_placement:
            request = _without_device(request)
        if not any(map(request.matches, names)):
            raise _no_such_device(node, devices)
        unmet.discard(node.device)


def check_groups(graph: Graph, options: PlacementOptions) -> None:
    """Check that colocated nodes of a session's graph can be placed together; assign no devices.

    Raises:
        InvalidArgumentError: as for `place`.
    """
    if len(options.devices) > 1:
        _Placer(graph, options, None, {}).check()


def _place_on_one(graph: Graph, options: PlacementOptions) -> None:
    (device,) = options.devices
    full = parse_device_name(device.name)
    checked = {""}
    for node in graph.nodes:
        if node.device not in checked:
            request = _request_of(node)
            if options.allow_soft_placement:
                request = _without_device(request)
            if not request.matches(full):
                raise _no_such_device(node, options.devices)
            checked.add(node.device)
        node.assigned_device = device.name
        if options.log:
            _log(f"{node.name}: ({node.op}): {device.name}")


class _Placer:
    """Place one graph."""

    def __init__(
        self, graph: Graph, options: PlacementOptions, full: Graph | None, pinned: dict[str, str]
    ) -> None:
        self.graph = graph
        self.options = options
        self.pinned = pinned
        self.names = {device: parse_device_name(device.name) for device in options.devices}
        self.types = {device.device_type: device for device in options.devices}
        self.requests: dict[str, DeviceName] = {}
        self.support: dict[tuple[Node, str], int] = {}
        self.group_of: dict[Node, _Group] = {}
        self._make_groups(full)

    def place(self) -> list[PlacementRecord]:
        generators = []
        for node in self.graph.nodes:
            if _is_generator(node):
                generators.append(node)
            else:
                self._assign(node, self._device_of_input(node))
        for node in generators:
            self._assign(node, self._device_of_consumers(node))
        return [self._record(node) for node in self.graph.nodes]

    def check(self) -> None:
        """Check that each group has a device."""
        for group in dict.fromkeys(self.group_of.values()):
            self._candidates(group)

    def _make_groups(self, full: Graph | None) -> None:
        union = ColocationGroups()
        if full is not None:
            union.add(full.nodes)
        union.add(self.graph.nodes)
        by_root: dict[str, _Group] = {}
        for node in self.graph.nodes:
            group = by_root.setdefault(union.find(node.name), _Group())
            group.members.append(node)
            self.group_of[node] = group
        for node in full.nodes if full is not None else ():
            existing = by_root.get(union.find(node.name))
            if existing is not None and not self.graph.has_node(node.name):
                existing.members.append(node)
        for group in by_root.values():
            self._merge_requests(group)

    def _merge_requests(self, group: _Group) -> None:
        """Combine the requests of a group; some nodes give up theirs if it conflicts.

        As in TensorFlow (`Member::EnsureCompatibilityAcrossResourceEdge`), the request of a
        variable, or the device that it already has, overrides the requests of nodes that take its
        reference or handle: functions that restore variables request the CPU, even for variables on
        other devices. The request of a node overrides those of nodes that name it in their
        colocation attr, as when TensorFlow's Python API imports a graph.
        """
        names = {node.name for node in group.members}
        requesting = [node for node in group.members if self._request(node) != _ANY]
        for node in sorted(requesting, key=lambda node: _precedence(node, names)):
            is_follower = _precedence(node, names) > 0
            soft = self.options.allow_soft_placement and not takes_reference_or_handle(node)
            request = self._request(node)
            merged = merge_requests(request, group.request, soft=soft)
            if merged is not None:
                group.request = merged
                group.requester = group.requester or node
            elif not is_follower:
                raise self._conflict(group, node)
            elif self.options.log:
                _log(f"{node.name}: ({node.op}): the request for {request} is ignored")

    def _request(self, node: Node) -> DeviceName:
        text = node.assigned_device or self.pinned.get(node.name) or node.device
        request = self.requests.get(text)
        if request is None:
            request = self.requests[text] = _request_of(node, text)
        return request

    def _assign(self, node: Node, preferred: tuple[Device, str] | None) -> None:
        group = self.group_of[node]
        if group.chosen is None:
            candidates = self._candidates(group)
            device, reason = candidates[0], self._reason(group, candidates)
            default = self.options.default_device
            if default is not None and self._is_as_good(default, group):
                device, reason = default, "the default device"
            if preferred is not None and self._is_as_good(preferred[0], group):
                device, reason = preferred
            group.chosen, group.reason = device, reason
        node.assigned_device = group.chosen.name
        if node.op_def.is_stateful and not (is_argument_or_result(node) or is_transfer(node)):
            self.pinned[node.name] = node.assigned_device

    def _is_as_good(self, device: Device, group: _Group) -> bool:
        candidates = self._candidates(group)
        return device in candidates and self._support(group, device) == self._support(
            group, candidates[0]
        )

    def _reason(self, group: _Group, candidates: Sequence[Device]) -> str:
        if group.is_soft:
            return f"soft placement: the requested {group.request or 'device'} is not available"
        if group.requester is not None:
            name = group.requester.name
            is_alone = len(group.members) == 1
            return "requested" if is_alone else f"colocated with {name}, which requests it"
        if len({device.device_type for device in candidates}) == 1 < len(self.types):
            return "the only device type with kernels for it"
        return "the preferred device"

    def _candidates(self, group: _Group) -> list[Device]:
        """Return the devices on which the group may be placed, the best first."""
        if group.candidates is None:
            requested = [d for d in self.options.devices if group.request.matches(self.names[d])]
            fitting = self._sorted_by_support(group, requested)
            if not fitting and self.options.allow_soft_placement:
                group.is_soft = True
                fitting = self._sorted_by_support(group, self._soft_devices(group.request))
            if not fitting:
                raise self._impossible(group, requested)
            group.candidates = fitting
        return group.candidates

    def _soft_devices(self, request: DeviceName) -> Sequence[Device]:
        """Return the devices for soft placement: all devices of the requested job and task."""
        task = _without_device(request)
        return [device for device, name in self.names.items() if task.matches(name)]

    def _sorted_by_support(self, group: _Group, devices: Iterable[Device]) -> list[Device]:
        support = {device: self._support(group, device) for device in devices}
        return sorted((d for d in support if support[d]), key=lambda d: -support[d])

    def _support(self, group: _Group, device: Device) -> int:
        if len(self.types) == 1:
            return _NATIVE  # `KernelFactory.choose_all` reports all missing kernels
        return min(
            (self._support_of(n, device) for n in group.members if self._has_kernel(n)),
            default=_NATIVE,
        )

    def _has_kernel(self, node: Node) -> bool:
        return any(self._support_of(node, device) for device in self.types.values())

    def _support_of(self, node: Node, device: Device) -> int:
        key = (node, device.device_type)
        support = self.support.get(key)
        if support is None:
            support = self.support[key] = self._look_up_support(node, device)
        return support

    def _look_up_support(self, node: Node, device: Device) -> int:
        if is_argument_or_result(node) or node.op in self.graph.library:
            return _NATIVE
        choice = try_find_kernel(self.options.kernels, node, device)
        if choice is None:
            return _NONE
        if device.is_host_memory or device.device_type in choice.definition.device:
            return _NATIVE
        types = (*node.input_types, *node.output_types)
        if choice.definition.host or (types and all(t.base_dtype is string for t in types)):
            return _THROUGH_HOST
        return _NATIVE

    def _device_of_input(self, node: Node) -> tuple[Device, str] | None:
        """Return the input's device for a result, or a node that only reads its input's shape."""
        if node.in_edges and (node.op_def.traits.shape_only or is_result(node)):
            src = node.in_edges[0].src
            return self._following(src.assigned_device, f"follows its input {src.name}")
        return None

    def _device_of_consumers(self, node: Node) -> tuple[Device, str] | None:
        """Return the device of a generator's consumers if all are on one device."""
        consumers = [edge.dst for edge in node.out_edges if edge.dst is not self.graph.sink]
        devices = {consumer.assigned_device for consumer in consumers}
        if len(devices) == 1:
            return self._following(devices.pop(), f"follows its consumer {consumers[0].name}")
        if is_argument(node):
            return (
                self.options.devices.host,
                "arguments from several devices are copied to the host",
            )
        return None

    def _following(self, name: str, reason: str) -> tuple[Device, str] | None:
        match = next((device for device in self.options.devices if device.name == name), None)
        return None if match is None else (match, reason)

    def _record(self, node: Node) -> PlacementRecord:
        reason = self.group_of[node].reason
        record = PlacementRecord(node.name, node.op, node.device, node.assigned_device, reason)
        if self.options.log:
            _log(str(record))
        return record

    def _conflict(self, group: _Group, node: Node) -> InvalidArgumentError:
        first = group.requester or node
        return InvalidArgumentError(
            f"Cannot colocate nodes {first.name!r} and {node.name!r}: they must be on one device "
            f"(because of a colocation attr, a reference or a resource), but one requests "
            f"{group.request}, the other {self._request(node)}.\n" + self._details(group),
            node=node.name,
            op_type=node.op,
        )

    def _impossible(self, group: _Group, requested: Sequence[Device]) -> InvalidArgumentError:
        requester = group.requester or group.members[0]
        if not requested:
            return _no_such_device(requester, self.options.devices, str(group.request))
        allowed = f"no device that matches {group.request}" if group.requester else "no device"
        return InvalidArgumentError(
            f"Cannot assign a device for operation {requester.name}: {allowed} has kernels for "
            f"{'it' if len(group.members) == 1 else 'all nodes of its colocation group'}. Set "
            f"allow_soft_placement to allow another device, or change the request.\n"
            + self._details(group),
            node=requester.name,
            op_type=requester.op,
        )

    def _details(self, group: _Group) -> str:
        """List, op by op, the request and which device types have kernels."""
        return "Considered:\n" + "\n".join(self._detail_lines(group))

    def _detail_lines(self, group: _Group) -> Iterator[str]:
        for node in group.members:
            request = f" requests {self._request(node)};" if self._request(node) != _ANY else ""
            kinds = [
                f"{name}: {('no kernel', 'through host memory', 'yes')[self._support_of(node, d)]}"
                for name, d in self.types.items()
            ]
            yield f"  {node.name} ({node.op}):{request} kernels: {', '.join(kinds)}"
        yield f"  devices: {', '.join(device.name for device in self.options.devices)}"


def _precedence(node: Node, members: set[str]) -> int:
    """Return 0 if no other node of a group overrides a node's request, more if one does."""
    if takes_reference_or_handle(node):
        return 2
    return int(any(name in members for name in colocated_names(node) if name != node.name))


def _is_generator(node: Node) -> bool:
    if node.in_edges or len(node.output_types) != 1 or node.output_types[0].is_ref:
        return False
    return any(not edge.is_control for edge in node.out_edges)


def _request_of(node: Node, text: str | None = None) -> DeviceName:
    try:
        return parse_device_name(node.device if text is None else text)
    except InvalidArgumentError as error:
        error.locate(node=node.name, op_type=node.op)
        raise


def _without_device(request: DeviceName) -> DeviceName:
    """Return the job, replica and task of a request, which soft placement keeps."""
    return request._replace(type=None, id=None)


def _no_such_device(node: Node, devices: DeviceMgr, request: str = "") -> InvalidArgumentError:
    task = _without_device(_request_of(node, request or None))
    if any(task.matches(parse_device_name(device.name)) for device in devices):
        kind = _request_of(node, request or None).type
        has_kind = kind is None or any(device.device_type == kind for device in devices)
        more = "" if has_kind else f' (its sessions may need device_count={{"{kind}": 1}})'
        advice = (
            f"Request a device of the session, install a plugin that supplies the device{more}, or "
            "set allow_soft_placement"
        )
    else:
        advice = (
            f"{task} is not a task of the session: connect to its cluster, or clear the devices of "
            "the nodes before creating the session; allow_soft_placement keeps job and task"
        )
    return InvalidArgumentError(
        f"Cannot assign a device for operation {node.name}: it requests "
        f"{request or repr(node.device)}, but available devices are "
        f"[{', '.join(device.name for device in devices)}]. {advice}",
        node=node.name,
        op_type=node.op,
    )


def _log_records(graph: Graph, records: Iterable[PlacementRecord]) -> None:
    reasons = {record.node: record.reason for record in records}
    counts: dict[str, int] = {}
    for node in graph.nodes:
        device = node.assigned_device
        counts[device] = counts.get(device, 0) + 1
        reason = reasons.get(node.name, "the session has one device")
        fields = {"node": node.name, "op": node.op, "device": device, "reason": reason}
        log_event("placement", DEBUG, "node placed", **fields)
    log_event("placement", DEBUG, "graph placed", devices=counts)


def _log(text: str) -> None:
    """Log a placement; where nothing would show it, print it to stderr as TensorFlow does."""
    import logging  # imported lazily: few sessions log placements
    import sys

    logger = logging.getLogger("graphmill.placement")
    if logger.hasHandlers() and logger.isEnabledFor(INFO):
        logger.info("%s", text)
    else:
        print(text, file=sys.stderr)
