"""What a node may do on the device that it is placed on, for whatever rewrites graphs.

A pass that merges, folds, drops or moves nodes asks here, and not the op alone: a kernel may do
more than its op declares, and which kernel a node gets depends on its device.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.graph.functions.function_body import instantiate_function
from graphmill.ops.definition.effects import effects_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from graphmill.graph.functions.function_body import FunctionBody
    from graphmill.graph.functions.function_library import FunctionLibrary
    from graphmill.graph.node import Node
    from graphmill.lowering.passes import PassOptions
    from graphmill.runtime.devices.device import Device
    from graphmill.runtime.kernels.kernel_registry import KernelChoice


def effects_of_node(node: Node, options: PassOptions) -> frozenset[str]:
    """Return the effects of a node: those that its op declares, and those of its kernel."""
    found = effects_of(node.op_def)
    for choice in kernels_of_node(node, options):
        if choice is not None:
            found |= choice.definition.effects
    return found


def function_with_effects(
    name: str, attrs: Mapping[str, Any], library: FunctionLibrary, options: PassOptions
) -> FunctionBody:
    """Return the body of a function, with the nodes that run for what their kernels do.

    Raises:
        NotFoundError: there is no such function, or its body has an unknown op.
        InvalidArgumentError: an attr is missing, or the body is malformed.
    """

    def effects(node: Node) -> frozenset[str]:
        return effects_of_node(node, options)

    return instantiate_function(name, attrs, library, options.host.ops, effects)


def kernels_of_node(node: Node, options: PassOptions) -> list[KernelChoice | None]:
    """Return the kernel that a node gets on its device, None if there is none.

    A node that has no device yet may come to any of the session's: then one for each of them.
    """
    find = options.host.kernels.try_find
    return [
        find(node.op_def, node.attrs, device.device_type, device.backends)
        for device in _devices_of(node, options.devices)
    ]


def _devices_of(node: Node, devices: Iterable[Device]) -> list[Device]:
    listed = list(devices)
    return [device for device in listed if device.name == node.assigned_device] or listed
