"""Update rules of optimizers: compute a variable's and its slots' new values.

Semantics: tensorflow/core/kernels/training_ops.cc. A rule is a function of an array namespace and
the op's inputs by name; it returns the new values of its states in order, the variable first.
Sparse forms of an op apply the same rule to rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import ArrayNamespace, Value

    States = tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Rule:
    """An update rule.

    Attributes:
        states: names of the inputs that are variables; the optimized variable comes first.
        update: the function; it takes all inputs and, by keyword, the attrs in `attrs`.
        attrs: names of the attrs that `update` takes.
        has_sparse: whether there is an op that updates rows.
    """

    states: tuple[str, ...]
    update: Callable[..., Any]
    attrs: tuple[str, ...] = ()
    has_sparse: bool = False


RULES: dict[str, Rule] = {}
"""Rules by the name of their op without "Resource", "Sparse" and "Apply"."""


def _rule(
    *names: str, states: str, attrs: str = "", sparse: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def declare(update: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            RULES[name] = Rule(tuple(states.split()), update, tuple(attrs.split()), sparse)
        return update

    return declare


def _complement(rate: Value) -> Value:
    """Return 1 - rate in its own type; old NumPy would widen bfloat16 for a Python 1."""
    one: Value = rate.dtype.type(1)
    return one - rate


@_rule("GradientDescent", states="var")
def gradient_descent(xp: ArrayNamespace, *, var: Value, alpha: Value, grad: Value) -> States:
    """Step against the gradient."""
    del xp
    return (var - alpha * grad,)


@_rule("Momentum", states="var accum", attrs="use_nesterov", sparse=True)
def momentum_update(
    xp: ArrayNamespace,
    *,
    var: Value,
    accum: Value,
    lr: Value,
    grad: Value,
    momentum: Value,
    use_nesterov: bool,
) -> States:
    """Step against the running sum of gradients."""
    del xp
    accum = accum * momentum + grad
    if use_nesterov:
        return var - (grad * lr + accum * momentum * lr), accum
    return var - accum * lr, accum


@_rule("KerasMomentum", states="var accum", attrs="use_nesterov", sparse=True)
def keras_momentum(
    xp: ArrayNamespace,
    *,
    var: Value,
    accum: Value,
    lr: Value,
    grad: Value,
    momentum: Value,
    use_nesterov: bool,
) -> States:
    """Step along a velocity, from which the scaled gradient is subtracted."""
    del xp
    accum = accum * momentum - grad * lr
    return var + ((accum * momentum - grad * lr) if use_nesterov else accum), accum


@_rule("Adagrad", "AdagradV2", states="var accum", attrs="update_slots", sparse=True)
def adagrad(
    xp: ArrayNamespace,
    *,
    var: Value,
    accum: Value,
    lr: Value,
    grad: Value,
    update_slots: bool,
    epsilon: Value | None = None,
) -> States:
    """Divide by the root of the sum of squared gradients."""
    if update_slots:
        accum = accum + grad * grad
    root = xp.sqrt(accum)
    return var - grad * lr / (root if epsilon is None else root + epsilon), accum


@_rule(
    "AdagradDA",
    states="var gradient_accumulator gradient_squared_accumulator",
    sparse=True,
)
def adagrad_da(
    xp: ArrayNamespace,
    *,
    var: Value,
    gradient_accumulator: Value,
    gradient_squared_accumulator: Value,
    grad: Value,
    lr: Value,
    l1: Value,
    l2: Value,
    global_step: Value,
) -> States:
    """Set the variable by dual averaging."""
    step = global_step.astype(var.dtype)
    total = gradient_accumulator + grad
    squares = gradient_squared_accumulator + grad * grad
    shrunk = xp.where(l1 > 0, xp.sign(total) * xp.maximum(xp.abs(total) - l1 * step, 0), total)
    return -lr * shrunk / (l2 * step * lr + xp.sqrt(squares)), total, squares


@_rule("Adadelta", states="var accum accum_update", sparse=True)
def adadelta(
    xp: ArrayNamespace,
    *,
    var: Value,
    accum: Value,
    accum_update: Value,
    lr: Value,
    rho: Value,
    epsilon: Value,
    grad: Value,
) -> States:
    """Scale by the ratio of running updates to running gradients."""
    accum = accum * rho + grad * grad * _complement(rho)
    update = xp.sqrt(accum_update + epsilon) / xp.sqrt(accum + epsilon) * grad
    return var - update * lr, accum, accum_update * rho + update * update * _complement(rho)


@_rule("Adam", states="var m v", attrs="use_nesterov")
def adam(
    xp: ArrayNamespace,
    *,
    var: Value,
    m: Value,
    v: Value,
    beta1_power: Value,
    beta2_power: Value,
    lr: Value,
    beta1: Value,
    beta2: Value,
    epsilon: Value,
    grad: Value,
    use_nesterov: bool,
) -> States:
    """Step along the first moment over the root of the second."""
    rate = lr * xp.sqrt(_complement(beta2_power)) / _complement(beta1_power)
    m = m + (grad - m) * _complement(beta1)
    v = v + (grad * grad - v) * _complement(beta2)
    first = grad * _complement(beta1) + beta1 * m if use_nesterov else m
    return var - first * rate / (xp.sqrt(v) + epsilon), m, v


@_rule("AdamWithAmsgrad", states="var m v vhat")
def adam_with_amsgrad(
    xp: ArrayNamespace,
    *,
    var: Value,
    m: Value,
    v: Value,
    vhat: Value,
    beta1_power: Value,
    beta2_power: Value,
    lr: Value,
    beta1: Value,
    beta2: Value,
    epsilon: Value,
    grad: Value,
) -> States:
    """Step as Adam does, with the largest second moment so far."""
    rate = lr * xp.sqrt(_complement(beta2_power)) / _complement(beta1_power)
    m = m + (grad - m) * _complement(beta1)
    v = v + (grad * grad - v) * _complement(beta2)
    vhat = xp.maximum(vhat, v)
    return var - m * rate / (xp.sqrt(vhat) + epsilon), m, v, vhat


@_rule("AdaMax", states="var m v")
def ada_max(
    xp: ArrayNamespace,
    *,
    var: Value,
    m: Value,
    v: Value,
    beta1_power: Value,
    lr: Value,
    beta1: Value,
    beta2: Value,
    epsilon: Value,
    grad: Value,
) -> States:
    """Step along the first moment over the largest gradient."""
    m = m + (grad - m) * _complement(beta1)
    v = xp.maximum(beta2 * v, xp.abs(grad))
    return var - lr / _complement(beta1_power) * (m / (v + epsilon)), m, v


@_rule("RMSProp", states="var ms mom", sparse=True)
def rms_prop(
    xp: ArrayNamespace,
    *,
    var: Value,
    ms: Value,
    mom: Value,
    lr: Value,
    rho: Value,
    momentum: Value,
    epsilon: Value,
    grad: Value,
) -> States:
    """Divide by the root of the running mean of squares."""
    ms = ms + (grad * grad - ms) * _complement(rho)
    mom = mom * momentum + grad * lr / xp.sqrt(ms + epsilon)
    return var - mom, ms, mom


@_rule("CenteredRMSProp", states="var mg ms mom", sparse=True)
def centered_rms_prop(
    xp: ArrayNamespace,
    *,
    var: Value,
    mg: Value,
    ms: Value,
    mom: Value,
    lr: Value,
    rho: Value,
    momentum: Value,
    epsilon: Value,
    grad: Value,
) -> States:
    """Divide by the root of the running variance."""
    ms = ms + (grad * grad - ms) * _complement(rho)
    mg = mg + (grad - mg) * _complement(rho)
    mom = mom * momentum + grad * lr / xp.sqrt(ms - mg * mg + epsilon)
    return var - mom, mg, ms, mom


def _proximal(xp: ArrayNamespace, value: Value, rate: Value, l1: Value, l2: Value) -> Value:
    """Shrink an updated variable towards zero according to the penalties."""
    shrunk = xp.where(
        l1 > 0, xp.sign(value) * xp.maximum(xp.abs(value) - rate * xp.maximum(l1, 0), 0), value
    )
    return shrunk / (1 + l2 * rate)


@_rule("ProximalGradientDescent", states="var", sparse=True)
def proximal_gradient_descent(
    xp: ArrayNamespace, *, var: Value, alpha: Value, l1: Value, l2: Value, grad: Value
) -> States:
    """Step against the gradient, then shrink towards zero."""
    return (_proximal(xp, var - alpha * grad, alpha, l1, l2),)


@_rule("ProximalAdagrad", states="var accum", sparse=True)
def proximal_adagrad(
    xp: ArrayNamespace,
    *,
    var: Value,
    accum: Value,
    lr: Value,
    l1: Value,
    l2: Value,
    grad: Value,
) -> States:
    """Step as Adagrad does, then shrink towards zero."""
    accum = accum + grad * grad
    rate = lr / xp.sqrt(accum)
    return _proximal(xp, var - grad * rate, rate, l1, l2), accum


@_rule("Ftrl", "FtrlV2", states="var accum linear", attrs="multiply_linear_by_lr", sparse=True)
def ftrl(
    xp: ArrayNamespace,
    *,
    var: Value,
    accum: Value,
    linear: Value,
    grad: Value,
    lr: Value,
    l1: Value,
    l2: Value,
    lr_power: Value,
    multiply_linear_by_lr: bool,
    l2_shrinkage: Value | None = None,
) -> States:
    """Follow the regularized leader."""
    shrunk = grad if l2_shrinkage is None else grad + 2 * l2_shrinkage * var
    new_accum = accum + grad * grad
    if xp is np and lr_power == -0.5:  # the usual case; sqrt takes a quarter of the time
        before, after = xp.sqrt(accum), xp.sqrt(new_accum)
    else:
        before, after = xp.power(accum, -lr_power), xp.power(new_accum, -lr_power)
    if multiply_linear_by_lr:
        linear = linear + shrunk * lr - (after - before) * var
        weight, bound = after + 2 * l2 * lr, l1 * lr
    else:
        linear = linear + shrunk - (after - before) / lr * var
        weight, bound = after / lr + 2 * l2, l1
    solved = (xp.sign(linear) * bound - linear) / weight
    return xp.where(xp.abs(linear) > bound, solved, xp.zeros_like(solved)), new_accum, linear


@_rule("AddSign", states="var m")
def add_sign(
    xp: ArrayNamespace,
    *,
    var: Value,
    m: Value,
    lr: Value,
    alpha: Value,
    sign_decay: Value,
    beta: Value,
    grad: Value,
) -> States:
    """Step further where gradient and its mean agree in sign."""
    m = m * beta + grad * _complement(beta)
    agree = xp.sign(grad) * xp.sign(m)
    return var - lr * (alpha + sign_decay * agree) * grad, m


@_rule("PowerSign", states="var m")
def power_sign(
    xp: ArrayNamespace,
    *,
    var: Value,
    m: Value,
    lr: Value,
    logbase: Value,
    sign_decay: Value,
    beta: Value,
    grad: Value,
) -> States:
    """Step further by a power where gradient and its mean agree in sign."""
    m = m * beta + grad * _complement(beta)
    agree = xp.sign(grad) * xp.sign(m)
    return var - lr * xp.exp(logbase * sign_decay * agree) * grad, m
