"""The effects and the kernel of a node on its device, for code that rewrites graphs.

A pass that merges, folds, removes, moves or replaces nodes must use these functions instead of the
op's declarations alone: a kernel may have more effects than its op declares, a plugin's kernel may
compute something else, and the device determines the kernel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.graph.functions.function_body import instantiate_function
from graphmill.ops.definition.effects import effects_of
from graphmill.runtime.kernels.lowering_registry import supplier_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from graphmill.graph.functions.function_body import FunctionBody
    from graphmill.graph.functions.function_library import FunctionLibrary
    from graphmill.graph.node import Node
    from graphmill.lowering.passes import PassOptions
    from graphmill.ops.definition.op_registry import OpRegistry
    from graphmill.runtime.devices.device import Device
    from graphmill.runtime.kernels.kernel_choice import KernelChoice


def effects_of_node(node: Node, options: PassOptions) -> frozenset[str]:
    """Return the effects of a node: those that its op declares, and those of its kernel."""
    effects = effects_of(node.op_def)
    for choice in kernels_of_node(node, options):
        if choice is not None:
            effects |= choice.definition.effects
    return effects


def function_with_effects(
    name: str, attrs: Mapping[str, Any], library: FunctionLibrary, options: PassOptions
) -> FunctionBody:
    """Return the body of a function, including nodes that run for the effects of their kernels.

    Raises:
        NotFoundError: the function does not exist, or its body has an unknown op.
        InvalidArgumentError: an attr is missing, or the body is malformed.
    """

    def effects(node: Node) -> frozenset[str]:
        return effects_of_node(node, options)

    return instantiate_function(name, attrs, library, options.host.ops, effects)


def kernels_of_node(node: Node, options: PassOptions) -> list[KernelChoice | None]:
    """Return the kernel of a node on its device as a list of one; None if there is no kernel.

    For a node without a device, the list has the kernel for each device of the session.
    """
    find = options.host.kernels.try_find
    return [
        find(node.op_def, node.attrs, device.device_type, device.backends)
        for device in _devices_of(node, options.devices)
    ]


def is_overridden(node: Node, options: PassOptions) -> bool:
    """Return whether a kernel of another supplier than the op's computes a node on its device.

    The supplier of an op declares its traits, and a kernel of another supplier may compute
    something else. So a node for which this returns true must run its kernel: a pass must not
    replace it according to its op's traits.
    """
    ops = options.host.ops
    return any(
        choice is not None and overrides_op(choice, node.op, ops)
        for choice in kernels_of_node(node, options)
    )


def overrides_op(choice: KernelChoice, op: str, ops: OpRegistry) -> bool:
    """Return whether a kernel of an op has another supplier than the op; see `is_overridden`."""
    return supplier_of(choice.owner) != supplier_of(ops.provenance(op))


def _devices_of(node: Node, devices: Iterable[Device]) -> list[Device]:
    listed = list(devices)
    return [device for device in listed if device.name == node.assigned_device] or listed
