"""JAX, imported when the first device that needs it is made, and the base of those devices.

TensorFlow graphs are full of 64-bit numbers, so everything is done in JAX's 64-bit mode. It is
switched on for the running thread around each call only: a program's own use of JAX is left alone.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.errors import InvalidArgumentError
from graphmill.runtime.device import Device, DeviceAttributes
from graphmill.spi.process import JAX_DISPATCH

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.runtime.kernel import OpKernel
    from graphmill.typing import ArrayNamespace, Value


def jax_module() -> Any:
    """Return the module `jax`, importing it at the first call."""
    return importlib.import_module("jax")


def cpu_devices() -> list[Any]:
    """Return JAX's CPU devices; they compute in the caller's thread if JAX has not run before.

    By default JAX dispatches each call to a thread of its own and its caller waits for that, which
    costs more than most steps. JAX reads the option when it first runs and never again: a program
    that has run JAX before keeps what it has.
    """
    jax = jax_module()
    if not JAX_DISPATCH.is_enabled:
        return list(jax.devices("cpu"))
    option = "jax_cpu_enable_async_dispatch"
    before = jax.config.read(option)
    jax.config.update(option, False)
    try:
        return list(jax.devices("cpu"))
    finally:
        jax.config.update(option, before)


def platform_devices(platform: str) -> list[Any]:
    """Return JAX's devices of a platform; none if JAX has no such platform here."""
    try:
        return cpu_devices() if platform == "cpu" else list(jax_module().devices(platform))
    except RuntimeError:  # what JAX says of a platform that it cannot start
        return []


class JaxDevice(Device):
    """A device of JAX. Its values are JAX arrays; NumPy arrays that kernels return are taken too.

    JAX computes in the background: kernels return before their values are there, and `to_host` and
    `sync` wait for them.

    Attributes:
        jax_device: the device as JAX knows it.
    """

    backends = ("jax",)

    def __init__(self, attributes: DeviceAttributes, jax_device: Any) -> None:
        super().__init__(attributes)
        jax = jax_module()
        self.jax_device = jax_device
        self._numpy: ArrayNamespace = importlib.import_module("jax.numpy")
        self._array = jax.Array
        self._put = jax.device_put
        self._enable_x64 = jax.enable_x64
        self._default_device = jax.default_device

    def namespace(self, backend: str) -> ArrayNamespace:
        """Return `jax.numpy`, the only backend.

        Raises:
            InvalidArgumentError: another backend is asked for.
        """
        if backend != "jax":
            raise InvalidArgumentError(f"device {self.name} runs backend jax, not {backend!r}")
        return self._numpy

    def to_device(self, value: Value) -> Value:
        """Return a host value as an array of this device, in memory of its own.

        JAX would share memory that happens to be aligned, or still be reading it afterwards.
        """
        with self._enable_x64(True):
            return self._put(np.array(value), self.jax_device)

    def to_host(self, value: Value) -> Value:
        """Return a value as NumPy array, or scalar for rank 0; waits until it is computed."""
        array = np.asarray(value)
        return array if array.ndim else array[()]

    def compute_of(self, kernel: OpKernel) -> Callable[..., Any]:
        """Return the kernel's function, called in 64-bit mode on this device."""
        compute = kernel.compute
        if kernel.definition.host:
            return compute
        enable_x64, default_device = self._enable_x64, self._default_device
        device = self.jax_device

        def call(*inputs: Any, **keywords: Any) -> Any:
            with enable_x64(True), default_device(device):
                return compute(*inputs, **keywords)

        return call

    def sync(self) -> None:
        """Wait until all that was started is done."""
        self._put(np.float32(0), self.jax_device).block_until_ready()
        jax_module().effects_barrier()
