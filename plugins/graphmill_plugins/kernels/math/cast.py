"""Cast between element types.

Semantics: tensorflow/core/kernels/cast_op.h on the CPU. Floats outside the range of an integer type
are undefined in TensorFlow too; NumPy's casts are the same machine instructions.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.errors import UnimplementedError
from graphmill.spi import kernel
from graphmill_plugins.kernels._support import is_narrow, is_numpy

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import ArrayNamespace, Value

    Cast = Callable[[Value], Value]

_SUB_BYTE_TYPES = frozenset({"int4", "uint4", "int2", "uint2"})  # types without casts to each other
_MANTISSA_BITS = {"float64": 52, "float32": 23, "float16": 10, "bfloat16": 7}


@kernel("Cast", "_HostCast", make=True)
def cast(
    xp: ArrayNamespace, SrcT: np.dtype[Any], DstT: np.dtype[Any], Truncate: bool
) -> Callable[[Value], Value]:
    """Convert the element type; with `Truncate`, floats are truncated, not rounded."""
    if "O" in (SrcT.kind, DstT.kind):
        raise UnimplementedError(f"Cast {SrcT} to {DstT} is not supported")
    if SrcT == DstT:
        return lambda x: x
    if Truncate and DstT.name in _MANTISSA_BITS and SrcT.name in ("float32", "float64"):
        return _truncating(xp, SrcT, DstT)
    if SrcT.name in _SUB_BYTE_TYPES and DstT.name in _SUB_BYTE_TYPES:
        return lambda x: x.astype(np.int8).astype(DstT)
    if SrcT.kind == "c" and DstT.kind != "c":
        to_real = cast(xp, np.dtype(f"f{SrcT.itemsize // 2}"), DstT, Truncate)
        return lambda x: to_real(xp.real(x))
    from_float = SrcT.kind not in "iub" and SrcT.name not in _SUB_BYTE_TYPES
    if DstT.kind in "iu" and from_float and not is_numpy(xp):
        return partial(_float_to_integer, xp, DstT)
    if (is_narrow(SrcT) and DstT.kind in "iu") or (is_narrow(DstT) and SrcT.kind in "iu"):
        # TensorFlow converts narrow floats to integers, and back, through float32.
        return lambda x: x.astype(np.float32).astype(DstT)
    return lambda x: x.astype(DstT)


def _float_to_integer(xp: ArrayNamespace, DstT: np.dtype[Any], x: Value) -> Value:
    """Convert as CPU instructions do, also outside of the range of the integer type.

    XLA saturates, so without this a compiled cluster would compute other values than NumPy.
    """
    wide = np.dtype("int32" if DstT.itemsize < 4 or DstT == np.int32 else "int64")
    limit = 2.0 ** (8 * wide.itemsize - 1)
    if is_narrow(x.dtype):
        x = x.astype(np.float32)
    inside = (x >= -limit) & (x < limit)
    value = xp.where(inside, xp.where(inside, x, 0).astype(wide), -int(limit))
    if DstT != np.uint64:
        return value.astype(DstT)
    return xp.where(x >= limit, x.astype(DstT), value.astype(DstT))


def _truncating(xp: ArrayNamespace, SrcT: np.dtype[Any], DstT: np.dtype[Any]) -> Cast:
    """Clear the mantissa bits that DstT lacks, so that the conversion does not round."""
    excess = _MANTISSA_BITS[SrcT.name] - _MANTISSA_BITS[DstT.name]
    if excess <= 0:
        return lambda x: x.astype(DstT)
    unsigned = np.dtype(f"u{SrcT.itemsize}")
    mask = unsigned.type(~((1 << excess) - 1) & ((1 << 8 * SrcT.itemsize) - 1))

    def truncate(x: Value) -> Value:
        if is_numpy(xp):
            return (x.view(unsigned) & mask).view(SrcT).astype(DstT)
        return xp.bitwise_and(x.view(unsigned), mask).view(SrcT).astype(DstT)

    return truncate
