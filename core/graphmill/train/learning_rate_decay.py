"""Learning rates that decay with the global step.

    steps = graphmill.train.get_or_create_global_step()
    rate = graphmill.train.exponential_decay(0.1, steps, decay_steps=1000, decay_rate=0.96)
    graphmill.train.AdamOptimizer(rate).minimize(loss, steps)

Names, arguments and values are those of `tf.compat.v1.train`. Semantics:
tensorflow/python/keras/optimizer_v2/legacy_learning_rate_decay.py. Each function returns a scalar
with the element type of the initial learning rate.
"""

from __future__ import annotations

import math as numbers
from typing import TYPE_CHECKING, Any

from graphmill.errors import InvalidArgumentError
from graphmill.functions import cast, convert_to_tensor, stack
from graphmill.functions._inputs import scope
from graphmill.ops import array, math

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.graph.tensor import Tensor
    from graphmill.ops.inputs.arguments import TensorLike


def exponential_decay(
    learning_rate: TensorLike,
    global_step: TensorLike,
    decay_steps: TensorLike,
    decay_rate: TensorLike,
    staircase: bool = False,
    name: str | None = None,
) -> Tensor:
    """Return `learning_rate * decay_rate ** (global_step / decay_steps)`.

        step = F.placeholder("int64", [])
        rate = graphmill.train.exponential_decay(0.1, step, decay_steps=100, decay_rate=0.5)
        print(session.run(rate, {step: 200}))  # 0.025

    Args:
        learning_rate: the initial learning rate, a scalar.
        global_step: the step, a scalar.
        decay_steps: after how many steps the rate has been multiplied by `decay_rate`.
        decay_rate: the factor.
        staircase: whether the rate changes only every `decay_steps` steps.
        name: name of the scope.
    """
    with scope(name, "ExponentialDecay", learning_rate, global_step) as (_, prefix):
        rate = convert_to_tensor(learning_rate)
        power = _periods(global_step, decay_steps, rate, staircase)
        return math.mul(rate, math.pow(cast(decay_rate, rate.dtype), power), name=prefix)


def natural_exp_decay(
    learning_rate: TensorLike,
    global_step: TensorLike,
    decay_steps: TensorLike,
    decay_rate: TensorLike,
    staircase: bool = False,
    name: str | None = None,
) -> Tensor:
    """Return `learning_rate * exp(-decay_rate * global_step / decay_steps)`.

    Arguments as for `exponential_decay`.
    """
    with scope(name, "NaturalExpDecay", learning_rate, global_step):
        factor = math.exp(math.neg(decay_rate))
        return exponential_decay(learning_rate, global_step, decay_steps, factor, staircase)


def inverse_time_decay(
    learning_rate: TensorLike,
    global_step: TensorLike,
    decay_steps: TensorLike,
    decay_rate: TensorLike,
    staircase: bool = False,
    name: str | None = None,
) -> Tensor:
    """Return `learning_rate / (1 + decay_rate * global_step / decay_steps)`.

    Arguments as for `exponential_decay`.
    """
    with scope(name, "InverseTimeDecay", learning_rate, global_step) as (_, prefix):
        rate = convert_to_tensor(learning_rate)
        periods = _periods(global_step, decay_steps, rate, staircase)
        divisor = 1 + cast(decay_rate, rate.dtype) * periods
        return math.real_div(rate, divisor, name=prefix)


def polynomial_decay(
    learning_rate: TensorLike,
    global_step: TensorLike,
    decay_steps: TensorLike,
    end_learning_rate: TensorLike = 0.0001,
    power: TensorLike = 1.0,
    cycle: bool = False,
    name: str | None = None,
) -> Tensor:
    """Return a rate that decays to `end_learning_rate` within `decay_steps` steps.

    Args:
        learning_rate: the initial learning rate, a scalar.
        global_step: the step, a scalar.
        decay_steps: the number of steps.
        end_learning_rate: the last learning rate.
        power: the exponent; 1 for a straight line.
        cycle: whether to begin again after `decay_steps`, for twice as many steps, and so on.
        name: name of the scope.
    """
    with scope(name, "PolynomialDecay", learning_rate, global_step) as (_, prefix):
        rate = convert_to_tensor(learning_rate)
        last, exponent, step, length = (
            cast(part, rate.dtype) for part in (end_learning_rate, power, global_step, decay_steps)
        )
        if cycle:
            cycles = math.ceil(step / length)
            length = length * math.select_v2(math.equal(step, 0), 1, cycles)
        else:
            step = math.minimum(step, length)
        left = math.pow(1 - step / length, exponent)
        return math.add_v2((rate - last) * left, last, name=prefix)


def piecewise_constant(
    x: TensorLike,
    boundaries: Sequence[TensorLike],
    values: Sequence[TensorLike],
    name: str | None = None,
) -> Tensor:
    """Return `values[0]` up to the first boundary, `values[1]` up to the second, and so on.

        step = F.placeholder("int64", [])
        rate = graphmill.train.piecewise_constant(step, [100, 200], [1.0, 0.5, 0.25])
        print(session.run(rate, {step: 150}))  # 0.5

    Args:
        x: the step, a scalar.
        boundaries: increasing numbers of the type of `x`, or int32 if that is int64.
        values: one more than boundaries, of one type.
        name: name of the scope.

    Raises:
        InvalidArgumentError: there is another number of values, or a type does not fit.
    """
    if len(boundaries) != len(values) - 1:
        raise InvalidArgumentError(
            "The length of boundaries should be 1 less than the length of values, got "
            f"{len(boundaries)} boundaries and {len(values)} values"
        )
    with scope(name, "PiecewiseConstant", x, list(boundaries), list(values)):
        step = convert_to_tensor(x)
        limits = stack([_boundary(boundary, step) for boundary in boundaries])
        passed = cast(math.greater(step, limits), "int32")
        return array.gather_v2(stack(values), math.sum(passed, [0]), 0)


def cosine_decay(
    learning_rate: TensorLike,
    global_step: TensorLike,
    decay_steps: TensorLike,
    alpha: TensorLike = 0.0,
    name: str | None = None,
) -> Tensor:
    """Return a rate that decays to `alpha * learning_rate` along half a cosine.

    Args:
        learning_rate: the initial learning rate, a scalar.
        global_step: the step, a scalar.
        decay_steps: the number of steps.
        alpha: the last learning rate, as a fraction of the initial one.
        name: name of the scope.
    """
    with scope(name, "CosineDecay", learning_rate, global_step) as (_, prefix):
        rate = convert_to_tensor(learning_rate)
        step, length, last = (cast(part, rate.dtype) for part in (global_step, decay_steps, alpha))
        fraction = math.minimum(step, length) / length
        return math.mul(rate, (1 - last) * _half_cosine(fraction) + last, name=prefix)


def cosine_decay_restarts(
    learning_rate: TensorLike,
    global_step: TensorLike,
    first_decay_steps: TensorLike,
    t_mul: float = 2.0,
    m_mul: TensorLike = 1.0,
    alpha: TensorLike = 0.0,
    name: str | None = None,
) -> Tensor:
    """Return a rate that decays as `cosine_decay`, and restarts again and again.

    Args:
        learning_rate: the initial learning rate, a scalar.
        global_step: the step, a scalar.
        first_decay_steps: the number of steps to the first restart.
        t_mul: each period has so many times the steps of the one before.
        m_mul: each restart begins with so many times the rate of the one before.
        alpha: the lowest learning rate, as a fraction of the initial one.
        name: name of the scope.
    """
    with scope(name, "SGDRDecay", learning_rate, global_step) as (_, prefix):
        rate = convert_to_tensor(learning_rate)
        step, length, factor, last, growth = (
            cast(part, rate.dtype) for part in (global_step, first_decay_steps, m_mul, alpha, t_mul)
        )
        fraction = step / length
        if t_mul == 1.0:
            restarts = math.floor(fraction)
            fraction = fraction - restarts
        else:
            restarts = math.floor(math.log(1 - fraction * (1 - growth)) / math.log(growth))
            before = (1 - growth**restarts) / (1 - growth)
            fraction = (fraction - before) / growth**restarts
        cosine = factor**restarts * _half_cosine(fraction)
        return math.mul(rate, (1 - last) * cosine + last, name=prefix)


def linear_cosine_decay(
    learning_rate: TensorLike,
    global_step: TensorLike,
    decay_steps: TensorLike,
    num_periods: TensorLike = 0.5,
    alpha: TensorLike = 0.0,
    beta: TensorLike = 0.001,
    name: str | None = None,
) -> Tensor:
    """Return `learning_rate * ((alpha + linear) * cosine + beta)`.

    Args:
        learning_rate: the initial learning rate, a scalar.
        global_step: the step, a scalar.
        decay_steps: the number of steps in which `linear` goes from 1 to 0.
        num_periods: the number of periods of `cosine` in these steps.
        alpha, beta: see above.
        name: name of the scope.
    """
    with scope(name, "LinearCosineDecay", learning_rate, global_step) as (_, prefix):
        rate = convert_to_tensor(learning_rate)
        linear, cosine = _linear_cosine(global_step, decay_steps, num_periods, rate)
        decayed = (cast(alpha, rate.dtype) + linear) * cosine + cast(beta, rate.dtype)
        return math.mul(rate, decayed, name=prefix)


def noisy_linear_cosine_decay(
    learning_rate: TensorLike,
    global_step: TensorLike,
    decay_steps: TensorLike,
    initial_variance: TensorLike = 1.0,
    variance_decay: TensorLike = 0.55,
    num_periods: TensorLike = 0.5,
    alpha: TensorLike = 0.0,
    beta: TensorLike = 0.001,
    name: str | None = None,
) -> Tensor:
    """Return the rate of `linear_cosine_decay` with noise added to the linear part.

    Args:
        learning_rate, global_step, decay_steps, num_periods, alpha, beta: as for
            `linear_cosine_decay`.
        initial_variance: the variance of the noise at step 0.
        variance_decay: the variance is divided by `(1 + global_step) ** variance_decay`.
        name: name of the scope.
    """
    from graphmill.functions import random_normal

    with scope(name, "NoisyLinearCosineDecay", learning_rate, global_step) as (_, prefix):
        rate = convert_to_tensor(learning_rate)
        step = math.minimum(cast(global_step, rate.dtype), cast(decay_steps, rate.dtype))
        linear, cosine = _linear_cosine(global_step, decay_steps, num_periods, rate)
        variance = cast(initial_variance, rate.dtype) / math.pow(
            1 + step, cast(variance_decay, rate.dtype)
        )
        noise = random_normal(array.shape(linear), stddev=math.sqrt(variance), dtype=rate.dtype)
        decayed = (cast(alpha, rate.dtype) + linear + noise) * cosine + cast(beta, rate.dtype)
        return math.mul(rate, decayed, name=prefix)


def _periods(
    global_step: TensorLike, decay_steps: TensorLike, rate: Tensor, staircase: bool
) -> Tensor:
    periods = cast(global_step, rate.dtype) / cast(decay_steps, rate.dtype)
    return math.floor(periods) if staircase else periods


def _half_cosine(fraction: Tensor) -> Tensor:
    """Return a cosine that falls from 1 to 0."""
    return 0.5 * (1 + math.cos(numbers.pi * fraction))


def _linear_cosine(
    global_step: TensorLike, decay_steps: TensorLike, num_periods: TensorLike, rate: Tensor
) -> tuple[Tensor, Tensor]:
    length = cast(decay_steps, rate.dtype)
    step = math.minimum(cast(global_step, rate.dtype), length)
    cosine = _half_cosine(2 * cast(num_periods, rate.dtype) * (step / length))
    return (length - step) / length, cosine


def _boundary(boundary: Any, step: Tensor) -> Tensor:
    tensor = convert_to_tensor(boundary)
    dtype, wide = tensor.dtype.base_dtype, step.dtype.base_dtype
    if dtype is not wide and (dtype.name, wide.name) != ("int32", "int64"):
        raise InvalidArgumentError(
            f"Boundaries ({dtype.name}) must have the same dtype as x ({wide.name})."
        )
    return cast(tensor, wide)
