"""BlockLSTM and its gradient on JAX: a scan over the time steps.

Steps from `seq_len_max` on are computed and replaced by zeros, since it may be a traced value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill_plugins._lazy_jax import jnp, lax
from graphmill_plugins.kernels.nn.recurrent._cells import Cell, Step, dot, step, step_gradient
from graphmill_plugins.kernels.nn.recurrent.block_lstm_ops import block_lstm_kernels, gradients

if TYPE_CHECKING:
    from graphmill.spi import Value
    from graphmill_plugins.kernels.nn.recurrent.block_lstm_ops import BackwardInputs, ForwardInputs


def _forward(cell: Cell, seq_len_max: Value, inputs: ForwardInputs) -> Step:
    x, cs_prev, h_prev, weights = inputs

    def run_step(state: tuple[Value, Value], row: Value) -> tuple[tuple[Value, Value], Step]:
        values = step(jnp, cell, weights, row, *state)
        return (values.cs, values.h), values

    _, values = lax.scan(run_step, (jnp.asarray(cs_prev), jnp.asarray(h_prev)), jnp.asarray(x))
    is_within = (jnp.arange(len(x)) < seq_len_max)[:, None, None]
    return Step(*(jnp.where(is_within, value, jnp.zeros_like(value)) for value in values))


def _backward(cell: Cell, seq_len_max: Value, inputs: BackwardInputs) -> tuple[Value, ...]:
    x, weights, steps = inputs.x, inputs.weights, inputs.steps
    by_state = weights.w[x.shape[-1] :].T
    before = jnp.concatenate([inputs.cs_prev[None], steps.cs[:-1]])
    rows = (before, steps, inputs.cs_grad, inputs.h_grad, jnp.arange(len(x)) < seq_len_max)

    def run_step(
        state: tuple[Value, Value], row: tuple[Value, ...]
    ) -> tuple[tuple[Value, Value], Value]:
        cs_prev, now, cs_grad, h_grad, is_within = row
        grads = cs_grad + state[0], h_grad + state[1]
        to_cs, gates = step_gradient(jnp, cell, weights, cs_prev, now, *grads)
        new_values = to_cs, dot(jnp, gates, by_state)
        new_state = (
            jnp.where(is_within, new, old) for new, old in zip(new_values, state, strict=True)
        )
        return tuple(new_state), jnp.where(is_within, gates, jnp.zeros_like(gates))

    start = jnp.zeros_like(inputs.cs_prev), jnp.zeros_like(inputs.h_prev)
    state, gates = lax.scan(run_step, start, rows, reverse=True)
    return gradients(jnp, cell, inputs, gates, state)


KERNELS = block_lstm_kernels("jax", forward=_forward, backward=_backward)
