"""Helpers of stochastic dual coordinate ascent: fingerprints of examples, shrunk weights.

Semantics: tensorflow/core/kernels/sdca_ops.cc, sdca_internal.h.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import numpy as np

from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill.spi.kernels import cancellable
from graphmill_plugins.kernels._support import shape_text
from graphmill_plugins.kernels.state.value import initialized
from graphmill_plugins.kernels.string._fingerprint128 import fingerprint128

if TYPE_CHECKING:
    from graphmill.spi import OpKernelContext, Value, Variable


@kernel("SdcaFprint", host=True)
def sdca_fprint(examples: Value) -> Value:
    """Return both halves of the 128-bit fingerprint of each string, the lower one first.

    Raises:
        InvalidArgumentError: the input is not a vector.
    """
    if np.ndim(examples) != 1:
        raise InvalidArgumentError(
            f"input must be a vector, got shape {shape_text(np.shape(examples))}"
        )
    halves = [_never_0_or_1(*fingerprint128(item)) for item in cancellable(examples.tolist())]
    return np.array(halves, np.uint64).reshape(len(halves), 2).view(np.int64)


def _never_0_or_1(low: int, high: int) -> tuple[int, int]:
    """Replace a lower half of 0 or 1, which TensorFlow's hash tables reserve for empty entries."""
    return (low if low > 1 else low + 2**64 - 2), high


@kernel("SdcaShrinkL1", stateful=True, host=True, effects=("state",))
def sdca_shrink_l1(ctx: OpKernelContext, weights: list[Variable], l1: float, l2: float) -> None:
    """Move weights towards zero by l1 / l2, but not beyond it.

    Raises:
        FailedPreconditionError: a variable has no value.
    """
    del ctx
    distinct = {id(variable): variable for variable in weights}
    with ExitStack() as locks, np.errstate(all="ignore"):
        # A fixed order, so that two ops on the same variables cannot deadlock.
        for _, variable in sorted(distinct.items()):
            locks.enter_context(variable.lock)
        step = np.float32(l1) / np.float32(l2)
        values = [np.asarray(initialized(variable)) for variable in weights]
        for variable, value in zip(weights, values, strict=True):
            variable.value = np.sign(value) * np.maximum(np.abs(value) - step, np.float32(0))
