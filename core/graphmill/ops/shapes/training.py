"""Shapes of ops that update ref variables: those of the variables.

Semantics: tensorflow/core/ops/training_ops.cc. Updates of resource variables have no outputs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from graphmill.ops.shapes.shared import common

if TYPE_CHECKING:
    from graphmill.ops.inference.shape_inference import ShapeFunction

_UPDATES = """
    ApplyAdaMax ApplyAdadelta ApplyAdagrad ApplyAdagradDA ApplyAdagradV2 ApplyAdam ApplyAddSign
    ApplyCenteredRMSProp ApplyFtrl ApplyFtrlV2 ApplyGradientDescent ApplyMomentum ApplyPowerSign
    ApplyProximalAdagrad ApplyProximalGradientDescent ApplyRMSProp SparseApplyAdadelta
    SparseApplyAdagrad SparseApplyAdagradDA SparseApplyAdagradV2 SparseApplyCenteredRMSProp
    SparseApplyFtrl SparseApplyFtrlV2 SparseApplyMomentum SparseApplyProximalAdagrad
    SparseApplyProximalGradientDescent SparseApplyRMSProp
"""

SHAPES: Final[dict[str, ShapeFunction]] = common.table((_UPDATES, common.unchanged))
