"""Names of ops that need more than a kernel to be traced: functions, state, structures."""

from __future__ import annotations

from typing import Final

FUNCTION_ATTRS: Final[dict[str, tuple[str, ...]]] = {
    "While": ("cond", "body"),
    "StatelessWhile": ("cond", "body"),
    "If": ("then_branch", "else_branch"),
    "StatelessIf": ("then_branch", "else_branch"),
    "Case": ("branches",),
    "StatelessCase": ("branches",),
    "PartitionedCall": ("f",),
    "StatefulPartitionedCall": ("f",),
}
"""Ops that call functions, with the attrs that name them."""

_OPTIMIZERS: Final = (
    "GradientDescent",
    "ProximalGradientDescent",
    "Momentum",
    "KerasMomentum",
    "Adam",
    "AdaMax",
    "AdamWithAmsgrad",
    "RMSProp",
    "CenteredRMSProp",
    "Adagrad",
    "AdagradV2",
    "AdagradDA",
    "ProximalAdagrad",
    "Adadelta",
    "Ftrl",
    "FtrlV2",
    "AddSign",
    "PowerSign",
)

VARIABLE_OPS: Final = frozenset(
    {
        "ReadVariableOp",
        "AssignVariableOp",
        "AssignAddVariableOp",
        "AssignSubVariableOp",
        "VariableShape",
        "Assign",
        "AssignAdd",
        "AssignSub",
        *(f"Apply{name}" for name in _OPTIMIZERS),
        *(f"ResourceApply{name}" for name in _OPTIMIZERS),
    }
)
"""Ops whose kernels read and write variables through an array namespace, so that they can be traced
with variables that hold traced values."""

STRUCTURE_OPS: Final[frozenset[str]] = frozenset()

HANDLED: Final = VARIABLE_OPS | STRUCTURE_OPS | {"NoOp", "ControlTrigger", "FakeParam", "Assert"}
"""Ops that are traced by more than a kernel of backend `jax`."""
