"""`GpuDevice`: JAX on a GPU.

Semantics of the options: `GPUOptions` in `tensorflow/core/protobuf/config.proto`. JAX is imported
only if the machine may have a GPU, so that sessions on other machines start fast.
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from graphmill.errors import InvalidArgumentError
from graphmill.spi import DeviceAttributes, DeviceFactory
from graphmill.spi.process import JAX_GPU_MEMORY, variables_set
from graphmill_plugins._jax import JaxDevice, platform_devices

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

_PLATFORMS: Final = frozenset({"gpu", "cuda", "rocm"})
_DEVICE_FILES: Final = ("/dev/nvidia0", "/dev/nvidiactl", "/dev/dxg", "/dev/kfd")
_JAX_PLUGINS: Final = (
    "jax_plugins.xla_cuda13",
    "jax_plugins.xla_cuda12",
    "jax_plugins.xla_rocm7",
    "jax_plugins.xla_rocm60",
)


class GpuDevice(JaxDevice):
    """A GPU."""

    half_type = "float16"


class GpuDeviceFactory(DeviceFactory):
    """Makes a device for each GPU that JAX finds and the session's config allows."""

    def create_devices(self, config: Any, name_prefix: str) -> list[GpuDevice]:
        """Return the GPUs of a session.

        `visible_device_list` chooses and orders them, `device_count["GPU"]` limits their number.
        `per_process_gpu_memory_fraction` and `allow_growth` have an effect only until JAX starts
        in this process: it configures its memory once.

        Raises:
            InvalidArgumentError: `visible_device_list` is malformed or names no GPU.
        """
        limit = config.device_count.get("GPU") if config is not None else None
        if limit == 0 or not may_have_gpu():
            return []
        options = config.gpu_options if config is not None else None
        with _memory_settings(options):
            gpus = platform_devices("gpu")
        if options is not None and options.visible_device_list:
            gpus = [gpus[index] for index in _visible(options.visible_device_list, len(gpus))]
        return [_make(name_prefix, index, gpu) for index, gpu in enumerate(gpus[:limit])]

    def why_none(self) -> str:
        """Return why there are no GPUs."""
        return why_no_gpu() or "JAX finds none"


def may_have_gpu() -> bool:
    """Return whether the system may have a GPU, without importing JAX."""
    return not why_no_gpu()


def why_no_gpu() -> str:
    """Return why the system cannot have a GPU, without importing JAX; "" if it may have one."""
    if os.environ.get("CUDA_VISIBLE_DEVICES", "all") in ("", "-1"):
        return "CUDA_VISIBLE_DEVICES hides all GPUs"
    platforms = os.environ.get("JAX_PLATFORMS", "")
    if platforms:
        is_left_out = _PLATFORMS.isdisjoint(platforms.lower().split(","))
        return f"JAX_PLATFORMS={platforms} excludes GPUs" if is_left_out else ""
    if not any(Path(file).exists() for file in _DEVICE_FILES):
        return f"the machine has no GPU driver (none of {', '.join(_DEVICE_FILES)})"
    if not _has_jax_plugin():
        return "JAX's plugin for GPUs is not installed (pip install 'jax[cuda12]')"
    return ""


def _has_jax_plugin() -> bool:
    if importlib.util.find_spec("jax_plugins") is None:
        return False
    return any(importlib.util.find_spec(name) is not None for name in _JAX_PLUGINS)


def _visible(text: str, count: int) -> list[int]:
    """Return the GPU indices in a `visible_device_list` such as "2,0"."""
    entries = [part.strip() for part in text.split(",")]
    chosen = [int(entry) for entry in entries if entry.isascii() and entry.isdigit()]
    if len(chosen) != len(entries) or len(set(chosen)) != len(chosen):
        raise InvalidArgumentError(
            f"Could not parse entry in 'visible_device_list': {text!r}; expected distinct GPU "
            "indices separated by commas, such as '0,1'"
        )
    unknown = [index for index in chosen if index >= count]
    if unknown:
        raise InvalidArgumentError(
            f"'visible_device_list' listed an invalid GPU id {unknown[0]} but visible device count "
            f"is {count}"
        )
    return chosen


def _memory_settings(options: Any) -> AbstractContextManager[None]:
    """Return a context with the environment that JAX reads when it starts its GPU platform."""
    variables: dict[str, str] = {}
    if options is not None and options.allow_growth:
        variables["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    if options is not None and options.per_process_gpu_memory_fraction > 0:
        variables["XLA_PYTHON_CLIENT_MEM_FRACTION"] = str(options.per_process_gpu_memory_fraction)
    return variables_set(JAX_GPU_MEMORY, variables)


def _make(name_prefix: str, index: int, jax_device: Any) -> GpuDevice:
    statistics = jax_device.memory_stats() or {}
    return GpuDevice(
        DeviceAttributes(
            f"{name_prefix}/device:GPU:{index}",
            "GPU",
            int(statistics.get("bytes_limit", 0)),
            physical_device_desc=f"device: {jax_device.id}, name: {jax_device.device_kind}",
        ),
        jax_device,
    )
