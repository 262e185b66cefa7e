"""A custom kernel for one of TensorFlow's ops."""

from __future__ import annotations

from graphmill.spi import hookimpl, kernel


@kernel("Relu6", types={"T": ["float32"]}, priority=1)
def relu6(xp, features):
    return xp.minimum(xp.maximum(features, 0), 6)


@hookimpl
def graphmill_register_kernels(kernels):
    kernels.add(relu6)
