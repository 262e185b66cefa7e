"""Decide whether oneDNN computes the convolutions of a program.

XLA:CPU can replace convolutions by calls of oneDNN, which takes a half to a quarter of the time for
few channels. Three limits of XLA bound where that is possible:

- oneDNN ends the process if it does not support a convolution that XLA hands it. So each one of
  the program must be of the most common kind.
- It then also computes large matrix products, more slowly than Eigen if they have few columns.
- A program that calls it cannot be serialized, so programs that a folder keeps do without it.
"""

from __future__ import annotations

import math
import platform
from typing import TYPE_CHECKING, Final

import jax

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jax.extend import core

OPTIONS: Final = ("xla_cpu_use_onednn", "xla_cpu_experimental_onednn_custom_call")
_FIRST_VERSION: Final = (0, 12)  # of JAX, for which these rules were tried
_MACHINES: Final = ("x86_64", "AMD64")
_IMAGE_RANK: Final = 4
_LAYOUT: Final = ((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2))  # NHWC, HWIO, NHWC
_MIN_MEAN_WORK: Final = 1 << 21  # multiplications; a call costs some 30 microseconds


def is_for_onednn(equations: Iterable[core.JaxprEqn]) -> bool:
    """Return whether oneDNN should compute the convolutions among the operations of a program."""
    if jax.version.__version_info__[:2] < _FIRST_VERSION or platform.machine() not in _MACHINES:
        return False
    convolutions, products = [], 0
    for eqn in equations:
        if eqn.primitive.name == "conv_general_dilated":
            convolutions.append(eqn)
        elif eqn.primitive.name == "dot_general":
            products += work_of_product(eqn)
    work = sum(map(_work_of_convolution, convolutions))
    is_worth_it = work >= max(products, _MIN_MEAN_WORK * len(convolutions))
    return bool(convolutions) and is_worth_it and all(map(_is_common, convolutions))


def _is_common(eqn: core.JaxprEqn) -> bool:
    """Return whether a convolution is of channels-last images in float32 and has one group."""
    params, operands = eqn.params, (*eqn.invars, *eqn.outvars)
    return (
        all(one.aval.dtype == "float32" and one.aval.ndim == _IMAGE_RANK for one in operands)
        and tuple(params["dimension_numbers"]) == _LAYOUT
        and params["feature_group_count"] == params["batch_group_count"] == 1
        and set(params["lhs_dilation"]) == {1}
        and min(min(pads) for pads in params["padding"]) >= 0
    )


def _work_of_convolution(eqn: core.JaxprEqn) -> int:
    """Return the number of multiplications of a convolution."""
    kernel, outputs = eqn.invars[1].aval.shape, eqn.outvars[0].aval.size
    features = eqn.params["dimension_numbers"].rhs_spec[0]
    return int(outputs * math.prod(kernel) // max(kernel[features], 1))


def work_of_product(eqn: core.JaxprEqn) -> int:
    """Return the number of multiplications of a matrix product."""
    (contracted, _), _ = eqn.params["dimension_numbers"]
    shape = eqn.invars[0].aval.shape
    return int(eqn.outvars[0].aval.size * math.prod(shape[axis] for axis in contracted))
