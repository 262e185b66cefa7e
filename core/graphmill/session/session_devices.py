"""Create the devices of a session; one faulty factory does not affect others (clause S1)."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from graphmill.errors import InternalError, InvalidArgumentError, OpError
from graphmill.registry import PluginError
from graphmill.runtime.devices.device import Device

if TYPE_CHECKING:
    from graphmill.plugin.host import Host
    from graphmill.proto.config_pb2 import ConfigProto
    from graphmill.registry import Provenance

NAME_PREFIX = "/job:localhost/replica:0/task:0"
"""Job, replica and task of the devices of a session in this process."""


def create_devices(host: Host, config: ConfigProto, name_prefix: str = NAME_PREFIX) -> list[Device]:
    """Return the devices of all types, ordered by priority of the type, then by name of the type.

    If the factory of a third-party plugin fails, or returns something else than devices, there is a
    warning, and the session has the other devices; it fails only if `device_count` asks for the
    type. A type that has no devices though `device_count` asks for it is warned about, with the
    reason: in TensorFlow, too, the number is a maximum. A faulty factory that is built in, or that
    the program passed itself, fails the session.

    Raises:
        InvalidArgumentError: `device_count` asks for a type that is not registered.
        PluginError: a required factory cannot be imported.
        OpError: a required factory failed, or returned something else than devices.
    """
    if config.intra_op_parallelism_threads > 0:
        from graphmill.runtime.process.intra_op import INTRA_OP  # few sessions set it

        INTRA_OP.set_limit(config.intra_op_parallelism_threads)
    types = sorted(host.devices.keys(), key=lambda name: (-host.devices.priority(name), name))
    requested = {name for name, count in config.device_count.items() if count > 0}
    devices: list[Device] = []
    for device_type in types:
        owner = host.devices.provenance(device_type)
        try:
            devices.extend(devices_of(host, device_type, config, name_prefix))
        except OpError as error:
            if device_type in requested or owner.is_required:
                raise
            warnings.warn(f"{error.message}; its devices are not offered", stacklevel=2)
    for name in sorted(requested.difference(device.device_type for device in devices)):
        if name in types:
            reason = host.devices.get(name).why_none()
            warnings.warn(
                f"there is no device of type {name}, which device_count requests: {reason}; "
                "the session runs without it",
                stacklevel=2,
            )
    unknown = sorted(requested.difference(types, {"GPU"}))
    if unknown:
        raise InvalidArgumentError(
            f"device_count requests devices of type {', '.join(unknown)}; registered types: "
            f"{', '.join(types)}. A plugin that supplies the type must be installed"
        )
    return devices


def devices_of(
    host: Host, device_type: str, config: ConfigProto, name_prefix: str = NAME_PREFIX
) -> list[Device]:
    """Return a session's devices of one type.

    Raises:
        PluginError: the factory cannot be imported.
        OpError: it failed, or returned something else than devices; the error names the plugin.
    """
    owner = host.devices.provenance(device_type)
    try:
        created = host.devices.get(device_type).create_devices(config, name_prefix)
        devices = list(created)
        problem = _problem_with(devices, device_type, name_prefix)
    except PluginError:
        raise
    except OpError as error:
        error.locate(plugin=owner.plugin)
        raise
    except Exception as error:
        raise _broken(owner, f"{type(error).__name__}: {error}") from error
    if problem:
        raise _broken(owner, problem)
    return devices


def _problem_with(devices: list[Any], device_type: str, name_prefix: str) -> str:
    """Return the problem with the devices that a factory created, or ""."""
    names = set()
    for device in devices:
        if not isinstance(device, Device):
            return f"its factory created {device!r}, which is not a Device"
        start = f"{name_prefix}/device:{device_type}:"
        if not device.name.startswith(start) or device.device_type != device_type:
            return (
                f"its factory created {device.name} of type {device.device_type}; expected a name "
                f"that begins with {start}"
            )
        if device.name in names:
            return f"its factory created two devices with the name {device.name}"
        names.add(device.name)
    return ""


def _broken(owner: Provenance, problem: str) -> InternalError:
    return InternalError(
        f"{owner} cannot create its devices: {problem}. Disable the plugin "
        f"(GRAPHMILL_DISABLE_PLUGINS={owner.plugin}) to run without them",
        plugin=owner.plugin,
    )
