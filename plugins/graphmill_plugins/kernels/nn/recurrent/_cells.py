"""One step of an LSTM and its gradient, and the checks of their inputs.

Semantics: tensorflow/core/kernels/rnn/lstm_ops.h, lstm_ops.cc. Products of narrow floats are
computed in float32.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from graphmill.errors import InvalidArgumentError
from graphmill_plugins.kernels._matmul import matmul_of
from graphmill_plugins.kernels._support import is_narrow, shape_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.spi import ArrayNamespace, Value


class Weights(NamedTuple):
    """The weights of a cell: concatenated gates, peepholes of three gates, and biases."""

    w: Value
    wci: Value
    wcf: Value
    wco: Value
    b: Value


class Step(NamedTuple):
    """The results of a step, in the order of the ops' outputs."""

    i: Value
    cs: Value
    f: Value
    o: Value
    ci: Value
    co: Value
    h: Value


@dataclass(frozen=True, slots=True)
class Cell:
    """The configuration of a cell.

    Attributes:
        gates: the letters "i", "c", "f", "o" in the order of the columns of the weights.
        forget_bias: bias added to the forget gate.
        clip: if positive, the bound of the cell's state.
        peephole: whether the gates read the cell's state.
    """

    gates: str
    forget_bias: float = 0.0
    clip: float = 0.0
    peephole: bool = False

    def split(self, xp: ArrayNamespace, columns: Value) -> dict[str, Value]:
        """Return the columns of each gate."""
        return dict(zip(self.gates, xp.split(columns, 4, axis=-1), strict=True))

    def join(self, xp: ArrayNamespace, **gates: Value) -> Value:
        """Concatenate gates along the columns."""
        return xp.concatenate([gates[name] for name in self.gates], axis=-1)


def dot(xp: ArrayNamespace, a: Value, b: Value) -> Value:
    """Return the product of two matrices in their dtype."""
    if is_narrow(a.dtype):
        wide = np.float32
        return matmul_of(xp)(a.astype(wide), b.astype(wide)).astype(a.dtype)
    return matmul_of(xp)(a, b)


def sigmoid(xp: ArrayNamespace, x: Value) -> Value:
    """Return 1 / (1 + exp(-x)) in the dtype of the input."""
    return 1 / (1 + xp.exp(-x))


def step(
    xp: ArrayNamespace, cell: Cell, weights: Weights, x: Value, cs_prev: Value, h_prev: Value
) -> Step:
    """Return the results of a cell for an input (batch, inputs) and a state (batch, cells)."""
    columns = dot(xp, xp.concatenate([x, h_prev], axis=1), weights.w) + weights.b
    gates = cell.split(xp, columns)
    peek = cell.peephole
    i = sigmoid(xp, gates["i"] + cs_prev * weights.wci if peek else gates["i"])
    ci = xp.tanh(gates["c"])
    forget = gates["f"] + x.dtype.type(cell.forget_bias)
    f = sigmoid(xp, forget + cs_prev * weights.wcf if peek else forget)
    cs = ci * i + f * cs_prev
    if cell.clip > 0:
        bound = x.dtype.type(cell.clip)
        cs = xp.clip(cs, -bound, bound)
    o = sigmoid(xp, gates["o"] + cs * weights.wco if peek else gates["o"])
    co = xp.tanh(cs)
    return Step(i, cs, f, o, ci, co, o * co)


def step_gradient(
    xp: ArrayNamespace,
    cell: Cell,
    weights: Weights,
    cs_prev: Value,
    values: Step,
    cs_grad: Value,
    h_grad: Value,
) -> tuple[Value, Value]:
    """Return the gradients of a step's previous state, and of its concatenated gates.

    The gradient of clipping is that of the identity, as in TensorFlow.
    """
    i, _, f, o, ci, co, _ = values
    to_output = o * (1 - o) * h_grad * co
    to_state = (1 - co * co) * h_grad * o + cs_grad
    if cell.peephole:
        to_state = to_state + to_output * weights.wco
    to_cell = (1 - ci * ci) * to_state * i
    to_forget = f * (1 - f) * to_state * cs_prev
    to_input = i * (1 - i) * to_state * ci
    before = to_state * f
    if cell.peephole:
        before = before + to_input * weights.wci + to_forget * weights.wcf
    return before, cell.join(xp, i=to_input, c=to_cell, f=to_forget, o=to_output)


def peephole_gradients(
    xp: ArrayNamespace, cell: Cell, gates: Value, cs_prev: Value, cs: Value
) -> tuple[Value, ...]:
    """Return the gradients of the peepholes from those of the gates."""
    parts = cell.split(xp, gates)
    axes = tuple(range(cs.ndim - 1))
    seen = {"i": cs_prev, "f": cs_prev, "o": cs}
    return tuple((parts[name] * state).sum(axis=axes) for name, state in seen.items())


def check_cell(
    x: Value, state: Sequence[Value], weights: Weights, peephole: bool, *, steps: bool
) -> None:
    """Check the shapes of a cell's inputs; with `steps`, the first axis of `x` is the step.

    Peephole weights must be vectors even if unused; with `peephole`, of the cell's size.

    Raises:
        InvalidArgumentError: the shapes do not fit together.
    """
    rank = 3 if steps else 2
    if x.ndim != rank:
        raise InvalidArgumentError(f"x must be {rank}D, got shape {shape_text(x.shape)}")
    batch, inputs = x.shape[-2:]
    if state[0].ndim != 2:
        raise InvalidArgumentError(f"cs_prev must be 2D, got {shape_text(state[0].shape)}")
    if not steps and not state[0].size:
        raise InvalidArgumentError(f"cs_prev is empty, has shape {shape_text(state[0].shape)}")
    cells = state[0].shape[1]
    expected: dict[str, tuple[int, ...]]
    expected = {"cs_prev": (batch, cells), "h_prev": (batch, cells)}
    actual = {"cs_prev": state[0], "h_prev": state[1]}
    expected |= {"w": (inputs + cells, 4 * cells), "b": (4 * cells,)}
    actual |= {"w": weights.w, "b": weights.b}
    for name, value in zip(("wci", "wcf", "wco"), weights[1:4], strict=True):
        if value.ndim != 1:
            raise InvalidArgumentError(f"{name} must be 1D, got shape {shape_text(value.shape)}")
        if peephole:
            expected[name], actual[name] = (cells,), value
    check_shapes(actual, expected)


def check_shapes(actual: dict[str, Value], expected: dict[str, tuple[int, ...]]) -> None:
    """Raise InvalidArgumentError for the first input whose shape is not the expected one."""
    for name, value in actual.items():
        if tuple(value.shape) != expected[name]:
            raise InvalidArgumentError(
                f"{name} must have shape {shape_text(expected[name])}, got "
                f"{shape_text(value.shape)}"
            )
