"""`RemoteDevice`: the attributes of a device of another task, for the placer of a master.

Semantics: `tensorflow/core/distributed_runtime/remote_device.cc`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.errors import UnimplementedError
from graphmill.graph.device_name import task_of
from graphmill.runtime.devices.device import Device, DeviceAttributes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from graphmill.plugin.host import Host
    from graphmill.typing import ArrayNamespace, Value


class RemoteDevice(Device):
    """A device of another task; nodes can be placed on it, but run elsewhere.

    Args:
        attributes: its attributes, from its task.
        like: a device of the same type in this process, which runs the same kernels; None if this
            process has no such device.
    """

    def __init__(self, attributes: DeviceAttributes, like: Device | None) -> None:
        super().__init__(attributes)
        if like is not None:
            self.backends = like.backends
            self.is_host_memory = like.is_host_memory
            self.observes_kernels = like.observes_kernels
            self.half_type = like.half_type

    def namespace(self, backend: str) -> ArrayNamespace:
        """Raise: the device belongs to another task.

        Raises:
            UnimplementedError: always.
        """
        raise self._elsewhere(f"compute with {backend}")

    def to_device(self, value: Value) -> Value:
        """Raise: the device belongs to another task.

        Raises:
            UnimplementedError: always.
        """
        del value
        raise self._elsewhere("copy to its memory")

    def to_host(self, value: Value) -> Value:
        """Raise: the device belongs to another task.

        Raises:
            UnimplementedError: always.
        """
        del value
        raise self._elsewhere("copy from its memory")

    def _elsewhere(self, what: str) -> UnimplementedError:
        return UnimplementedError(
            f"cannot {what} here: {self.name} is a device of another task", device=self.name
        )


def attributes_of(message: Any) -> DeviceAttributes:
    """Return the attributes in a `DeviceAttributes` message."""
    return DeviceAttributes(
        message.name,
        message.device_type,
        message.memory_limit,
        message.incarnation,
        message.physical_device_desc,
    )


def remote_devices(
    all_attributes: Iterable[DeviceAttributes],
    master_task: str,
    local: Iterable[Device],
    host: Host,
) -> list[RemoteDevice]:
    """Return the devices of a cluster in the order in which the placer prefers them.

    Types of higher priority come first, then the master's own devices, then by name.

    Args:
        all_attributes: the attributes of all devices of all tasks.
        master_task: the name of the master's task.
        local: devices of this process.
        host: has the registered device types.
    """
    kinds = {device.device_type: device for device in local}

    def rank(attributes: DeviceAttributes) -> tuple[int, bool, str]:
        kind = attributes.device_type
        priority = host.devices.priority(kind) if kind in host.devices else 0
        return -priority, task_of(attributes.name) != master_task, attributes.name

    return [RemoteDevice(a, kinds.get(a.device_type)) for a in sorted(all_attributes, key=rank)]
