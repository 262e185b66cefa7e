"""Control-flow ops that compute nothing: NoOp, ControlTrigger, LoopCond, Abort.

Semantics: tensorflow/core/kernels/no_op.cc, control_flow_ops.cc. Switch, Merge, Enter, Exit and
NextIteration are rules of the executor; their kernels are those of the frames that it keeps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill import errors
from graphmill.runtime.kernel import kernel

if TYPE_CHECKING:
    from graphmill.typing import ArrayNamespace, Value


@kernel("NoOp", "ControlTrigger")
def no_op(xp: ArrayNamespace) -> None:
    """Do nothing."""
    del xp


@kernel("LoopCond")
def loop_cond(xp: ArrayNamespace, value: Value) -> Value:
    """Forward the condition of a loop."""
    del xp
    return value


@kernel("Abort", host=True)
def abort(xp: ArrayNamespace, error_msg: str, exit_without_error: bool) -> None:
    """Raise AbortedError: TensorFlow ends the whole process, graphmill only the step.

    With `exit_without_error` TensorFlow's process ends in success; here the step is still aborted,
    since what comes after the node must not run.
    """
    del xp
    kind = "asked to exit without error" if exit_without_error else "intentional failure"
    raise errors.AbortedError(f"Abort_op {kind}; {error_msg}")
