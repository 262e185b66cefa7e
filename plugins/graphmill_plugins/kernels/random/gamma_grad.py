"""RandomGammaGrad: the derivative of gamma samples with respect to alpha, on NumPy.

Semantics: tensorflow/core/kernels/random_op.cc with Eigen's gamma_sample_der_alpha_op: the negative
derivative of the cumulative distribution function by alpha, divided by the density.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill_plugins.kernels._support import shape_text
from graphmill_plugins.kernels.math.igamma_grad import slope_by_a

if TYPE_CHECKING:
    from graphmill.spi import Value


@kernel("RandomGammaGrad", backend="numpy", types={"T": ["float32", "float64"]}, expensive=True)
def random_gamma_grad(alpha: Value, sample: Value) -> Value:
    """Return the derivative of gamma samples with respect to alpha for fixed random numbers."""
    special: Any = importlib.import_module("scipy.special")
    try:
        a, x = np.broadcast_arrays(alpha.astype(np.float64), sample.astype(np.float64))
    except ValueError:
        raise InvalidArgumentError(
            f"Incompatible shapes: {shape_text(alpha.shape)} vs. {shape_text(sample.shape)}"
        ) from None
    slope = slope_by_a(a, x, alpha.dtype)
    log_density = (a - 1) * np.log(x) - x - special.gammaln(a)
    gradient = np.where(x == 0, 0.0, -slope * np.exp(-log_density))
    return gradient.astype(alpha.dtype)
