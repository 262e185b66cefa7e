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

    Threads: the threads of steps call the kernels, which only enqueue commands. The queue's worker
    thread computes.

    Attributes:
        launched: the number of commands enqueued so far.
        fail_at: name of a node whose commands fail; for tests of code that uses the device.
        fail_after: number of commands after which the device is lost; None for never.
    """

    backends = ("simnpu", "numpy")

    def __init__(self, attributes: DeviceAttributes, settings: dict[str, Any]) -> None:
        super().__init__(attributes)
        self.launched = 0
        self.fail_at: str | None = settings.get("fail_at")
        self.fail_after: int | None = settings.get("fail_after")
        self._queue = CommandQueue(attributes.name)
        self._allocator = LimitedAllocator(attributes.name, attributes.memory_limit)
        self._running = threading.local()  # the node whose kernel a thread runs

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
        array = NpuArray(self, getattr(value, "dtype", None))
        array.keep(np.array(value)[()])
        array.get()  # raises if there was no memory for it
        return array

    def to_host(self, value: Any) -> Any:
        """Wait until a value is computed, and copy it to the host."""
        return np.array(unwrapped(value))[()]

    def compute_of(self, kernel: OpKernel) -> Callable[..., Any]:
        """Return a function that enqueues a kernel and records the node of its commands.

        The device's own kernels enqueue their commands themselves. A stateful kernel, or one with
        values in host memory, runs in the step's thread on host values, so variables and queues
        are on the host. Any other kernel is one command.
        """
        compute, name, declared = kernel.compute, kernel.node_name, kernel.definition
        running = self._running

        def own(*inputs: Any) -> Any:
            running.node = name
            # Values from control flow are on the host; one on the device finds the queue.
            if not any(isinstance(value, NpuArray) for value in inputs):
                inputs = (self.to_device(inputs[0]), *inputs[1:])
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
            stays = declared.host or declared.host_memory  # consumers expect it in host memory
            return result if stays else mapped(self._stored, result)

        if declared.backend == "simnpu":
            return own
        is_internal = kernel.op.startswith(("_", "HostConst")) and declared.backend is None
        if is_internal or (declared.host and not declared.stateful):
            return call  # copies, sends and host kernels handle the location of values themselves
        return on_host if declared.stateful or declared.host_memory else put

    def launch(
        self, function: Callable[..., Any], args: Any, keywords: Any, dtype: Any = None
    ) -> Any:
        """Enqueue a command that calls a function of arrays on device values.

        With `dtype`, the call returns at once with a future of one array. Without it, the kind of
        the result is unknown, so the call waits for it.
        """
        node = getattr(self._running, "node", None)
        self.launched += 1
        ordinal = self.launched
        future = NpuArray(self, dtype)
        results: list[Any] = []

        def command() -> None:
            try:
                self._check_health(node, ordinal)
                with np.errstate(all="ignore"):
                    result = function(*unwrapped(args), **unwrapped(keywords))
            except Exception as error:  # noqa: BLE001 - raised where the value is read
                future.fail(_with_node(error, node))
                return
            if isinstance(result, (np.ndarray, np.generic)) and result.dtype != object:
                future.keep(result)
            else:
                results.append(result)
                future.keep(np.bool_(True))

        self._queue.put(command)
        if dtype is not None:
            return future
        future.get()
        return mapped(self._stored, results[0]) if results else future

    def maybe_rewrite_graph(self, graph: Graph) -> None:
        """Replace products with bias and ReLU by the device's fused op (clause P5)."""
        fuse(graph)

    def allocate_memory(self, num_bytes: int) -> Any:
        """Return memory of the device; raise RESOURCE_EXHAUSTED if there is not enough."""
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

    def _check_health(self, node: str | None, ordinal: int) -> None:
        if self.fail_at is not None and node == self.fail_at:
            raise errors.InternalError(
                f"{self.name} cannot run {node}: it is configured to fail there"
            )
        if self.fail_after is not None and ordinal > self.fail_after:
            raise errors.UnavailableError(f"{self.name} was lost after {self.fail_after} commands")


class SimNpuFactory(DeviceFactory):
    """Creates `device_count["SIMNPU"]` devices; none by default.

    The settings are in `custom_optimizers` of the session's configuration, under the name "simnpu":
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
    """Return an error that names the node whose command failed, not the node that waited for it."""
    status = as_status(error, None)
    return status.locate(node=node) if node is not None else status
