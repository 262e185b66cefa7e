"""Fourier transforms over one to three axes, complex and real.

Semantics: tensorflow/core/kernels/fft_ops.cc. Forward transforms are not
scaled; inverse transforms are scaled by 1/n.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError
from graphmill.spi import KernelDef, KernelTable
from graphmill_plugins.kernels._support import check_size, shape_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import ArrayNamespace, Value

_COMPLEX = {"Tcomplex": dtypes.COMPLEX}


def _check_rank(x: Value, rank: int) -> None:
    if x.ndim < rank:
        raise InvalidArgumentError(
            f"Input must have rank of at least {rank} but got: {shape_text(x.shape)}"
        )


def _complex(rank: int, name: str) -> Callable[..., Value]:
    axes = tuple(range(-rank, 0))

    def transform(xp: ArrayNamespace, x: Value) -> Value:
        _check_rank(x, rank)
        if not x.size:
            return x
        return getattr(xp.fft, name)(x, axes=axes).astype(x.dtype)

    return transform


def _lengths(fft_length: Value, rank: int) -> tuple[int, ...]:
    """Return the length of the transform along each axis.

    Raises:
        InvalidArgumentError: there is not one for each axis, or one is negative.
    """
    if fft_length.shape != (rank,):
        raise InvalidArgumentError(
            f"fft_length must have shape [{rank}], got {shape_text(fft_length.shape)}"
        )
    lengths = tuple(fft_length.tolist())
    if min(lengths) < 0:
        raise InvalidArgumentError(f"fft_length must be >= 0, but got: {list(lengths)}")
    return lengths


def _cropped(x: Value, needed: tuple[int, ...]) -> Value:
    """Return the first `needed` values along each of the last axes.

    Raises:
        InvalidArgumentError: an axis has fewer values.
    """
    first = x.ndim - len(needed)
    for axis, length in enumerate(needed):
        if 0 < x.shape[first + axis] < length:  # an empty axis is accepted
            raise InvalidArgumentError(
                f"Input dimension {first + axis} must have length of at least {length} but got: "
                f"{x.shape[first + axis]}"
            )
    return x[(..., *(slice(0, length) for length in needed))]


def _check_types(source: np.dtype[Any], expected: np.dtype[Any], requested: np.dtype[Any]) -> None:
    """Check that the output has the precision of the input.

    Raises:
        InvalidArgumentError: it does not.
    """
    if expected != requested:
        raise InvalidArgumentError(
            f"Wrong types for a real transform: {source.name} gives {expected.name}, not "
            f"{requested.name}"
        )


def _real(rank: int) -> Callable[..., Value]:
    axes = tuple(range(-rank, 0))

    def transform(
        xp: ArrayNamespace, x: Value, fft_length: Value, Tcomplex: np.dtype[Any]
    ) -> Value:
        _check_rank(x, rank)
        lengths = _lengths(fft_length, rank)
        dtype = np.dtype(np.complex64 if x.dtype.itemsize <= 4 else np.complex128)
        _check_types(x.dtype, dtype, Tcomplex)
        shape = (*x.shape[:-rank], *lengths[:-1], lengths[-1] // 2 + 1 if lengths[-1] else 0)
        cropped = _cropped(x, lengths)
        if not x.size or 0 in shape:
            check_size(shape, itemsize=dtype.itemsize)
            return xp.zeros(shape, dtype)
        return xp.fft.rfftn(cropped, axes=axes).astype(dtype)

    return transform


def _inverse_real(rank: int) -> Callable[..., Value]:
    axes = tuple(range(-rank, 0))

    def transform(xp: ArrayNamespace, x: Value, fft_length: Value, Treal: np.dtype[Any]) -> Value:
        _check_rank(x, rank)
        lengths = _lengths(fft_length, rank)
        dtype = np.dtype(np.float32 if x.dtype == np.complex64 else np.float64)
        _check_types(x.dtype, dtype, Treal)
        shape = (*x.shape[:-rank], *lengths)
        if not x.size or 0 in shape:
            check_size(shape, itemsize=dtype.itemsize)
            return xp.zeros(shape, dtype)
        needed = (*lengths[:-1], lengths[-1] // 2 + 1)
        return xp.fft.irfftn(_cropped(x, needed), s=lengths, axes=axes).astype(dtype)

    return transform


def _table() -> KernelTable:
    table = KernelTable()
    for rank, suffix in ((1, ""), (2, "2D"), (3, "3D")):
        for op, name in (("FFT", "fftn"), ("IFFT", "ifftn")):
            ops = (f"{op}{suffix}", f"Batch{op}{suffix}")
            table.append(KernelDef(ops=ops, function=_complex(rank, name), expensive=True))
        for op, make in (("RFFT", _real), ("IRFFT", _inverse_real)):
            table.append(
                KernelDef(
                    ops=(f"{op}{suffix}",),
                    function=make(rank),
                    types=dict(_COMPLEX),
                    static=("fft_length",),
                    expensive=True,
                )
            )
    return table


TRANSFORMS = _table()
