"""CheckNumerics kernels: raise if a value is infinite or NaN."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel

if TYPE_CHECKING:
    from graphmill.spi import Value


@kernel("CheckNumerics", host=True)
def check_numerics(tensor: Value, *, message: str) -> Value:
    """Return the input.

    Raises:
        InvalidArgumentError: it holds infinite or nan elements.
    """
    if np.isfinite(tensor).all():
        return tensor
    kinds = []
    if np.isinf(tensor).any():
        kinds.append("Inf")
    if np.isnan(tensor).any():
        kinds.append("NaN")
    raise InvalidArgumentError(f"{message} : Tensor had {' and '.join(kinds)} values")


@kernel("CheckNumericsV2", host=True)
def check_numerics_v2(tensor: Value, *, message: str) -> Value:
    """Return the input; like CheckNumerics, but the error names the sign of infinities.

    Raises:
        InvalidArgumentError: it holds infinite or nan elements.
    """
    if np.isfinite(tensor).all():
        return tensor
    kinds = []
    if (tensor == -np.inf).any():
        kinds.append("-Inf")
    if (tensor == np.inf).any():
        kinds.append("+Inf")
    if np.isnan(tensor).any():
        kinds.append("NaN")
    raise InvalidArgumentError(f"{message} : Tensor had {', '.join(kinds)} values")
