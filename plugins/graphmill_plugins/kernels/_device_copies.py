"""Copy values between devices for kernels that call a function on another device."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from graphmill.spi import Device, Value

_OBJECT = np.dtype(object)


def moved(value: Value, source: Device, target: Device) -> Value:
    """Return a value copied to another device; strings and handles stay in host memory."""
    return value if source is target else to_device(to_host(value, source), target)


def to_host(value: Value, device: Device) -> Value:
    """Return a device's value in host memory, copied if it is elsewhere."""
    return value if device.is_host_memory or _is_always_host(value) else device.to_host(value)


def to_device(value: Value, device: Device) -> Value:
    """Return a host value in a device's memory, copied if necessary."""
    return value if device.is_host_memory or _is_always_host(value) else device.to_device(value)


def _is_always_host(value: Value) -> bool:
    dtype = getattr(value, "dtype", _OBJECT)  # an object in a variant may have any `dtype`
    return not isinstance(dtype, np.dtype) or dtype.hasobject
