"""The kernel of the op."""

from __future__ import annotations

from graphmill.runtime.kernels.kernel import kernel


@kernel("Downstream>MulAdd3")
def mul_add_3(xp, x, y, z, scale):
    return (x * y + z) * xp.asarray(scale, dtype=x.dtype)
