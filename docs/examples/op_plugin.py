"""An op that TensorFlow does not have, and its kernel, in one function."""

from __future__ import annotations

from typing import TypeVar

from graphmill.spi import dtypes, hookimpl, kernel, op

T = TypeVar("T")


def scaled_shape(op):
    return op.shape("x")


@op("MyPackage>ScaleBy", types={"T": dtypes.FLOATING}, shape=scaled_shape)
@kernel("MyPackage>ScaleBy")
def scale_by(xp, x: T, *, factor: float = 2.0) -> T:
    """Multiply by a number."""
    return x * factor


@hookimpl
def graphmill_register_ops(ops):
    ops.add(scale_by)


@hookimpl
def graphmill_register_kernels(kernels):
    kernels.add(scale_by)
