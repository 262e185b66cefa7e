"""Codec of CSR matrices.

Semantics: tensorflow/core/kernels/sparse/sparse_matrix.h. The metadata are a C structure: whether
the matrix was checked, and its element type. The tensors are the dense shape, and batch pointers,
row pointers, columns and values, as in `CsrMatrix`.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill import dtypes
from graphmill.dtypes import as_dtype
from graphmill.errors import InvalidArgumentError
from graphmill.spi import VariantCodec, VariantData
from graphmill.spi.kernels import dtype_of_value
from graphmill_plugins.kernels.sparse._csr_matrix import CsrMatrix

if TYPE_CHECKING:
    from numpy.typing import NDArray

_METADATA: Final = struct.Struct("<?3xi")
_TYPES: Final = (dtypes.int64, dtypes.int32, dtypes.int32, dtypes.int32)
_MAX_ROWS: Final = 2**31 - 1


def encode(value: CsrMatrix) -> VariantData:
    """Return the shape, the pointers, the columns and the values."""
    dtype = as_dtype(dtype_of_value(value.values))
    tensors = (
        np.array(value.dense_shape, np.int64),
        np.asarray(value.starts).astype(np.int32),
        np.asarray(value.row_ptrs).reshape(-1),
        value.columns,
        value.values,
    )
    return VariantData(_METADATA.pack(True, dtype.enum), tensors, (*_TYPES, dtype))


def decode(data: VariantData) -> CsrMatrix:
    """Return the matrix.

    Raises:
        InvalidArgumentError: its parts do not fit together.
    """
    if len(data.tensors) != 5 or data.types[:4] != _TYPES:
        raise InvalidArgumentError(
            "a CSR matrix consists of a shape (int64), batch pointers, row pointers and columns "
            f"(int32), and values, not of {[dtype.name for dtype in data.types]}"
        )
    shape, starts, row_ptrs, columns, values = (np.asarray(tensor) for tensor in data.tensors)
    sizes = _sizes(shape)
    batch = sizes[0] if len(sizes) == 3 else 1
    _check_pointers(starts, batch + 1, len(values) if values.ndim == 1 else -1)
    if row_ptrs.shape != (batch * (sizes[-2] + 1),):
        raise _malformed(f"{row_ptrs.size} row pointers")
    row_ptrs = row_ptrs.reshape(batch, sizes[-2] + 1)
    for pointers, count in zip(row_ptrs, np.diff(starts), strict=True):
        _check_pointers(pointers, sizes[-2] + 1, int(count))
    if columns.shape != values.shape or np.any((columns < 0) | (columns >= sizes[-1])):
        raise _malformed(f"columns outside of 0 to {sizes[-1] - 1}, or not one for each value")
    return CsrMatrix(sizes, row_ptrs, starts.astype(np.int64), columns, values)


def _sizes(shape: NDArray[Any]) -> tuple[int, ...]:
    sizes = tuple(shape.tolist()) if shape.ndim == 1 else ()
    if len(sizes) not in (2, 3) or min(sizes) < 0 or max(sizes[:-1]) > _MAX_ROWS:
        raise _malformed(f"the shape {shape.tolist()}")
    return sizes


def _check_pointers(pointers: NDArray[Any], count: int, last: int) -> None:
    """Raise InvalidArgumentError unless pointers start at 0, do not descend, and end at `last`."""
    if pointers.shape != (count,) or pointers[0] or pointers[-1] != last:
        raise _malformed("pointers that do not span its values")
    if np.any(pointers[1:] < pointers[:-1]):
        raise _malformed("pointers that are not in ascending order")


def _malformed(what: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"a CSR matrix is malformed: it has {what}")


CODEC: Final = VariantCodec(CsrMatrix, encode, decode)
