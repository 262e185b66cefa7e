"""Devices of type TORCH: PyTorch on its accelerators, or on the CPU if it has none."""

from __future__ import annotations

from typing import Any

from graphmill.spi import hookimpl

GRAPHMILL_SPI = ">=1.2,<2"
CLUSTER_OP = "Torch>Cluster"

OWN_KERNELS = {
    "elementwise": (
        *("Add", "AddV2", "Sub", "Mul", "RealDiv", "Maximum", "Minimum", "SquaredDifference"),
        *("Neg", "Exp", "Log", "Sqrt", "Rsqrt", "Tanh", "Sigmoid", "Erf", "Relu", "Relu6"),
        "ReluGrad",
    ),
    "products": ("MatMul", "BatchMatMulV2", "BiasAdd", "BiasAddGrad", "Softmax"),
    "convolution": (
        *("Conv2D", "DepthwiseConv2dNative", "Conv2DBackpropInput", "Conv2DBackpropFilter"),
        *("MaxPool", "AvgPool", "FusedBatchNormV3"),
    ),
    "scatter": ("ScatterNd", "TensorScatterUpdate"),
}
"""Ops that have a PyTorch kernel; all others run on NumPy, on a CPU in the same memory."""


@hookimpl
def graphmill_register_ops(ops: Any) -> None:
    """Register the cluster op."""
    from graphmill_torch.cluster_op import CLUSTER

    ops.add(CLUSTER)


@hookimpl
def graphmill_register_kernels(kernels: Any) -> None:
    """Register the kernels for the backend "torch"; their modules import PyTorch."""
    for module, ops in OWN_KERNELS.items():
        kernels.add_module(f"graphmill_torch.kernels.{module}", ops=ops, backend="torch")
    kernels.add_module("graphmill_torch.kernels.cluster", ops=[CLUSTER_OP], backend="torch")


@hookimpl
def graphmill_register_devices(devices: Any) -> None:
    """Register the device type below CPU, so that nodes run there only on request."""
    devices.add("TORCH", "graphmill_torch.factory:TorchFactory", priority=30)
