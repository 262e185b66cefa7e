"""Gradient functions: the op to differentiate, and the gradients that flow backward.

    from graphmill.spi.gradients import ForwardOp, Gradient

The decorator `gradient`, which declares one, is in `graphmill.spi` itself; build nodes with
`graphmill.ops`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphmill.backprop.control_flow_analysis import is_trainable as is_trainable
    from graphmill.backprop.forward_op import ForwardOp as ForwardOp
    from graphmill.backprop.generic import generic_gradient as generic_gradient
    from graphmill.backprop.indexed_slices import Gradient as Gradient
    from graphmill.backprop.indexed_slices import IndexedSlices as IndexedSlices
    from graphmill.backprop.indexed_slices import dense as dense
    from graphmill.plugin.gradient_declaration import GradientTable as GradientTable
    from graphmill.plugin.gradient_declaration import not_differentiable as not_differentiable
else:
    from graphmill.spi._lazy import lazy_names

    __all__, __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "graphmill.backprop.forward_op": "ForwardOp",
            "graphmill.backprop.generic": "generic_gradient",
            "graphmill.backprop.indexed_slices": "Gradient IndexedSlices dense",
            "graphmill.backprop.control_flow_analysis": "is_trainable",
            "graphmill.plugin.gradient_declaration": "GradientTable not_differentiable",
        },
    )
