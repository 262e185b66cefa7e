"""ImmutableConst: a constant whose elements are the bytes of a file.

Semantics: tensorflow/core/kernels/immutable_constant_op.cc. The file is read once, when the
node first runs.
"""

from __future__ import annotations

import math
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.errors import InternalError, UnimplementedError
from graphmill.spi import files, kernel

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import Value
    from graphmill.spi.files import Broker


@kernel("ImmutableConst", host=True, make=True, expensive=True, effects=("fs.read",), brokered=True)
def immutable_const(
    dtype: np.dtype[Any], shape: tuple[int, ...], memory_region_name: str, *, broker: Broker
) -> Callable[[], Value]:
    """Return the first bytes of a file as a tensor.

    Raises:
        UnimplementedError: the elements are strings or handles.
    """
    if dtype.kind == "O":
        raise UnimplementedError("Sorry, strings are not currently supported for ImmutableConstOp.")
    return cache(partial(_read, memory_region_name, dtype, tuple(shape), broker))


def _read(path: str, dtype: np.dtype[Any], shape: tuple[int, ...], broker: Broker) -> Value:
    data = broker.read_bytes(files.as_path(path))
    count = math.prod(shape)
    size = count * dtype.itemsize
    if len(data) < size:
        raise InternalError(
            f"Readonly memory region has wrong length ({len(data)}) when allocating {size}"
        )
    return np.frombuffer(data, dtype, count).reshape(shape)
