"""Domains in which XLA's special functions are accurate and terminate quickly.

XLA's special functions are designed for usual arguments. Outside of these domains some need more
and more terms of a series, and others return NaN where NumPy and TensorFlow return a limit. Such
values are rare; if they occur, the interpreter runs the step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from graphmill.spi import Check, Lowering, LoweringTable

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import ArrayNamespace, Value

_MAX_MAGNITUDE: Final = 1e6
# Up to these limits the series of incomplete gamma functions are short, and their powers accurate.
_GAMMA_LIMIT: Final = {np.dtype(np.float32): 1e4, np.dtype(np.float64): 64.0}


def within(*bounds: tuple[float, float]) -> Callable[..., Value]:
    """Return a predicate: does each input lie within its bounds? It is false for NaN."""

    def inputs_are_usual(xp: ArrayNamespace, *inputs: Value) -> Value:
        holds = np.True_
        for value, (low, high) in zip(inputs, bounds, strict=True):
            holds = holds & xp.all((value >= low) & (value <= high))
        return holds

    return inputs_are_usual


def gamma_is_in_domain(xp: ArrayNamespace, a: Value, x: Value) -> Value:
    """Check that arguments of incomplete gamma functions are in the compiled forms' domain."""
    high = _GAMMA_LIMIT[np.dtype(a.dtype)]
    return within((1e-6, high), (0.0, high))(xp, a, x)


def gamma_gradient_is_in_domain(xp: ArrayNamespace, a: Value, x: Value) -> Value:
    """Check that arguments of incomplete gamma derivatives are in the compiled forms' domain."""
    high = _GAMMA_LIMIT[np.dtype(a.dtype)]
    return within((0.01, high), (1e-3, high))(xp, a, x)


def is_below_infinity(xp: ArrayNamespace, x: Value, axis: Value) -> Value:
    """Check that no value is NaN or infinity; with these, sums depend on the order of addition."""
    del axis
    return xp.all(x < np.inf)


LOWERINGS: Final = LoweringTable(
    Lowering(ops, checks=(Check(predicate),))
    for ops, predicate in (
        (("Igamma", "Igammac"), gamma_is_in_domain),
        (("IgammaGradA",), gamma_gradient_is_in_domain),
        (("Zeta",), within((1.0 + 1e-3, 64.0), (1e-3, _MAX_MAGNITUDE))),
        (("Polygamma",), within((0.0, 16.0), (1e-3, _MAX_MAGNITUDE))),
        (("Betainc",), within((1e-3, 1e4), (1e-3, 1e4), (0.0, 1.0))),
        (("CumulativeLogsumexp",), is_below_infinity),
        (("RandomGammaGrad",), within((1e-2, 1e4), (1e-3, 1e4))),
    )
)
