"""LSTMBlockCell and GRUBlockCell kernels, and their gradients.

Semantics: tensorflow/core/kernels/rnn/lstm_ops.cc, gru_ops.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.spi import kernel
from graphmill_plugins.kernels.nn.recurrent._cells import (
    Cell,
    Step,
    Weights,
    check_cell,
    check_shapes,
    dot,
    peephole_gradients,
    sigmoid,
    step,
    step_gradient,
)

if TYPE_CHECKING:
    from graphmill.spi import ArrayNamespace, Value

_TYPES = {"T": ("float16", "float32")}


@kernel("LSTMBlockCell", types=_TYPES, expensive=True)
def lstm_block_cell(
    xp: ArrayNamespace,
    x: Value,
    cs_prev: Value,
    h_prev: Value,
    w: Value,
    wci: Value,
    wcf: Value,
    wco: Value,
    b: Value,
    forget_bias: float,
    cell_clip: float,
    use_peephole: bool,
) -> Step:
    """Run one step of an LSTM with gates in the order input, cell, forget, output."""
    weights = Weights(w, wci, wcf, wco, b)
    check_cell(x, (cs_prev, h_prev), weights, use_peephole, steps=False)
    cell = Cell("icfo", forget_bias, cell_clip, use_peephole)
    return step(xp, cell, weights, x, cs_prev, h_prev)


@kernel("LSTMBlockCellGrad", types=_TYPES, expensive=True)
def lstm_block_cell_grad(
    xp: ArrayNamespace,
    x: Value,
    cs_prev: Value,
    h_prev: Value,
    w: Value,
    wci: Value,
    wcf: Value,
    wco: Value,
    b: Value,
    i: Value,
    cs: Value,
    f: Value,
    o: Value,
    ci: Value,
    co: Value,
    cs_grad: Value,
    h_grad: Value,
    use_peephole: bool,
) -> tuple[Value, ...]:
    """Return the gradients of the state, of the gates, and of the peepholes."""
    weights = Weights(w, wci, wcf, wco, b)
    check_cell(x, (cs_prev, h_prev), weights, use_peephole, steps=False)
    values_of_step = Step(i, cs, f, o, ci, co, h_prev)
    values = {**values_of_step._asdict(), "cs_grad": cs_grad, "h_grad": h_grad}
    check_shapes(values, dict.fromkeys(values, tuple(cs_prev.shape)))
    cell = Cell("icfo", peephole=use_peephole)
    before, gates = step_gradient(xp, cell, weights, cs_prev, values_of_step, cs_grad, h_grad)
    peepholes: tuple[Value, ...] = tuple(map(xp.zeros_like, weights[1:4]))
    if use_peephole:
        peepholes = peephole_gradients(xp, cell, gates, cs_prev, cs)
    return (before, gates, *peepholes)


def _check_gru(
    x: Value, h_prev: Value, w_ru: Value, w_c: Value, b_ru: Value, b_c: Value, **others: Value
) -> None:
    shapes = {"x": x, "h_prev": h_prev}
    for name, value in shapes.items():
        if value.ndim != 2:
            check_shapes({name: value}, {name: (-1, -1)})
    batch, inputs = x.shape
    cells = h_prev.shape[1]
    actual = {"h_prev": h_prev, "w_ru": w_ru, "w_c": w_c, "b_ru": b_ru, "b_c": b_c, **others}
    expected = {
        "h_prev": (batch, cells),
        "w_ru": (inputs + cells, 2 * cells),
        "w_c": (inputs + cells, cells),
        "b_ru": (2 * cells,),
        "b_c": (cells,),
        **dict.fromkeys(others, (batch, cells)),
    }
    check_shapes(actual, expected)


@kernel("GRUBlockCell", types={"T": ("float32",)}, expensive=True)
def gru_block_cell(
    xp: ArrayNamespace, x: Value, h_prev: Value, w_ru: Value, w_c: Value, b_ru: Value, b_c: Value
) -> tuple[Value, ...]:
    """Run one step of a gated recurrent unit; return reset, update, candidate and state."""
    _check_gru(x, h_prev, w_ru, w_c, b_ru, b_c)
    both = sigmoid(xp, dot(xp, xp.concatenate([x, h_prev], axis=1), w_ru) + b_ru)
    r, u = xp.split(both, 2, axis=1)
    c = xp.tanh(dot(xp, xp.concatenate([x, h_prev * r], axis=1), w_c) + b_c)
    return r, u, c, u * h_prev + (1 - u) * c


@kernel("GRUBlockCellGrad", types={"T": ("float32",)}, expensive=True)
def gru_block_cell_grad(
    xp: ArrayNamespace,
    x: Value,
    h_prev: Value,
    w_ru: Value,
    w_c: Value,
    b_ru: Value,
    b_c: Value,
    r: Value,
    u: Value,
    c: Value,
    d_h: Value,
) -> tuple[Value, ...]:
    """Return the gradients of input, state, candidate, and of both gates, concatenated."""
    _check_gru(x, h_prev, w_ru, w_c, b_ru, b_c, r=r, u=u, c=c, d_h=d_h)
    inputs = x.shape[1]
    to_candidate = d_h * (1 - u) * (1 - c * c)
    to_update = d_h * (h_prev - c) * u * (1 - u)
    by_candidate = dot(xp, to_candidate, w_c.T)
    to_reset_state = by_candidate[:, inputs:]
    to_reset = to_reset_state * h_prev * r * (1 - r)
    gates = xp.concatenate([to_reset, to_update], axis=1)
    by_gates = dot(xp, gates, w_ru.T)
    to_x = by_gates[:, :inputs] + by_candidate[:, :inputs]
    to_state = by_gates[:, inputs:] + to_reset_state * r + d_h * u
    return to_x, to_state, to_candidate, gates
