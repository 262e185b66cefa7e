"""`XlaCpuDevice`: JAX on the host's processor, treated as a device with its own memory."""

from __future__ import annotations

from typing import Any

from graphmill.errors import InvalidArgumentError
from graphmill.spi import DeviceAttributes, DeviceFactory
from graphmill_plugins._jax import JaxDevice, platform_devices

_MEMORY_LIMIT = 16 << 30  # as TensorFlow reports for its XLA_CPU devices; not enforced


class XlaCpuDevice(JaxDevice):
    """One of JAX's CPU devices; XLA_FLAGS may request several."""


class XlaCpuDeviceFactory(DeviceFactory):
    """Makes `device_count["XLA_CPU"]` devices; none by default."""

    def create_devices(self, config: Any, name_prefix: str) -> list[XlaCpuDevice]:
        """Return the devices of a session.

        Raises:
            InvalidArgumentError: `device_count` requests more devices than JAX has.
        """
        count = config.device_count.get("XLA_CPU", 0) if config is not None else 0
        if not count:
            return []
        jax_devices = platform_devices("cpu")
        if count > len(jax_devices):
            raise InvalidArgumentError(
                f"device_count requests {count} XLA_CPU devices, but JAX has {len(jax_devices)}; "
                f"set XLA_FLAGS=--xla_force_host_platform_device_count={count} before JAX starts"
            )
        return [
            XlaCpuDevice(
                DeviceAttributes(f"{name_prefix}/device:XLA_CPU:{index}", "XLA_CPU", _MEMORY_LIMIT),
                jax_devices[index],
            )
            for index in range(count)
        ]
