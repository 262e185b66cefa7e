"""SobolSample: points of a quasi-random sequence.

Semantics: tensorflow/core/kernels/sobol_op.cc. SciPy has the same direction numbers (Joe and Kuo).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill_plugins._optional import import_optional
from graphmill_plugins.kernels._support import INT32_MAX, check_size, scalar_int

if TYPE_CHECKING:
    import numpy as np

    from graphmill.spi import Value

_MAX_DIMENSIONS: Final = 21201
_BITS: Final = 32  # enough for 2**31 points


@kernel("SobolSample", host=True, expensive=True, dynamic_shape=True)
def sobol_sample(dim: Value, num_results: Value, skip: Value, dtype: np.dtype[Any]) -> Value:
    """Return points in the unit cube, after skipping some; the sequence omits the origin.

    Raises:
        InvalidArgumentError: an input is not a scalar or out of range.
        ResourceExhaustedError: the points do not fit in memory.
    """
    dimensions, count = scalar_int("dim", dim), scalar_int("num_results", num_results)
    skipped = scalar_int("skip", skip)
    if not 1 <= dimensions <= _MAX_DIMENSIONS:
        raise InvalidArgumentError(f"dim = {dimensions} is not in [1, {_MAX_DIMENSIONS}]")
    if count < 1 or skipped < 0 or count + skipped >= INT32_MAX:
        raise InvalidArgumentError(
            f"num_results = {count} must be at least 1, skip = {skipped} at least 0, and their sum "
            f"less than {INT32_MAX}"
        )
    check_size((count, dimensions), itemsize=8)
    qmc: Any = import_optional("scipy.stats.qmc")
    sequence = qmc.Sobol(dimensions, scramble=False, bits=_BITS).fast_forward(1 + skipped)
    points: Value = sequence.random(count)
    return points.astype(dtype, copy=False)
