"""`CallableRewrites`: tensor connections and devices requested by `CallableOptions` (clause S7)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from graphmill.errors import InvalidArgumentError, NotFoundError
from graphmill.graph.device_name import parse_device_name
from graphmill.graph.node import parse_tensor_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from graphmill.graph.graph import Graph
    from graphmill.graph.node import Node
    from graphmill.runtime.devices.device_mgr import DeviceMgr

    Tensor = tuple[Node, int]


class CallableRewrites(NamedTuple):
    """Changes to a client graph beyond its feeds, fetches and targets; compares by value.

    Attributes:
        connections: pairs of tensor names; consumers of the second tensor read the first instead.
        feed_devices, fetch_devices: pairs of a tensor's name and the device on which it is fed or
            fetched.
        skips_sync: whether its steps end before the devices have finished (`fetch_skip_sync`).
    """

    connections: tuple[tuple[str, str], ...] = ()
    feed_devices: tuple[tuple[str, str], ...] = ()
    fetch_devices: tuple[tuple[str, str], ...] = ()
    skips_sync: bool = False


def callable_rewrites(options: Any, full: Graph, devices: DeviceMgr) -> CallableRewrites | None:
    """Return the rewrites that `CallableOptions` request, or None if they only have a signature.

    Semantics: `LookupDevice` and `ValidateFeedAndFetchDevices` in
    `tensorflow/core/common_runtime/graph_execution_state.cc`.

    Raises:
        InvalidArgumentError: a device does not exist, or its tensor does not.
    """
    rewrites = CallableRewrites(
        tuple(
            (_full_name(c.from_tensor), _full_name(c.to_tensor)) for c in options.tensor_connection
        ),
        _checked_devices(options.feed_devices, full, devices),
        _checked_devices(options.fetch_devices, full, devices),
        options.fetch_skip_sync,
    )
    return None if rewrites == CallableRewrites() else rewrites


def _full_name(tensor: str) -> str:
    name, output = parse_tensor_name(tensor)
    return f"{name}:{output}"


def _checked_devices(
    requested: Mapping[str, str], full: Graph, devices: DeviceMgr
) -> tuple[tuple[str, str], ...]:
    names = [device.name for device in devices]
    for tensor, device in requested.items():
        if not full.has_node(parse_tensor_name(tensor)[0]):
            raise InvalidArgumentError(
                f"Tensor {tensor}, specified in either feed_devices or fetch_devices was not found "
                "in the Graph"
            )
        if device in names:
            continue
        try:
            parse_device_name(device)
        except InvalidArgumentError:
            raise InvalidArgumentError(
                f"Invalid device name ('{device}') provided for the tensor '{tensor}' in "
                "CallableOptions"
            ) from None
        raise InvalidArgumentError(
            f"Device '{device}' specified for tensor '{tensor}' in CallableOptions does not exist; "
            f"expected the full name of one of {', '.join(names)}"
        )
    return tuple(sorted((_full_name(tensor), device) for tensor, device in requested.items()))


def joined_tensors(
    full: Graph, rewrites: CallableRewrites, fed: Iterable[Tensor], fetched: Iterable[Tensor]
) -> dict[Tensor, Tensor]:
    """Return the replacement of each tensor that a connection replaces.

    Semantics: `TensorConnectionPruneRewrite` in `graph_execution_state.cc`.

    Raises:
        InvalidArgumentError: a connection's first tensor does not exist, its second is also fed or
            fetched, or it would create a cycle.
        NotFoundError: a connection's second tensor does not exist.
    """
    all_fed, all_fetched = set(fed), set(fetched)
    joined: dict[Tensor, Tensor] = {}
    for source, target in rewrites.connections:
        before = _tensor(full, source)
        if before is None:
            raise InvalidArgumentError(
                f'Requested tensor connection for "{target}" from unknown tensor "{source}".'
            )
        after = _tensor(full, target)
        if after is None:
            raise NotFoundError(
                f"a tensor connection replaces the tensor {target!r}, which does not exist"
            )
        if after in all_fed:
            raise InvalidArgumentError(f'Endpoint "{target}" fed more than once.')
        if after in all_fetched:
            raise InvalidArgumentError(f"{target} is both fed and fetched.")
        all_fed.add(after)
        joined[after] = before
        readers = {edge.dst for edge in after[0].out_edges if edge.src_output == after[1]}
        if readers & _needed_by(before[0], joined):
            raise InvalidArgumentError(
                f'Requested tensor connection from "{source}" to "{target}" would create a cycle.'
            )
    return joined


def _needed_by(node: Node, joined: Mapping[Tensor, Tensor]) -> set[Node]:
    needed = {node}
    stack = [node]
    while stack:
        for edge in stack.pop().in_edges:
            src, _ = joined.get((edge.src, edge.src_output), (edge.src, 0))
            if src not in needed:
                needed.add(src)
                stack.append(src)
    return needed


def _tensor(full: Graph, tensor: str) -> Tensor | None:
    name, output = parse_tensor_name(tensor)
    if not full.has_node(name):
        return None
    node = full.node(name)
    return (node, output) if 0 <= output < node.num_outputs else None
