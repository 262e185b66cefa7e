"""Fingerprint: 64-bit hashes of rows. Semantics: tensorflow/core/kernels/fingerprint_op.cc."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.dtypes import as_dtype
from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill_plugins.kernels._support import check_size, refuse_objects, shape_text
from graphmill_plugins.kernels.string.hash import fingerprints64

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.spi import Value

_BYTES = 8


@kernel("Fingerprint", host=True)
def fingerprint(data: Value, method: Value, T: np.dtype[Any]) -> Value:
    """Hash each row to eight bytes; for a row of several strings, hash the hashes of its strings.

    Raises:
        InvalidArgumentError: the data are a scalar, or the method is not farmhash64.
        UnimplementedError: the data are resources or variants.
    """
    refuse_objects(as_dtype(T), "hashed")
    if data.ndim == 0:
        raise InvalidArgumentError(f"Data must have at least rank 1, got {shape_text(data.shape)}")
    if method.ndim or method[()] != b"farmhash64":
        raise InvalidArgumentError(f"Unsupported fingerprint method: {method}; use 'farmhash64'")
    rows, width = data.shape[0], math.prod(data.shape[1:])
    check_size((rows, _BYTES), "the hashes")
    if not width:  # there may be more rows than there is time for
        return np.repeat(_hashed([b""]), rows, axis=0)
    if data.dtype.kind == "O":
        hashes = _hashed(data.reshape(-1).tolist())
        if width == 1:
            return hashes
        content = hashes.reshape((rows, width * _BYTES))
    else:
        content = np.ascontiguousarray(data).reshape((rows, width)).view(np.uint8)
    return _hashed([row.tobytes() for row in content])


def _hashed(texts: Sequence[bytes]) -> Value:
    """Return the little-endian bytes of the hash of each text, one text to a row."""
    hashes = fingerprints64(texts).astype("<u8", copy=False)
    return hashes.view(np.uint8).reshape((hashes.size, _BYTES))
