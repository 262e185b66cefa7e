"""An op with its shape, kernel, gradient and lowering, in one module."""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from graphmill.spi import dtypes, gradient, hookimpl, kernel, op

T = TypeVar("T")


def cube_root_shape(op):
    return op.shape("x")


def traced_cube_root(trace, x):
    return trace.xp.cbrt(x)


@op("Mine>CubeRoot", types={"T": dtypes.FLOATING}, shape=cube_root_shape)
@kernel("Mine>CubeRoot", lowering=traced_cube_root)
def cube_root(xp, x: T) -> T:
    """Compute the cube root of each element."""
    return np.cbrt(x)


@gradient("Mine>CubeRoot")
def cube_root_gradient(op, dy):
    (y,) = op.outputs
    return dy / (3.0 * y * y)


@hookimpl
def graphmill_register_ops(ops):
    ops.add(cube_root)


@hookimpl
def graphmill_register_kernels(kernels):
    kernels.add(cube_root)


@hookimpl
def graphmill_register_gradients(gradients):
    gradients.add(cube_root_gradient)
