"""BlockLSTM on NumPy: an LSTM over all steps of a batch of sequences, and its gradient."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphmill_plugins.kernels.nn.recurrent._cells import Cell, Step, dot, step, step_gradient
from graphmill_plugins.kernels.nn.recurrent.block_lstm_ops import block_lstm_kernels, gradients

if TYPE_CHECKING:
    from graphmill.spi import Value
    from graphmill_plugins.kernels.nn.recurrent.block_lstm_ops import BackwardInputs, ForwardInputs


def forward(cell: Cell, seq_len_max: Value, inputs: ForwardInputs) -> Step:
    """Run `seq_len_max` steps; later outputs are zero (NumPy)."""
    x, cs_prev, h_prev, weights = inputs
    shape = (len(x), *cs_prev.shape)
    outputs = Step(*(np.zeros(shape, x.dtype) for _ in Step._fields))
    for time in range(int(seq_len_max)):
        now = step(np, cell, weights, x[time], cs_prev, h_prev)
        for output, value in zip(outputs, now, strict=True):
            output[time] = value
        cs_prev, h_prev = now.cs, now.h
    return outputs


def backward(cell: Cell, seq_len_max: Value, inputs: BackwardInputs) -> tuple[Value, ...]:
    """Backpropagate through `seq_len_max` steps; later steps have no gradient (NumPy)."""
    x, weights, steps = inputs.x, inputs.weights, inputs.steps
    to_cs, to_h = np.zeros_like(inputs.cs_prev), np.zeros_like(inputs.h_prev)
    by_state = weights.w[x.shape[-1] :].T
    gates = np.zeros((len(x), len(to_h), weights.w.shape[1]), x.dtype)
    for time in reversed(range(int(seq_len_max))):
        cs_prev = steps.cs[time - 1] if time else inputs.cs_prev
        now = Step(*(value[time] for value in steps))
        grads = inputs.cs_grad[time] + to_cs, inputs.h_grad[time] + to_h
        to_cs, gates[time] = step_gradient(np, cell, weights, cs_prev, now, *grads)
        to_h = dot(np, gates[time], by_state)
    return gradients(np, cell, inputs, gates, (to_cs, to_h))


KERNELS = block_lstm_kernels("numpy", forward=forward, backward=backward)
