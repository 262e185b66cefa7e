"""Find the kernel of a node on a device.

Strings are in host memory on every device. So on a device whose backends do not include NumPy, the
kernel of a node with strings computes on the host, as one that is declared with `host=True`, unless
it is declared for that type of device.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.dtypes import string

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphmill.graph.node import Node
    from graphmill.ops.definition.op_def import OpDef
    from graphmill.runtime.devices.device import Device
    from graphmill.runtime.kernels.kernel_choice import KernelChoice
    from graphmill.runtime.kernels.kernel_registry import KernelRegistry

_HOST_BACKENDS = ("numpy",)


def find_kernel(kernels: KernelRegistry, node: Node, device: Device) -> KernelChoice:
    """Return the kernel for a node on a device, and why the others were rejected.

    Raises:
        NotFoundError: no kernel matches; the message lists the registered ones and the reasons.
        PluginConflictError: two kernels match equally; names both and their plugins.
    """
    choice = _host_kernel(kernels, node.op_def, node.attrs, device)
    if choice is not None:
        return choice
    return kernels.find(node.op_def, node.attrs, device.device_type, device.backends)


def try_find_kernel(kernels: KernelRegistry, node: Node, device: Device) -> KernelChoice | None:
    """Return the result of `find_kernel`, or None instead of raising `NotFoundError`."""
    return try_find_op_kernel(kernels, node.op_def, node.attrs, device)


def try_find_op_kernel(
    kernels: KernelRegistry, op_def: OpDef, attrs: Mapping[str, Any], device: Device
) -> KernelChoice | None:
    """Return the result of `try_find_kernel` for a node with this op and these attrs."""
    choice = _host_kernel(kernels, op_def, attrs, device)
    if choice is not None:
        return choice
    return kernels.try_find(op_def, attrs, device.device_type, device.backends)


def _host_kernel(
    kernels: KernelRegistry, op_def: OpDef, attrs: Mapping[str, Any], device: Device
) -> KernelChoice | None:
    if device.is_host_memory or not set(_HOST_BACKENDS).isdisjoint(device.backends):
        return None
    types = (*op_def.input_types(attrs), *op_def.output_types(attrs))
    if not any(dtype.base_dtype is string for dtype in types):
        return None
    kind = device.device_type
    own = kernels.try_find(op_def, attrs, kind, device.backends)
    if own is not None and kind in own.definition.device:
        return None
    choice = kernels.try_find(op_def, attrs, kind, _HOST_BACKENDS)
    if choice is None:
        return None
    return choice._replace(definition=choice.definition.on_host())
