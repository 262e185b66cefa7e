"""Elementwise ops and activations; functions of the array API where it has them."""

from __future__ import annotations

from typing import Any

import torch

from graphmill.spi import KernelDef, KernelTable, dtypes, kernel

FLOATS = (dtypes.float32, dtypes.float64)
_T = {"T": FLOATS}


def _named(name: str) -> Any:
    def compute(xp: Any, *inputs: Any) -> Any:
        return getattr(xp, name)(*inputs)

    return compute


TABLE = KernelTable(
    KernelDef(ops=ops, function=_named(name), backend="torch", types=_T)
    for name, ops in {
        "add": ("Add", "AddV2"),
        "subtract": ("Sub",),
        "multiply": ("Mul",),
        "divide": ("RealDiv",),
        "maximum": ("Maximum",),
        "minimum": ("Minimum",),
        "negative": ("Neg",),
        "exp": ("Exp",),
        "log": ("Log",),
        "sqrt": ("Sqrt",),
        "tanh": ("Tanh",),
    }.items()
)


@kernel("SquaredDifference", backend="torch", types=_T)
def squared_difference(xp: Any, x: Any, y: Any) -> Any:
    """Square the difference."""
    return xp.square(x - y)


@kernel("Rsqrt", backend="torch", types=_T)
def rsqrt(xp: Any, x: Any) -> Any:
    """Compute 1 / sqrt(x)."""
    del xp
    return torch.rsqrt(x)


@kernel("Sigmoid", backend="torch", types=_T)
def sigmoid(xp: Any, x: Any) -> Any:
    """Compute 1 / (1 + exp(-x))."""
    del xp
    return torch.sigmoid(x)


@kernel("Erf", backend="torch", types=_T)
def erf(xp: Any, x: Any) -> Any:
    """Compute the error function."""
    del xp
    return torch.erf(x)


@kernel("Relu", backend="torch", types=_T)
def relu(xp: Any, features: Any) -> Any:
    """Compute the rectified linear unit."""
    del xp
    return torch.relu(features)


@kernel("Relu6", backend="torch", types=_T)
def relu6(xp: Any, features: Any) -> Any:
    """Clip the values to [0, 6]."""
    del xp
    return torch.clamp(features, 0, 6)


@kernel("ReluGrad", backend="torch", types=_T)
def relu_grad(xp: Any, gradients: Any, features: Any) -> Any:
    """Pass the gradient where the feature is positive; an infinite one times 0 is NaN elsewhere."""
    del xp
    return gradients * (features > 0)
