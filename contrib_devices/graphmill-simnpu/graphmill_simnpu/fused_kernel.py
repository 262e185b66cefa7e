"""The kernel of the device's op for other devices, for graphs that contain the op."""

from __future__ import annotations

from typing import Any

from graphmill.spi import kernel
from graphmill_simnpu import FUSED_OP


@kernel(FUSED_OP)
def mat_mul_bias_relu_anywhere(xp: Any, a: Any, b: Any, bias: Any) -> Any:
    """Compute `relu(a @ b + bias)`."""
    return xp.maximum(xp.matmul(a, b) + bias, 0)
