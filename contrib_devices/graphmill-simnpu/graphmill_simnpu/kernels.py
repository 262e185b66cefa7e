"""Kernels of the device: each enqueues a command and returns a future with a dtype."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphmill.spi import dtypes, kernel
from graphmill_simnpu import FUSED_OP
from graphmill_simnpu.array import NpuArray

_REAL = {"T": (dtypes.float32, dtypes.float64)}


def _launch(function: Any, *args: Any) -> Any:
    device = next(arg.device for arg in args if isinstance(arg, NpuArray))
    return device.launch(function, args, {}, dtype=args[0].dtype)


@kernel("AddV2", backend="simnpu", types=_REAL)
def add(xp: Any, x: Any, y: Any) -> Any:
    """Add."""
    del xp
    return _launch(np.add, x, y)


@kernel("Mul", backend="simnpu", types=_REAL)
def mul(xp: Any, x: Any, y: Any) -> Any:
    """Multiply."""
    del xp
    return _launch(np.multiply, x, y)


@kernel("Relu", backend="simnpu", types=_REAL)
def relu(xp: Any, features: Any) -> Any:
    """Compute the rectified linear unit."""
    del xp
    return _launch(_relu, features)


@kernel("MatMul", backend="simnpu", types=_REAL)
def mat_mul(xp: Any, a: Any, b: Any, *, transpose_a: bool, transpose_b: bool) -> Any:
    """Multiply matrices."""
    del xp
    _check_product(a, b, transpose_a, transpose_b)
    return _launch(_product, a, b, transpose_a, transpose_b)


@kernel(FUSED_OP, backend="simnpu")
def mat_mul_bias_relu(xp: Any, a: Any, b: Any, bias: Any) -> Any:
    """Compute `relu(a @ b + bias)` as one command."""
    del xp
    _check_product(a, b, False, False)
    return _launch(_fused, a, b, bias)


def _check_product(a: Any, b: Any, transpose_a: bool, transpose_b: bool) -> None:
    rows = a.shape[::-1] if transpose_a else a.shape
    columns = b.shape[::-1] if transpose_b else b.shape
    if len(rows) != 2 or len(columns) != 2:
        raise ValueError(f"In[0] and In[1] must be matrices, not {a.shape} and {b.shape}")
    if rows[1] != columns[0]:
        raise ValueError(f"Matrix size-incompatible: In[0]: {a.shape}, In[1]: {b.shape}")


def _product(a: Any, b: Any, transpose_a: bool, transpose_b: bool) -> Any:
    return (a.T if transpose_a else a) @ (b.T if transpose_b else b)


def _fused(a: Any, b: Any, bias: Any) -> Any:
    return np.maximum(a @ b + bias, 0)


def _relu(x: Any) -> Any:
    return np.maximum(x, x.dtype.type(0))
