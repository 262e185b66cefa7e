"""BlockLSTM: an LSTM over all steps of a batch of sequences, and its gradient, on NumPy.

Semantics: tensorflow/core/kernels/rnn/lstm_ops.cc. Version 1 has its gates in the order input,
cell, forget, output and adds a bias to the forget gate; version 2 in the order input, forget, cell,
output.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill_plugins.kernels._support import shape_text
from graphmill_plugins.kernels.nn._cells import (
    Cell,
    Step,
    Weights,
    check_cell,
    check_shapes,
    dot,
    peephole_gradients,
    step,
    step_gradient,
)

if TYPE_CHECKING:
    from graphmill.spi import ArrayNamespace, Value

_TYPES = {"T": ("float16", "float32")}


def check_steps(seq_len_max: Value, steps: int) -> None:
    """Check how many steps are asked for; `seq_len_max` may be a traced value.

    Raises:
        InvalidArgumentError: it is no scalar, or not within the input.
    """
    if np.ndim(seq_len_max):
        raise InvalidArgumentError(
            f"seq_len_max must be a scalar, got shape {shape_text(np.shape(seq_len_max))}"
        )
    if isinstance(seq_len_max, (np.ndarray, np.generic)) and not 0 <= int(seq_len_max) <= steps:
        raise InvalidArgumentError(
            f"seq_len_max must be in [0, {steps}], the steps of the input, got {int(seq_len_max)}"
        )


class BackwardInputs(NamedTuple):
    """The inputs of a gradient, in the order of the op."""

    x: Value
    cs_prev: Value
    h_prev: Value
    weights: Weights
    made: Step
    cs_grad: Value
    h_grad: Value

    @classmethod
    def of(cls, inputs: tuple[Value, ...]) -> BackwardInputs:
        """Sort flat inputs."""
        x, cs_prev, h_prev = inputs[:3]
        cs_grad, h_grad = inputs[15:]
        weights, made = Weights(*inputs[3:8]), Step(*inputs[8:15])
        return cls(x, cs_prev, h_prev, weights, made, cs_grad, h_grad)

    def check(self, cell: Cell, seq_len_max: Value) -> None:
        """Raise InvalidArgumentError unless the inputs fit together."""
        state = self.cs_prev, self.h_prev
        check_cell(self.x, state, self.weights, cell.peephole, steps=True)
        check_steps(seq_len_max, len(self.x))
        values = {**self.made._asdict(), "cs_grad": self.cs_grad, "h_grad": self.h_grad}
        check_shapes(values, dict.fromkeys(values, (len(self.x), *self.cs_prev.shape)))


def gradients(
    xp: ArrayNamespace,
    cell: Cell,
    inputs: BackwardInputs,
    gates: Value,
    to_state: tuple[Value, ...],
) -> tuple[Value, ...]:
    """Return all gradients from those of the gates of all steps and of the first state."""
    x, made = inputs.x, inputs.made
    before = [
        xp.concatenate([first[None], later[:-1]])
        for first, later in ((inputs.cs_prev, made.cs), (inputs.h_prev, made.h))
    ]
    rows = xp.concatenate([x, before[1]], axis=-1)
    flat = gates.reshape(-1, gates.shape[-1])
    by_x = dot(xp, flat, inputs.weights.w[: x.shape[-1]].T).reshape(x.shape)
    by_w = dot(xp, rows.reshape(-1, rows.shape[-1]).T, flat)
    peepholes: tuple[Value, ...] = tuple(map(xp.zeros_like, inputs.weights[1:4]))
    if cell.peephole:
        peepholes = peephole_gradients(xp, cell, gates, before[0], made.cs)
    return (by_x, *to_state, by_w, *peepholes, flat.sum(axis=0))


def forward(cell: Cell, seq_len_max: Value, inputs: tuple[Value, ...]) -> Step:
    """Take `seq_len_max` steps; what comes later is zero (NumPy)."""
    x, cs_prev, h_prev = inputs[:3]
    weights = Weights(*inputs[3:])
    check_cell(x, (cs_prev, h_prev), weights, peephole=True, steps=True)  # if there are none, too
    check_steps(seq_len_max, len(x))
    shape = (len(x), *cs_prev.shape)
    outputs = Step(*(np.zeros(shape, x.dtype) for _ in Step._fields))
    for time in range(int(seq_len_max)):
        made = step(np, cell, weights, x[time], cs_prev, h_prev)
        for output, value in zip(outputs, made, strict=True):
            output[time] = value
        cs_prev, h_prev = made.cs, made.h
    return outputs


def backward(cell: Cell, seq_len_max: Value, inputs: BackwardInputs) -> tuple[Value, ...]:
    """Go back through the steps; later ones have no gradient (NumPy)."""
    inputs.check(cell, seq_len_max)
    x, weights, made = inputs.x, inputs.weights, inputs.made
    to_cs, to_h = np.zeros_like(inputs.cs_prev), np.zeros_like(inputs.h_prev)
    by_state = weights.w[x.shape[-1] :].T
    gates = np.zeros((len(x), len(to_h), weights.w.shape[1]), x.dtype)
    for time in reversed(range(int(seq_len_max))):
        cs_prev = made.cs[time - 1] if time else inputs.cs_prev
        now = Step(*(value[time] for value in made))
        grads = inputs.cs_grad[time] + to_cs, inputs.h_grad[time] + to_h
        to_cs, gates[time] = step_gradient(np, cell, weights, cs_prev, now, *grads)
        to_h = dot(np, gates[time], by_state)
    return gradients(np, cell, inputs, gates, (to_cs, to_h))


@kernel("BlockLSTM", backend="numpy", types=_TYPES, expensive=True)
def block_lstm(
    seq_len_max: Value,
    *inputs: Value,
    forget_bias: float,
    cell_clip: float,
    use_peephole: bool,
) -> Step:
    """Take steps over x (steps, batch, inputs) from a state; return what each one made."""
    return forward(Cell("icfo", forget_bias, cell_clip, use_peephole), seq_len_max, inputs)


@kernel("BlockLSTMV2", backend="numpy", types=_TYPES, expensive=True)
def block_lstm_v2(
    seq_len_max: Value,
    *inputs: Value,
    cell_clip: float,
    use_peephole: bool,
) -> Step:
    """Take steps over x (steps, batch, inputs) from a state; return what each one made."""
    return forward(Cell("ifco", 0.0, cell_clip, use_peephole), seq_len_max, inputs)


@kernel("BlockLSTMGrad", backend="numpy", types=_TYPES, expensive=True)
def block_lstm_grad(seq_len_max: Value, *inputs: Value, use_peephole: bool) -> tuple[Value, ...]:
    """Return the gradients of input, state and weights."""
    cell = Cell("icfo", peephole=use_peephole)
    return backward(cell, seq_len_max, BackwardInputs.of(inputs))


@kernel("BlockLSTMGradV2", backend="numpy", types=_TYPES, expensive=True)
def block_lstm_grad_v2(seq_len_max: Value, *inputs: Value, use_peephole: bool) -> tuple[Value, ...]:
    """Return the gradients of input, state and weights."""
    cell = Cell("ifco", peephole=use_peephole)
    return backward(cell, seq_len_max, BackwardInputs.of(inputs))
