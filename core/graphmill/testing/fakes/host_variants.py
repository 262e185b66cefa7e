"""Make copies of a host with a changed device type or executor.

host = with_devices(default_host(), "NPU", lambda device: ...)   # called with each new device
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from graphmill.registry import Provenance, Registry, instance_of
from graphmill.runtime.devices.device import Device, DeviceFactory
from graphmill.runtime.executor import ExecutorFactory

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.plugin.host import Host

OWNER = Provenance("testing", "graphmill", module="graphmill.testing")


class _ChangedFactory(DeviceFactory):
    """Creates the devices of another factory and calls a function with each."""

    def __init__(self, factory: DeviceFactory, change: Callable[[Device], object]) -> None:
        self._factory = factory
        self._change = change

    def create_devices(self, config: Any, name_prefix: str) -> Sequence[Device]:
        devices = self._factory.create_devices(config, name_prefix)
        for device in devices:
            self._change(device)
        return devices


def with_devices(host: Host, device_type: str, change: Callable[[Device], object]) -> Host:
    """Return a host that passes new devices of a type to `change`."""
    other = copy.copy(host)
    other.devices = Registry("device", prepare=instance_of(DeviceFactory))
    for name in sorted(host.devices.keys()):
        factory = host.devices.get(name)
        chosen = _ChangedFactory(factory, change) if name == device_type else factory
        owner = host.devices.provenance(name)
        other.devices.add(name, chosen, owner=owner, priority=host.devices.priority(name))
    return other


def with_executor(host: Host, name: str, factory: ExecutorFactory) -> Host:
    """Return a host with an executor added or replaced."""
    other = copy.copy(host)
    other.executors = Registry("executor", prepare=instance_of(ExecutorFactory))
    for existing in sorted(host.executors.keys()):
        if existing != name:
            owner = host.executors.provenance(existing)
            other.executors.add(existing, host.executors.get(existing), owner=owner)
    other.executors.add(name, factory, owner=OWNER)
    return other
