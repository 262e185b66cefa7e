"""Devices of type SIMNPU: a simulated accelerator that uses the whole plugin interface.

It computes in the background from a command queue, has memory of its own with a limit, brings
kernels and an op of its own, and rewrites its partition of a graph to use that op.
"""

from __future__ import annotations

from typing import Any

from graphmill.spi import hookimpl

GRAPHMILL_SPI = ">=1.2,<2"
FUSED_OP = "SimNpu>MatMulBiasRelu"


@hookimpl
def graphmill_register_ops(ops: Any) -> None:
    """Register the fused op, which replaces three nodes."""
    from graphmill_simnpu.fused_op import MAT_MUL_BIAS_RELU

    ops.add(MAT_MUL_BIAS_RELU)


@hookimpl
def graphmill_register_kernels(kernels: Any) -> None:
    """Register the device's kernels, and a kernel of its op for other devices."""
    kernels.add_module("graphmill_simnpu.kernels", ops=OWN_KERNELS, backend="simnpu")
    kernels.add_module("graphmill_simnpu.fused_kernel", ops=[FUSED_OP])


@hookimpl
def graphmill_register_devices(devices: Any) -> None:
    """Register the device type below CPU, so that nodes run there only on request."""
    devices.add("SIMNPU", "graphmill_simnpu.device:SimNpuFactory", priority=20)


OWN_KERNELS = ("MatMul", "AddV2", "Mul", "Relu", FUSED_OP)
"""Ops that have a kernel for the device."""
