"""Matrix products, biases, softmax."""

from __future__ import annotations

from typing import Any

import torch

from graphmill.spi import kernel
from graphmill_torch.kernels.elementwise import FLOATS

_T = {"T": FLOATS}


@kernel("MatMul", backend="torch", types=_T)
def mat_mul(xp: Any, a: Any, b: Any, *, transpose_a: bool, transpose_b: bool) -> Any:
    """Multiply matrices."""
    if a.ndim != 2 or b.ndim != 2:
        raise ValueError(f"In[0] and In[1] must be matrices, not {a.shape} and {b.shape}")
    left, right = a.mT if transpose_a else a, b.mT if transpose_b else b
    if left.shape[1] != right.shape[0]:
        raise ValueError(
            f"Matrix size-incompatible: In[0]: {tuple(a.shape)}, In[1]: {tuple(b.shape)}"
        )
    return xp.matmul(left, right)


@kernel("BatchMatMulV2", backend="torch", types=_T)
def batch_mat_mul(xp: Any, x: Any, y: Any, *, adj_x: bool, adj_y: bool) -> Any:
    """Multiply batches of matrices; the batch dimensions broadcast."""
    left, right = x.mT if adj_x else x, y.mT if adj_y else y
    if left.ndim < 2 or right.ndim < 2 or left.shape[-1] != right.shape[-2]:
        raise ValueError(
            f"In[0] mismatch In[1] shape: {left.shape[-1]} vs. {right.shape[-2]}: "
            f"{tuple(x.shape)} {tuple(y.shape)}"
        )
    return xp.matmul(left, right)


@kernel("BiasAdd", backend="torch", types=_T)
def bias_add(xp: Any, value: Any, bias: Any, *, data_format: str) -> Any:
    """Add a bias to each channel."""
    del xp
    axis = 1 if data_format == "NCHW" else value.ndim - 1
    if bias.ndim != 1 or value.ndim < 2 or value.shape[axis] != bias.shape[0]:
        raise ValueError(
            "Must provide as many biases as the last dimension of the input tensor: "
            f"{tuple(bias.shape)} vs. {tuple(value.shape)}"
        )
    return value + bias.reshape([-1 if i == axis else 1 for i in range(value.ndim)])


@kernel("BiasAddGrad", backend="torch", types=_T)
def bias_add_grad(xp: Any, out_backprop: Any, *, data_format: str) -> Any:
    """Sum over all dimensions except the channels."""
    if out_backprop.ndim < 2:
        raise ValueError("Input tensor must be at least 2D")
    axis = 1 if data_format == "NCHW" else out_backprop.ndim - 1
    others = tuple(i for i in range(out_backprop.ndim) if i != axis)
    return xp.sum(out_backprop, axis=others)


@kernel("Softmax", backend="torch", types=_T)
def softmax(xp: Any, logits: Any) -> Any:
    """Compute the softmax along the last dimension."""
    del xp
    if logits.ndim < 1:
        raise ValueError(f"logits must have >= 1 dimension, got {tuple(logits.shape)}")
    return torch.softmax(logits, -1)
