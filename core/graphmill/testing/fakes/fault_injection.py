"""Inject faults into any device: kernels, copies, memory and transfers.

    faults = Faults(fail_at="y")
    host = with_faults(default_host(), "NPU", faults)
    # sessions over `host` have devices of type NPU whose node "y" fails

The faults can be changed between steps; `Faults()` has none.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from graphmill.deprecations import warn_renamed
from graphmill.errors import ResourceExhaustedError, UnavailableError
from graphmill.ops.definition.op_traits import Boundary
from graphmill.testing.fakes.host_variants import with_devices
from graphmill.testing.timeouts import TIMEOUT

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.ops.definition.op_registry import OpRegistry
    from graphmill.plugin.host import Host
    from graphmill.runtime.devices.device import Device
    from graphmill.runtime.kernels.op_kernel import OpKernel


@dataclass(slots=True)
class Faults:
    """The faults of a device.

    Attributes:
        fail_at: name of a node whose kernel raises an error.
        fail_copy_in, fail_copy_out: whether copies to or from the device fail.
        memory_limit: total bytes that may be copied to the device or created by its kernels; 0 for
            no limit.
        lose_transfers: whether values that the device sends are lost.
        delay_at: name of a node whose kernel waits until `release` is called.
        computed: names of the nodes that ran, in order.
        has_arrived: set when the delayed kernel has been called.
    """

    fail_at: str | None = None
    fail_copy_in: bool = False
    fail_copy_out: bool = False
    memory_limit: int = 0
    lose_transfers: bool = False
    delay_at: str | None = None
    computed: list[str] = field(default_factory=list)
    has_arrived: threading.Event = field(default_factory=threading.Event)
    _is_released: threading.Event = field(default_factory=threading.Event)
    _used: int = 0

    def release(self) -> None:
        """Let the delayed kernel continue."""
        self._is_released.set()

    def let_go(self) -> None:
        """Call `release`; this is its old name."""
        warn_renamed("Faults.let_go", "release")
        self.release()

    def wait_for_delay(self) -> None:
        """Block until `release` is called.

        Raises:
            AssertionError: it is not called within `TIMEOUT` seconds.
        """
        self.has_arrived.set()
        if not self._is_released.wait(TIMEOUT):
            raise AssertionError("the test never called release() for the delayed kernel")

    def use(self, value: Any, device: str) -> None:
        """Add the size of a value to the memory in use.

        Raises:
            ResourceExhaustedError: the limit is exceeded.
        """
        self._used += int(getattr(value, "nbytes", 0) or 0)
        if self.memory_limit and self._used > self.memory_limit:
            raise ResourceExhaustedError(
                f"{device} is out of memory: {self._used} of {self.memory_limit} bytes"
            )


def with_faults(host: Host, device_type: str, faults: Faults) -> Host:
    """Return a host whose devices of a type have `faults`, which may be changed between steps."""

    def change(device: Device) -> None:
        changed: Any = device
        changed.to_device = _copy_in(device, faults)
        changed.to_host = _copy_out(device, faults)
        changed.compute_of = _compute_of(device, faults, host.ops)
        changed.observes_kernels = True

    return with_devices(host, device_type, change)


def _copy_in(device: Device, faults: Faults) -> Callable[[Any], Any]:
    copy = device.to_device

    def to_device(value: Any) -> Any:
        if faults.fail_copy_in:
            raise UnavailableError(f"the link to {device.name} is down")
        faults.use(value, device.name)
        return copy(value)

    return to_device


def _copy_out(device: Device, faults: Faults) -> Callable[[Any], Any]:
    copy = device.to_host

    def to_host(value: Any) -> Any:
        if faults.fail_copy_out:
            raise UnavailableError(f"the link from {device.name} is down")
        return copy(value)

    return to_host


def _compute_of(
    device: Device, faults: Faults, ops: OpRegistry
) -> Callable[[OpKernel], Callable[..., Any]]:
    original = device.compute_of

    def compute_of(kernel: OpKernel) -> Callable[..., Any]:
        compute = original(kernel)
        name, op_def = kernel.node_name, ops.find(kernel.op)
        is_send = op_def is not None and op_def.traits.boundary is Boundary.SEND

        def call(*inputs: Any, **keywords: Any) -> Any:
            faults.computed.append(name)
            if faults.fail_at == name:
                raise RuntimeError("the device has fallen off the bus")
            if faults.delay_at == name:
                faults.wait_for_delay()
            if is_send and faults.lose_transfers:
                return ()
            result = compute(*inputs, **keywords)
            for value in result if isinstance(result, (list, tuple)) else (result,):
                faults.use(value, device.name)
            return result

        return call

    return compute_of
