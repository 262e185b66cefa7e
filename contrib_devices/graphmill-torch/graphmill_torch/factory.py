"""`TorchFactory`: imports PyTorch only for sessions with TORCH devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.spi import DeviceFactory, errors, plugin_settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.spi import Device


class TorchFactory(DeviceFactory):
    """Creates `device_count["TORCH"]` devices; none by default.

    They are PyTorch's accelerators (CUDA, ROCm, MPS) if there are any, else the CPU.

    The setting `compile` is in `custom_optimizers` of the session's configuration, under the name
    "torch". It names the backend of `torch.compile` ("inductor", "eager" …) for clusters: groups
    of nodes that all have PyTorch kernels. "none" runs clusters uncompiled; "", the default, forms
    no clusters.
    """

    def create_devices(self, config: Any, name_prefix: str) -> Sequence[Device]:
        """Return the devices of a session.

        Raises:
            FailedPreconditionError: PyTorch cannot be imported.
            InvalidArgumentError: more accelerators are requested than PyTorch has.
        """
        count = config.device_count.get("TORCH", 0)
        if not count:
            return []
        try:
            from graphmill_torch.device import make_devices
        except ImportError as error:
            raise errors.FailedPreconditionError(
                f"PyTorch cannot be imported ({error}); install it with pip install torch"
            ) from error
        compile_with = plugin_settings(config, "torch").get("compile", "")
        return make_devices(count, name_prefix, compile_with)
