"""Run op cases in sessions on one device, and check that kernels do not change their inputs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import errors, proto
from graphmill.graph.device_name import parse_device_name
from graphmill.lowering.kernel_lookup import try_find_op_kernel
from graphmill.runtime.resources.variables import ResourceHandle, Variable
from graphmill.session.session import Session
from graphmill.testing.case_graph import case_types, node_attrs
from graphmill.testing.fakes.host_variants import with_devices
from graphmill.testing.runners.kernel_runner import NotApplicableError
from graphmill.testing.runners.session_runner import SessionRunner

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.plugin.host import Host
    from graphmill.runtime.devices.device import Device
    from graphmill.runtime.kernels.op_kernel import OpKernel
    from graphmill.testing.case import Case
    from graphmill.testing.case_graph import CaseGraph
    from graphmill.testing.case_inputs import Values
    from graphmill.testing.golden import CaseResult


class DeviceRunner(SessionRunner):
    """Run each case in a session of its own, its op placed on a device.

    Args:
        host: the host of the sessions.
        device: name of the device.
        config: the `ConfigProto` of the sessions.
        skips: whether a case that the device has no kernel for is not applicable; otherwise the
            result is the session's error.
    """

    def __init__(self, host: Host, device: str, config: Any, *, skips: bool = True) -> None:
        self._type = parse_device_name(device).type or ""
        self._written: list[str] = []
        super().__init__(with_devices(host, self._type, self._guard), device)
        self._config = config
        self._skips = skips
        self._closed: Device | None = None

    def run(self, case: Case) -> CaseResult:
        """Run a case.

        Raises:
            NotApplicableError: the device has no kernel for it.
            AssertionError: a kernel wrote to an input.
        """
        if self._skips and not self._has_kernel(case):
            raise NotApplicableError(f"{self._type} has no kernel for {case.op} with these types")
        self._written.clear()
        result = super().run(case)
        if self._written:
            raise AssertionError(f"{case.op}: {self._written[0]}")
        return replace(result, outputs=tuple(map(self._as_on_cpu, result.outputs)))

    def _as_on_cpu(self, value: Values) -> Values:
        """Replace this device's name by the CPU's in an output, as in TensorFlow's results."""
        if value.dtype != object:
            return value
        own = f"/device:{self._type}:".encode()
        out = np.empty(value.size, object)
        out[:] = [item.replace(own, b"/device:CPU:") for item in value.reshape(-1).tolist()]
        return out.reshape(value.shape)

    def _has_kernel(self, case: Case) -> bool:
        if case.program is not None:
            return True  # soft placement finds a device for each of its nodes
        op_def = self._host.ops.get(case.op)
        try:
            attrs = node_attrs(op_def, case_types(case), case.attrs)
        except errors.OpError:
            return True  # the attrs are invalid: the session reports it
        return try_find_op_kernel(self._host.kernels, op_def, attrs, self._example()) is not None

    def _example(self) -> Device:
        """Return a closed device of the type, which has its kernels."""
        if self._closed is None:
            prefix = "/job:localhost/replica:0/task:0"
            devices = self._host.devices.get(self._type).create_devices(self._config, prefix)
            if not devices:
                raise errors.NotFoundError(f"there is no device of type {self._type}")
            for device in devices:
                device.close()
            self._closed = devices[0]
        return self._closed

    def _session(self, graph: CaseGraph) -> Any:
        config = proto.ConfigProto()
        config.CopyFrom(self._config)
        if len(graph.graph_def.node) > 1 + len(graph.feeds):
            config.allow_soft_placement = True
        return Session(graph=graph.graph_def, host=self._host, config=config)

    def _guard(self, device: Device) -> None:
        """Watch each kernel of a device for writes to its inputs."""
        original = device.compute_of
        written = self._written

        def compute_of(kernel: OpKernel) -> Callable[..., Any]:
            compute = original(kernel)
            if kernel.definition.async_:
                return compute

            def call(*inputs: Any, **keywords: Any) -> Any:
                before = [_snapshot(value, device) for value in inputs]
                result = compute(*inputs, **keywords)
                for index, (value, was) in enumerate(zip(inputs, before, strict=True)):
                    if was is not None and _snapshot(value, device) != was:
                        written.append(
                            f"the kernel {kernel.definition.source} wrote to its input {index}, "
                            "whose array other nodes may share"
                        )
                return result

            return call

        device.compute_of = compute_of  # type: ignore[method-assign]
        device.observes_kernels = True


def _snapshot(value: Any, device: Device) -> bytes | None:
    """Return the bytes of a tensor; None for other values."""
    if isinstance(value, (Variable, ResourceHandle)) or not hasattr(value, "dtype"):
        return None
    if not isinstance(value, (np.ndarray, np.generic)):
        try:
            value = device.to_host(value)
        except errors.OpError:
            return None  # not a tensor of the device
    if not isinstance(value, (np.ndarray, np.generic)) or value.dtype.hasobject:
        return None
    return value.tobytes()
