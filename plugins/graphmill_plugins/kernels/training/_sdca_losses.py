"""The losses of stochastic dual coordinate ascent: dual updates, primal and dual losses.

Semantics: tensorflow/core/kernels/{logistic,squared,hinge,smooth-hinge,poisson}-loss.h. All numbers
are float64. A step solves the dual problem of one example; `norm` is its squared norm divided by
the L2 regularization, times the weight of the example and the number of partitions of the loss.
"""

from __future__ import annotations

import math
import sys
from typing import Final, Protocol

from graphmill.errors import InvalidArgumentError

_FLOAT64_MAX: Final = sys.float_info.max
_NEWTON_STEPS: Final = 10


class Loss(Protocol):
    """A loss of one example.

    Attributes:
        smoothness: that of the loss, which adaptive sampling uses.
    """

    smoothness: float

    def target(self, label: float) -> float:
        """Return the label in the form that the other methods take.

        Raises:
            InvalidArgumentError: the loss has no such label.
        """
        ...

    def updated_dual(self, label: float, dual: float, wx: float, norm: float) -> float:
        """Return the dual variable that maximizes the dual objective."""
        ...

    def primal(self, wx: float, label: float) -> float:
        """Return the loss of a prediction."""
        ...

    def dual(self, dual: float, label: float) -> float:
        """Return the convex conjugate of the loss."""
        ...

    def derivative(self, wx: float, label: float) -> float:
        """Return the derivative of the loss with respect to the prediction."""
        ...


def _binary_target(label: float) -> float:
    if label not in (0.0, 1.0):
        raise InvalidArgumentError(
            "Only labels of 0.0 or 1.0 are supported right now. "
            f"Found example with label: {label:g}"
        )
    return label or -1.0


def _quotient(numerator: float, denominator: float) -> float:
    """Divide as IEEE 754 specifies, without Python's ZeroDivisionError."""
    if denominator:
        return numerator / denominator
    if not numerator or math.isnan(numerator):
        return math.nan
    return math.copysign(math.inf, numerator) * math.copysign(1.0, denominator)


def _exp(x: float) -> float:
    try:
        return math.exp(x)
    except OverflowError:
        return math.inf


class LogisticLoss:
    """The logistic loss log(1 + exp(-y wx))."""

    smoothness = 4.0

    def target(self, label: float) -> float:
        """Return -1 for the label 0."""
        return _binary_target(label)

    def updated_dual(self, label: float, dual: float, wx: float, norm: float) -> float:
        """Return the dual variable after ten steps of Newton's method."""
        x = 0.0
        for _ in range(_NEWTON_STEPS):
            tanh = math.tanh(x)
            numerator = -2 * label * x - wx - norm * (0.5 * (1 + tanh) / label - dual)
            denominator = -2 * label - norm * (1 - tanh * tanh) * 0.5 / label
            x -= _quotient(numerator, denominator)
        return 0.5 * (1 + math.tanh(x)) / label

    def primal(self, wx: float, label: float) -> float:
        """Return the loss."""
        margin = label * wx
        return math.log1p(_exp(-abs(margin))) - min(margin, 0.0)

    def dual(self, dual: float, label: float) -> float:
        """Return the negative entropy."""
        a = dual * label
        return a * (math.log(a) if a > 0 else 0) + (1 - a) * (math.log(1 - a) if a < 1 else 0)

    def derivative(self, wx: float, label: float) -> float:
        """Return the derivative."""
        smaller = _exp(-abs(label * wx))
        return -label * (smaller if label * wx > 0 else 1.0) / (1 + smaller)


class SquaredLoss:
    """Half the squared error."""

    smoothness = 1.0

    def target(self, label: float) -> float:
        """Return the label."""
        return label

    def updated_dual(self, label: float, dual: float, wx: float, norm: float) -> float:
        """Return the solution of a linear equation."""
        return dual + _quotient(label - dual - wx, 1 + norm)

    def primal(self, wx: float, label: float) -> float:
        """Return the loss."""
        return (wx - label) * (wx - label) * 0.5

    def dual(self, dual: float, label: float) -> float:
        """Return the conjugate."""
        return dual * (0.5 * dual - label)

    def derivative(self, wx: float, label: float) -> float:
        """Return the error."""
        return wx - label


class HingeLoss:
    """The hinge loss max(0, 1 - y wx); `gamma` is the width of its smoothed part."""

    gamma = 0.0
    smoothness = 0.0

    def target(self, label: float) -> float:
        """Return -1 for the label 0."""
        return _binary_target(label)

    def updated_dual(self, label: float, dual: float, wx: float, norm: float) -> float:
        """Return the solution of a linear equation, between 0 and the label."""
        new_dual = dual + _quotient(label - wx - self.gamma * dual, norm + self.gamma)
        if label * new_dual < 0:
            return 0.0
        return label if label * new_dual > 1 else new_dual

    def primal(self, wx: float, label: float) -> float:
        """Return the loss."""
        return max(0.0, 1 - label * wx)

    def dual(self, dual: float, label: float) -> float:
        """Return the conjugate, the largest float64 where it is infinite."""
        a = dual * label
        return _FLOAT64_MAX if a < 0 or a > 1 else 0.5 * self.gamma * dual * dual - a

    def derivative(self, wx: float, label: float) -> float:
        """Return a subgradient."""
        return -label if label * wx < 1 else 0.0


class SmoothHingeLoss(HingeLoss):
    """The hinge loss with a quadratic part, of width 1."""

    gamma = 1.0
    smoothness = 1.0

    def primal(self, wx: float, label: float) -> float:
        """Return the loss."""
        missing = 1 - label * wx
        if missing <= 0:
            return 0.0
        return missing - self.gamma / 2 if missing >= self.gamma else missing * missing * 0.5

    def derivative(self, wx: float, label: float) -> float:
        """Return the derivative."""
        return -label * min(max(1 - label * wx, 0.0), self.gamma) / self.gamma


class PoissonLoss:
    """The loss of Poisson regression, exp(wx) - y wx."""

    smoothness = 1.0

    def target(self, label: float) -> float:
        """Return the label, which must not be negative."""
        if label < 0:
            raise InvalidArgumentError(
                "Only non-negative labels can be used with the Poisson log loss. "
                f"Found example with label: {label:g}"
            )
        return label

    def updated_dual(self, label: float, dual: float, wx: float, norm: float) -> float:
        """Return the dual variable after ten steps of Newton's method."""
        x = math.log(label - dual) if label > dual else 0.0
        for _ in range(_NEWTON_STEPS):
            power = _exp(x)
            x -= _quotient(x - wx - norm * (label - dual - power), 1 + norm * power)
        return label - _exp(x)

    def primal(self, wx: float, label: float) -> float:
        """Return the loss."""
        return _exp(wx) - wx * label

    def dual(self, dual: float, label: float) -> float:
        """Return the conjugate, the largest float64 where it is infinite."""
        rest = label - dual
        if rest <= 0:
            return _FLOAT64_MAX if rest else 0.0
        return rest * (math.log(rest) - 1)

    def derivative(self, wx: float, label: float) -> float:
        """Return the derivative."""
        return _exp(wx) - label


LOSSES: Final[dict[str, Loss]] = {
    "logistic_loss": LogisticLoss(),
    "squared_loss": SquaredLoss(),
    "hinge_loss": HingeLoss(),
    "smooth_hinge_loss": SmoothHingeLoss(),
    "poisson_loss": PoissonLoss(),
}
"""The losses by the value of the attr `loss_type`."""
