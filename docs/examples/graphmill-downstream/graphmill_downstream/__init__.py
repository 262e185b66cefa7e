"""An op with its gradient, shape and kernels, and a kernel that replaces a built-in one."""

from __future__ import annotations

from graphmill.spi import hookimpl

GRAPHMILL_SPI = ">=1.2,<2"


@hookimpl
def graphmill_register_ops(ops):
    from graphmill_downstream.ops import SOFT_SHRINK

    ops.add(SOFT_SHRINK)


@hookimpl
def graphmill_register_gradients(gradients):
    from graphmill_downstream.ops import soft_shrink_gradient

    gradients.add(soft_shrink_gradient)


@hookimpl
def graphmill_register_kernels(kernels):
    kernels.add_module("graphmill_downstream.kernels", ops=["Downstream>SoftShrink", "Relu6"])
    kernels.add_module(
        "graphmill_downstream.jax_kernels", ops=["Downstream>SoftShrink"], backend="jax"
    )
