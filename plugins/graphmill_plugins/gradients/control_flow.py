"""Gradients of control-flow ops other than loops and conditionals.

`graphmill.backprop` differentiates loops and conditionals themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.spi import gradient
from graphmill.spi.gradients import not_differentiable

if TYPE_CHECKING:
    from graphmill.spi.gradients import ForwardOp, Gradient

none = not_differentiable("LoopCond", "NoOp", "ControlTrigger")


@gradient("NextIteration", "RefNextIteration", "Enter", "RefEnter", "Exit", "RefExit", slices=True)
def same(_op: ForwardOp, dy: Gradient) -> Gradient:
    """Return the gradient unchanged."""
    return dy
