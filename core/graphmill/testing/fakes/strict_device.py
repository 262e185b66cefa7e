"""A NumPy device of type BOXED with memory of its own, on which a missing copy is an error.

A value in the memory of such a device is a `Box` that only the namespace of this device can open. A
host value that reaches a kernel on the device raises an error, and so does a box that reaches the
host or another device. Use the module as a plugin, and request devices with `device_count`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.deprecations import renamed_name
from graphmill.errors import InternalError
from graphmill.plugin.markers import hookimpl
from graphmill.runtime.devices.device import Device, DeviceAttributes, DeviceFactory

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.plugin.registrars import Registrar
    from graphmill.runtime.kernels.op_kernel import OpKernel
    from graphmill.typing import Value


class Box:
    """A value in the memory of a device.

    Attributes:
        owner: the device.
        dtype, shape, ndim: those of the value; they can be read without a copy.
    """

    __slots__ = ("_value", "dtype", "ndim", "owner", "shape")

    def __init__(self, owner: StrictDevice, value: Value) -> None:
        self.owner = owner
        self._value = value
        self.dtype = value.dtype
        self.shape = value.shape
        self.ndim = value.ndim

    def open(self, device: StrictDevice) -> Value:
        """Return the value, for its own device.

        Raises:
            InternalError: the value is in another device's memory.
        """
        if device is not self.owner:
            raise InternalError(
                f"a value of {self.owner.name} reached {device.name} without a copy"
            )
        return self._value

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise InternalError(f"a value of {self.owner.name} reached the host without a copy")

    def __bool__(self) -> bool:
        raise InternalError(f"a value of {self.owner.name} was read on the host without a copy")


class BoxedNamespace:
    """NumPy's functions, on boxes of one device."""

    def __init__(self, device: StrictDevice) -> None:
        self._device = device

    def __getattr__(self, name: str) -> Any:
        function = getattr(np, name)
        if not callable(function) or isinstance(function, type):
            return function

        def call(*args: Any, **keywords: Any) -> Any:
            opened = [self._opened(arg) for arg in args]
            named = {key: self._opened(arg) for key, arg in keywords.items()}
            return self._boxed(function(*opened, **named))

        return call

    def _opened(self, arg: Any) -> Any:
        if isinstance(arg, Box):
            return arg.open(self._device)
        if isinstance(arg, (list, tuple)):
            return type(arg)(self._opened(item) for item in arg)
        if isinstance(arg, (np.ndarray, np.generic)):
            raise InternalError(f"a host value reached a kernel on {self._device.name}")
        return arg

    def _boxed(self, result: Any) -> Any:
        if isinstance(result, (np.ndarray, np.generic)):
            return Box(self._device, result)
        if isinstance(result, (list, tuple)):
            return type(result)(self._boxed(item) for item in result)
        return result


class StrictDevice(Device):
    """Computes with NumPy on boxes.

    Attributes:
        computed: names of the nodes that ran, in order.
        copies_in, copies_out: the number of values copied from the host, and to it.
        fail_at: name of a node whose kernel fails; None for none.
    """

    backends = ("boxed",)

    def __init__(self, attributes: DeviceAttributes) -> None:
        super().__init__(attributes)
        self._namespace = BoxedNamespace(self)
        self.computed: list[str] = []
        self.copies_in = 0
        self.copies_out = 0
        self.fail_at: str | None = None

    def namespace(self, backend: str) -> BoxedNamespace:
        """Return NumPy for boxes of this device."""
        del backend
        return self._namespace

    def to_device(self, value: Value) -> Box:
        """Return a host value in a box.

        Raises:
            InternalError: the value is in a box already.
        """
        if isinstance(value, Box):
            raise InternalError(f"a value of {value.owner.name} was copied to {self.name} directly")
        self.copies_in += 1
        return Box(self, np.array(value) if isinstance(value, np.ndarray) else value)

    def to_host(self, value: Value) -> Value:
        """Return the value of a box.

        Raises:
            InternalError: the value is not a box of this device.
        """
        if not isinstance(value, Box):
            raise InternalError(f"a host value was copied from {self.name}")
        self.copies_out += 1
        return value.open(self)

    def compute_of(self, kernel: OpKernel) -> Callable[..., Any]:
        """Return a function that records the call of the kernel, and fails at `fail_at`."""
        compute = kernel.compute

        def call(*inputs: Any, **keywords: Any) -> Any:
            self.computed.append(kernel.node_name)
            if self.fail_at == kernel.node_name:
                raise RuntimeError("the device has fallen off the bus")
            return compute(*inputs, **keywords)

        return call


class StrictDeviceFactory(DeviceFactory):
    """Creates `device_count["BOXED"]` devices; none by default."""

    def create_devices(self, config: Any, name_prefix: str) -> list[StrictDevice]:
        """Return the devices of a session."""
        count = config.device_count.get("BOXED", 0)
        names = [f"{name_prefix}/device:BOXED:{index}" for index in range(count)]
        return [StrictDevice(DeviceAttributes(name, "BOXED", 1 << 30)) for name in names]


@hookimpl
def graphmill_register_devices(devices: Registrar[DeviceFactory]) -> None:
    """Register the device type with a lower priority than the CPU."""
    devices.add("BOXED", StrictDeviceFactory, priority=10)


def __getattr__(name: str) -> Any:
    """Resolve old names of this module."""
    return renamed_name(__name__, name)
