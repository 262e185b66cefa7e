"""`DeviceMgr`: the devices of a session, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.errors import AlreadyExistsError, InvalidArgumentError
from graphmill.graph.device_name import parse_device_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from graphmill.runtime.devices.device import Device


class DeviceMgr:
    """The devices of one session, in the order in which placement prefers them.

    Raises:
        AlreadyExistsError: two devices have the same name.
        InvalidArgumentError: there is no device.
    """

    def __init__(self, devices: Iterable[Device]) -> None:
        self._devices = list(devices)
        if not self._devices:
            raise InvalidArgumentError(
                "the session has no device: device_count requests none, or no plugin supplies one"
            )
        self._by_name: dict[str, Device] = {}
        for device in self._devices:
            if device.name in self._by_name:
                raise AlreadyExistsError(f"two devices are named {device.name}")
            self._by_name[device.name] = device

    def __iter__(self) -> Iterator[Device]:
        return iter(self._devices)

    def __len__(self) -> int:
        return len(self._devices)

    @property
    def host(self) -> Device:
        """The first CPU device, or the first device if there is no CPU."""
        return next((d for d in self._devices if d.device_type == "CPU"), self._devices[0])

    def matching(self, name: str) -> list[Device]:
        """Return the devices that match a full or partial name, in order of preference."""
        pattern = parse_device_name(name)
        return [d for d in self._devices if pattern.matches(parse_device_name(d.name))]

    def clear_containers(self, containers: Iterable[str]) -> None:
        """Clear containers on all devices; without names, the default container (clause S10)."""
        names = list(containers)
        for device in self._devices:
            for container in names or [device.resource_mgr.default_container]:
                device.resource_mgr.clear_container(container)

    def close(self) -> None:
        """Close all devices."""
        for device in self._devices:
            device.close()
