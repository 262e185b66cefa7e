"""Convert axis indices and size vectors between data formats.

Semantics: tensorflow/core/kernels/data_format_ops.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill_plugins.kernels._support import shape_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import ArrayNamespace, Value

_TYPES = {"T": (dtypes.int32, dtypes.int64)}


def _check_formats(source: str, target: str) -> None:
    for name, text in (("src_format", source), ("dst_format", target)):
        if len(text) not in (4, 5):
            raise InvalidArgumentError(
                f"{name} must be of length 4 or 5, received {text!r} of length {len(text)}"
            )
    if sorted(source) != sorted(target) or len(set(source)) != len(source):
        raise InvalidArgumentError(
            f"dst_format {target!r} must be a permutation of src_format {source!r}"
        )


def _dim_map(xp: ArrayNamespace, src_format: str, dst_format: str) -> Callable[[Value], Value]:
    _check_formats(src_format, dst_format)
    target_axes = np.array([dst_format.index(axis) for axis in src_format])
    rank = len(target_axes)

    def mapped(x: Value) -> Value:
        if xp is np and ((x < -rank) | (x >= rank)).any():
            raise InvalidArgumentError(f"dimensions must be in [{-rank}, {rank}), got {x}")
        return xp.asarray(target_axes.astype(x.dtype))[xp.where(x < 0, x + rank, x)]

    return mapped


def _vec_permute(xp: ArrayNamespace, src_format: str, dst_format: str) -> Callable[[Value], Value]:
    del xp
    _check_formats(src_format, dst_format)

    def permuted(x: Value) -> Value:
        if x.ndim not in (1, 2) or (x.ndim == 2 and x.shape[1] != 2):
            raise InvalidArgumentError(
                f"input must be a vector or 2-D with 2 columns, but got shape {shape_text(x.shape)}"
            )
        return x[_order(len(x), src_format, dst_format)]

    return permuted


def _order(size: int, source: str, target: str) -> Any:
    """Return the permutation of a vector with an entry per axis, or per spatial axis only."""
    if size == len(source) - 2:
        source, target = (text.replace("N", "").replace("C", "") for text in (source, target))
    if size != len(source):
        raise InvalidArgumentError(
            f"input must have {len(source)} elements, one for each axis of {source!r}, or one for "
            f"each spatial axis; got {size}"
        )
    return np.array([source.index(axis) for axis in target])


@kernel("DataFormatDimMap", make=True, types=_TYPES)
def data_format_dim_map(
    xp: ArrayNamespace, src_format: str, dst_format: str
) -> Callable[[Value], Value]:
    """Convert axis indices of the source format to indices of the target format."""
    return _dim_map(xp, src_format, dst_format)


@kernel("DataFormatDimMap", make=True, types=_TYPES, label="host")
def data_format_dim_map_on_host(
    xp: ArrayNamespace, src_format: str, dst_format: str
) -> Callable[[Value], Value]:
    """Convert axis indices of the source format to indices of the target format."""
    return _dim_map(xp, src_format, dst_format)


@kernel("DataFormatVecPermute", make=True, types=_TYPES)
def data_format_vec_permute(
    xp: ArrayNamespace, src_format: str, dst_format: str
) -> Callable[[Value], Value]:
    """Permute sizes (or pairs of paddings) from the source format to the target format."""
    return _vec_permute(xp, src_format, dst_format)


@kernel("DataFormatVecPermute", make=True, types=_TYPES, label="host")
def data_format_vec_permute_on_host(
    xp: ArrayNamespace, src_format: str, dst_format: str
) -> Callable[[Value], Value]:
    """Permute sizes (or pairs of paddings) from the source format to the target format."""
    return _vec_permute(xp, src_format, dst_format)
