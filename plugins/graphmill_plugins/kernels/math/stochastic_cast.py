"""StochasticCastToInt: round to one of the two nearest integers at random.

Semantics: tensorflow/core/kernels/stochastic_cast_op.h. TensorFlow's random numbers depend on its
vector width and its number of threads; only their distribution is the same here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill_plugins.kernels._support import shape_text
from graphmill_plugins.kernels.random._philox import Philox, uniform
from graphmill_plugins.kernels.random.generator import check_algorithm

if TYPE_CHECKING:
    from graphmill.spi import Value


@kernel("StochasticCastToInt", host=True, types={"Tin": dtypes.FLOATING})
def stochastic_cast_to_int(
    x: Value, key: Value, counter: Value, alg: Value, Tout: np.dtype[Any]
) -> Value:
    """Round each number up with the probability of its fraction, otherwise down.

    Numbers beyond the range of the result become its bounds, NaN becomes 0.

    Raises:
        InvalidArgumentError: key and counter do not have one and two elements.
        UnimplementedError: the algorithm is not Philox.
    """
    check_algorithm(alg)
    if key.shape != (1,) or counter.ndim != 1 or counter.size < 2:
        raise InvalidArgumentError(
            "key must have shape [1] and counter at least two elements, got shapes "
            f"{shape_text(key.shape)} and {shape_text(counter.shape)}"
        )
    generator = Philox(int(key[0]), int(counter[0]), int(counter[1]))
    wide = x.astype(np.float64)
    random = uniform(np, generator, x.size, np.dtype(np.float64)).reshape(x.shape)
    down = np.floor(wide)
    rounded = down + (random < wide - down)
    limits = np.iinfo(Tout)
    return np.nan_to_num(np.clip(rounded, limits.min, limits.max), nan=0).astype(Tout)
