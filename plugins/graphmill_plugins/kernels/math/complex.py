"""Complex numbers: real and imaginary parts, magnitude, angle, conjugate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.spi import kernel

if TYPE_CHECKING:
    from graphmill.spi import ArrayNamespace, Value


@kernel("Complex", backend="numpy")
def complex_(real: Value, imag: Value, *, Tout: np.dtype[Any]) -> Value:
    """Combine real and imaginary parts into complex numbers, with broadcasting."""
    # real + 1j * imag would turn infinite parts into NaN.
    result = np.empty(np.broadcast_shapes(real.shape, imag.shape), Tout)
    result.real = real
    result.imag = imag
    return result


@kernel("Real")
def real(xp: ArrayNamespace, x: Value, *, Tout: np.dtype[Any]) -> Value:
    """Return the real part."""
    return xp.real(x).astype(Tout)


@kernel("Imag")
def imag(xp: ArrayNamespace, x: Value, *, Tout: np.dtype[Any]) -> Value:
    """Return the imaginary part."""
    return xp.imag(x).astype(Tout)


@kernel("ComplexAbs")
def complex_abs(xp: ArrayNamespace, x: Value, *, Tout: np.dtype[Any]) -> Value:
    """Return the magnitude."""
    return xp.abs(x).astype(Tout)


@kernel("Angle")
def angle(xp: ArrayNamespace, x: Value, *, Tout: np.dtype[Any]) -> Value:
    """Return the argument in radians, in (-π, π]."""
    return xp.angle(x).astype(Tout)


@kernel("Conj")
def conj(xp: ArrayNamespace, x: Value) -> Value:
    """Return the conjugate."""
    return xp.conj(x)
