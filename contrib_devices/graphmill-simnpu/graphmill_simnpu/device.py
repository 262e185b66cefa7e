"""`SimNpuDevice`: the accelerator as sessions see it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.spi import (
    Device,
    DeviceAttributes,
    DeviceFactory,
    LimitedAllocator,
    as_status,
    errors,
    plugin_settings,
)
from graphmill_simnpu.array import NpuArray, mapped, unwrapped
from graphmill_simnpu.queue import CommandQueue
from graphmill_simnpu.rewrite import fuse

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import Allocator, Graph, OpKernel

_DEFAULT_LIMIT = 1 << 30


class SimNpuDevice(Device):
    """One accelerator.

    Threads: kernels are called by the threads of steps, and only put commands; the queue's worker
    computes.

    Attributes:
        launched: how many commands have been put.
        fail_at: name of a node whose commands fail; for tests of what uses the device.
        fail_after: number of commands after which the device is gone; None for never.
    """

    backends = ("simnpu", "numpy")

    def __init__(self, attributes: DeviceAttributes, settings: dict[str, Any]) -> None:
        super().__init__(attributes)
        self.launched = 0
        self.fail_at: str | None = settings.get("fail_at")
        self.fail_after: int | None = settings.get("fail_after")
        self._queue = CommandQueue(attributes.name)
        self._allocator = LimitedAllocator(attributes.name, attributes.memory_limit)
        self._running = threading.local()  # which node's kernel a thread is in

    def namespace(self, backend: str) -> Any:
        """Return the NumPy namespace; its functions enqueue commands for values of the device."""
        if backend not in self.backends:
            raise errors.InvalidArgumentError(f"{self.name} runs {self.backends}, not {backend!r}")
        return np

    def allocator(self, *, on_host: bool = False) -> Allocator | None:
        """Return the allocator of the device's memory."""
        return None if on_host else self._allocator

    def to_device(self, value: Any) -> NpuArray:
        """Copy a host value synchronously."""
        made = NpuArray(self, getattr(value, "dtype", None))
        made.keep(np.array(value)[()])
        made.get()  # tells if there was no memory for it
        return made

    def to_host(self, value: Any) -> Any:
        """Copy a value to the host; waits until it is computed."""
        return np.array(unwrapped(value))[()]

    def compute_of(self, kernel: OpKernel) -> Callable[..., Any]:
        """Return a function that enqueues a kernel and records the node of its commands.

        The device's own kernels put their commands themselves. A stateful kernel, or one with
        values in host memory, runs in the step's thread on host values; so variables and queues lie
        there. Any other kernel is one command as a whole.
        """
        compute, name, declared = kernel.compute, kernel.node_name, kernel.definition
        running = self._running

        def own(*inputs: Any) -> Any:
            running.node = name
            if not any(isinstance(value, NpuArray) for value in inputs):
                inputs = (self.to_device(inputs[0]), *inputs[1:])  # control flow gives host values
            return compute(*inputs)

        def call(*inputs: Any, **keywords: Any) -> Any:
            running.node = name
            return compute(*inputs, **keywords)

        def put(*inputs: Any) -> Any:
            running.node = name
            return self.launch(compute, inputs, {})

        def on_host(*inputs: Any, **keywords: Any) -> Any:
            running.node = name
            self._check_health(name, self.launched)
            result = compute(*unwrapped(inputs), **keywords)
            is_there = declared.host or declared.host_memory  # where its consumers look for it
            return result if is_there else mapped(self._stored, result)

        if declared.backend == "simnpu":
            return own
        if kernel.op.startswith(("_", "HostConst")) or (declared.host and not declared.stateful):
            return call  # copies and sends know where values are; so does who put them on the host
        return on_host if declared.stateful or declared.host_memory else put

    def launch(
        self, function: Callable[..., Any], args: Any, keywords: Any, dtype: Any = None
    ) -> Any:
        """Put a command: call a function of arrays on values of the device.

        With `dtype` the caller goes on at once and gets the promise of one array. Without it is not
        known what the function gives, so the caller waits.
        """
        node = getattr(self._running, "node", None)
        self.launched += 1
        number = self.launched
        made = NpuArray(self, dtype)
        results: list[Any] = []

        def command() -> None:
            try:
                self._check_health(node, number)
                with np.errstate(all="ignore"):
                    result = function(*unwrapped(args), **unwrapped(keywords))
            except Exception as error:  # noqa: BLE001 - reported to whoever fetches the value
                made.fail(_with_node(error, node))
                return
            if isinstance(result, (np.ndarray, np.generic)) and result.dtype != object:
                made.keep(result)
            else:
                results.append(result)
                made.keep(np.bool_(True))

        self._queue.put(command)
        if dtype is not None:
            return made
        made.get()
        return mapped(self._stored, results[0]) if results else made

    def maybe_rewrite_graph(self, graph: Graph) -> None:
        """Put the device's own op in place of products with bias and ReLU (row P5)."""
        fuse(graph)

    def allocate_memory(self, num_bytes: int) -> Any:
        """Return memory of the device; RESOURCE_EXHAUSTED if there is none left."""
        return self._allocator.allocate(num_bytes)

    def release_memory(self, memory: Any) -> None:
        """Release memory from `allocate_memory`."""
        self._allocator.deallocate(memory)

    def sync(self) -> None:
        """Wait until the queue is empty."""
        self._queue.wait_until_idle()

    def close(self) -> None:
        """Free the device's memory and end its thread."""
        super().close()
        self._queue.close()

    def _stored(self, value: Any) -> Any:
        """Return a value in the device's memory; strings stay on the host."""
        return value if value.dtype == object else self.to_device(value)

    def _check_health(self, node: str | None, number: int) -> None:
        if self.fail_at is not None and node == self.fail_at:
            raise errors.InternalError(
                f"{self.name} cannot do {node}: it is configured to fail there"
            )
        if self.fail_after is not None and number > self.fail_after:
            raise errors.UnavailableError(f"{self.name} is gone after {self.fail_after} commands")


class SimNpuFactory(DeviceFactory):
    """Makes `device_count["SIMNPU"]` devices, none by default.

    Settings, by `custom_optimizers` of the session's configuration under the name "simnpu":
    `memory_limit` (bytes), `fail_at` (a node), `fail_after` (a number of commands).
    """

    def create_devices(self, config: Any, name_prefix: str) -> list[SimNpuDevice]:
        """Return the devices of a session."""
        settings = plugin_settings(config, "simnpu")
        limit = settings.get("memory_limit", _DEFAULT_LIMIT)
        return [
            SimNpuDevice(
                DeviceAttributes(f"{name_prefix}/device:SIMNPU:{index}", "SIMNPU", limit), settings
            )
            for index in range(config.device_count.get("SIMNPU", 0))
        ]


def _with_node(error: Exception, node: str | None) -> errors.OpError:
    """Return an error that names the node whose command failed, not the one that waited for it."""
    status = as_status(error, None)
    return status.locate(node=node) if node is not None else status
