"""Batch normalization with an addition and an activation, as TensorFlow's optimizer fuses them.

Semantics: tensorflow/core/kernels/fused_batch_norm_op.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.errors import InvalidArgumentError, UnimplementedError
from graphmill.spi import kernel
from graphmill_plugins.kernels._support import shape_text
from graphmill_plugins.kernels.nn.activation import relu
from graphmill_plugins.kernels.nn.norm.kernels import BATCH_NORM_TYPES, fused_batch_norm_v3

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import ArrayNamespace, Value


@kernel("_FusedBatchNormEx", make=True, types=BATCH_NORM_TYPES)
def fused_batch_norm_ex(
    xp: ArrayNamespace,
    epsilon: float,
    exponential_avg_factor: float,
    data_format: str,
    is_training: bool,
    activation_mode: str,
    num_side_inputs: int,
) -> Callable[..., tuple[Any, ...]]:
    """Normalize as FusedBatchNormV3 does, add the side input and apply the activation.

    Raises:
        InvalidArgumentError: the side input does not have the input's shape, or there are two.
        UnimplementedError: the activation is neither the identity nor ReLU.
    """
    if activation_mode not in ("Identity", "Relu"):
        raise UnimplementedError(f"Unsupported activation mode: {activation_mode}")
    if num_side_inputs > 1:
        raise InvalidArgumentError("FusedBatchNormEx supports at most one side input.")
    run = fused_batch_norm_v3(xp, epsilon, exponential_avg_factor, data_format, is_training)

    def normalize(*inputs: Any) -> tuple[Any, ...]:
        *vectors, side_inputs = inputs
        y, *moments = run(*vectors)
        for side in side_inputs:
            y = _add(y, side)
        return (relu(xp, y) if activation_mode == "Relu" else y, *moments)

    return normalize


def _add(y: Value, side: Value) -> Value:
    if y.shape != side.shape:
        raise InvalidArgumentError(
            f"side_input shape must be equal to input shape: {shape_text(side.shape)} != "
            f"{shape_text(y.shape)}"
        )
    return y + side
