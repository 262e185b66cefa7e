"""A matrix product with a bias and an activation, as TensorFlow's optimizer fuses them.

Semantics: tensorflow/core/kernels/matmul_op_fused.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill import dtypes
from graphmill.spi import kernel
from graphmill_plugins.kernels.math.matmul import mat_mul
from graphmill_plugins.kernels.nn.fusion import make_fusion

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    from graphmill.spi import ArrayNamespace, Value


@kernel(
    "_FusedMatMul",
    types={"T": (dtypes.float16, dtypes.bfloat16, dtypes.float32)},
    make=True,
    expensive=True,
)
def fused_mat_mul(
    xp: ArrayNamespace,
    T: np.dtype[Any],
    transpose_a: bool,
    transpose_b: bool,
    **attrs: Any,
) -> Callable[[Value, Value, list[Value]], Value]:
    """Multiply two matrices, then add a bias and apply an activation.

    Raises:
        InvalidArgumentError: shapes do not fit, or the number of additional inputs is wrong.
        UnimplementedError: there is no such fusion.
    """
    product = mat_mul(xp, T, transpose_a, transpose_b)
    fusion = make_fusion(xp, "Fused MatMul", T, attrs)
    return lambda a, b, args: fusion.apply(product(a, b), args)
