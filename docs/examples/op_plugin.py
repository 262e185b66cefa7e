"""An op that TensorFlow does not have, and its kernel, in one function."""

from __future__ import annotations

from typing import TypeVar

import graphmill
from graphmill import dtypes

T = TypeVar("T")


def scaled_shape(op):
    return op.shape("x")


@graphmill.op("MyPackage>ScaleBy", types={"T": dtypes.FLOATING}, shape=scaled_shape)
@graphmill.kernel("MyPackage>ScaleBy")
def scale_by(xp, x: T, *, factor: float = 2.0) -> T:
    """Multiply by a number."""
    return x * factor


@graphmill.hookimpl
def graphmill_register_ops(ops):
    ops.add(scale_by)


@graphmill.hookimpl
def graphmill_register_kernels(kernels):
    kernels.add(scale_by)
