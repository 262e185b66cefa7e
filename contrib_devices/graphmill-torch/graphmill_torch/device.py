"""`TorchDevice`: a PyTorch device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import array_api_compat.torch as xp
import numpy as np
import torch

from graphmill.spi import Device, DeviceAttributes, errors
from graphmill_torch.array import TorchArray, from_numpy, unwrapped, wrapped
from graphmill_torch.clusters import form_clusters

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import Graph, OpKernel

_HOST_MEMORY = 16 << 30  # reported for a CPU, but not enforced


class TorchDevice(Device):
    """A PyTorch device.

    The kernels of this plugin compute with PyTorch through `array_api_compat`. All other kernels
    compute with NumPy, in the same memory if PyTorch computes on the CPU.

    Attributes:
        where: the `torch.device`.
        compile_with: a backend of `torch.compile` for clusters, "none", or "" for no clusters.
    """

    backends = ("torch", "numpy")
    general_backend = "numpy"

    def __init__(
        self, attributes: DeviceAttributes, where: torch.device, compile_with: str = ""
    ) -> None:
        super().__init__(attributes)
        self.where = where
        self.compile_with = compile_with

    def namespace(self, backend: str) -> Any:
        """Return PyTorch's namespace, or NumPy."""
        if backend not in self.backends:
            raise errors.InvalidArgumentError(f"{self.name} runs {self.backends}, not {backend!r}")
        return xp if backend == "torch" else np

    def to_device(self, value: Any) -> Any:
        """Return a copy of a host value."""
        return from_numpy(np.array(unwrapped(value)), self.where)

    def to_host(self, value: Any) -> Any:
        """Wait until a value is computed, and return a copy."""
        return np.array(unwrapped(value))[()]

    def compute_of(self, kernel: OpKernel) -> Callable[..., Any]:
        """Return a function that unwraps the inputs of a kernel and wraps its outputs."""
        compute, declared = kernel.compute, kernel.definition
        if declared.host or declared.stateful:
            return compute
        if declared.backend == "torch":
            return _on_torch(compute, self.where)
        if declared.host_memory:
            return lambda *inputs: compute(*unwrapped(inputs))
        where = self.where
        return lambda *inputs: wrapped(compute(*unwrapped(inputs)), where)

    def maybe_rewrite_graph(self, graph: Graph) -> None:
        """Form clusters if the session's configuration enables them (clause P5)."""
        if self.compile_with:
            form_clusters(graph, self, "" if self.compile_with == "none" else self.compile_with)

    def sync(self) -> None:
        """Wait until all enqueued work has finished."""
        if self.where.type == "cuda":
            torch.cuda.synchronize(self.where)
        elif self.where.type == "mps":
            torch.mps.synchronize()


def make_devices(count: int, name_prefix: str, compile_with: str = "") -> list[TorchDevice]:
    """Return devices on PyTorch's accelerators, or on the CPU if it has none.

    Raises:
        InvalidArgumentError: more accelerators are requested than PyTorch has.
    """
    return [
        TorchDevice(
            DeviceAttributes(
                f"{name_prefix}/device:TORCH:{index}",
                "TORCH",
                _memory_of(where),
                physical_device_desc=str(where),
            ),
            where,
            compile_with,
        )
        for index, where in enumerate(_torch_devices(count))
    ]


def _torch_devices(count: int) -> list[torch.device]:
    if torch.cuda.is_available():
        if count > torch.cuda.device_count():
            raise errors.InvalidArgumentError(
                f"device_count requests {count} devices of type TORCH, but PyTorch has "
                f"{torch.cuda.device_count()}"
            )
        return [torch.device("cuda", index) for index in range(count)]
    if torch.backends.mps.is_available():
        return [torch.device("mps")] * count
    return [torch.device("cpu")] * count


def _memory_of(where: torch.device) -> int:
    if where.type != "cuda":
        return _HOST_MEMORY
    total: int = torch.cuda.get_device_properties(where).total_memory
    return total


def _on_torch(compute: Callable[..., Any], where: torch.device) -> Callable[..., Any]:
    """Return a kernel for PyTorch as a function of device values."""

    def call(*inputs: Any) -> Any:
        try:
            with torch.no_grad():
                result = compute(*[_tensor(value, where) for value in inputs])
        except errors.OpError:
            raise
        except torch.OutOfMemoryError as error:
            raise errors.ResourceExhaustedError(f"{where} is out of memory: {error}") from error
        except RuntimeError as error:  # PyTorch raises it for incompatible shapes
            raise errors.InvalidArgumentError(str(error)) from error
        if isinstance(result, torch.Tensor):
            return TorchArray(result)
        return tuple(TorchArray(item) for item in result)

    return call


def _tensor(value: Any, where: torch.device) -> Any:
    """Return the PyTorch tensor of a value; values from control flow are NumPy arrays."""
    if isinstance(value, (np.ndarray, np.generic)):
        value = from_numpy(value, where)
    return value.tensor if isinstance(value, TorchArray) else value
