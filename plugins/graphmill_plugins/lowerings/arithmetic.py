"""Checks for integer division and powers, where XLA differs from the kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from graphmill.spi import Check, Lowering, LoweringTable, errors
from graphmill_plugins.lowerings.magnitudes import are_finite

if TYPE_CHECKING:
    from graphmill.spi import ArrayNamespace, Value


def divisor_is_not_zero(xp: ArrayNamespace, x: Value, y: Value) -> Value:
    """Check that integers are not divided by zero."""
    del x
    return xp.all(y != 0) if y.dtype.kind in "iu" else np.True_


def exponent_is_not_negative(xp: ArrayNamespace, x: Value, y: Value) -> Value:
    """Check that integers are not raised to negative powers."""
    del x
    return xp.all(y >= 0) if y.dtype.kind == "i" else np.True_


def complex_power_is_regular(xp: ArrayNamespace, base: Value, exponent: Value) -> Value:
    """Check that complex powers have neither zero bases nor infinite arguments.

    For these XLA returns NaN, but NumPy and TensorFlow return the limit.
    """
    if base.dtype.kind != "c":
        return np.True_
    return xp.all(base != 0) & xp.all(xp.isfinite(base)) & xp.all(xp.isfinite(exponent))


def is_finite(xp: ArrayNamespace, tensor: Value) -> Value:
    """Check that a tensor has neither NaN nor infinity."""
    return are_finite(xp, tensor)


_DIVISIONS: Final = ("Div", "FloorDiv", "TruncateDiv", "Mod", "FloorMod", "TruncateMod")

LOWERINGS: Final = LoweringTable(
    (
        Lowering(_DIVISIONS, checks=(Check(divisor_is_not_zero, errors.InvalidArgumentError),)),
        Lowering(
            ("Pow",),
            checks=(
                Check(exponent_is_not_negative, errors.InvalidArgumentError),
                Check(complex_power_is_regular),
            ),
        ),
        Lowering(
            ("CheckNumerics", "CheckNumericsV2"),
            checks=(Check(is_finite, errors.InvalidArgumentError),),
        ),
    )
)
