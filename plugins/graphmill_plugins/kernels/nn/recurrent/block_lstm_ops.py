"""Declare BlockLSTM and its gradient, check inputs, and create kernels for a backend.

Semantics: tensorflow/core/kernels/rnn/lstm_ops.cc. Version 1 has its gates in the order input,
cell, forget, output and adds a bias to the forget gate; version 2 in the order input, forget, cell,
output.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError
from graphmill.spi import KernelDef, KernelTable
from graphmill_plugins.kernels._support import shape_text
from graphmill_plugins.kernels.nn.recurrent._cells import (
    Cell,
    Step,
    Weights,
    check_cell,
    check_shapes,
    dot,
    peephole_gradients,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import ArrayNamespace, Value

    Forward = Callable[[Cell, Value, "ForwardInputs"], Step]
    Backward = Callable[[Cell, Value, "BackwardInputs"], tuple[Value, ...]]

_GATES: Final = {"": "icfo", "V2": "ifco"}
_TYPES: Final = {"T": (dtypes.float16, dtypes.float32)}


class ForwardInputs(NamedTuple):
    """The inputs of the op after `seq_len_max`, in order."""

    x: Value
    cs_prev: Value
    h_prev: Value
    weights: Weights

    @classmethod
    def of(cls, inputs: tuple[Value, ...]) -> ForwardInputs:
        """Group flat inputs."""
        x, cs_prev, h_prev = inputs[:3]
        return cls(x, cs_prev, h_prev, Weights(*inputs[3:]))

    def check(self, seq_len_max: Value) -> None:
        """Raise InvalidArgumentError unless the inputs fit together, including unused peepholes."""
        state = self.cs_prev, self.h_prev
        check_cell(self.x, state, self.weights, peephole=True, steps=True)
        check_steps(seq_len_max, len(self.x))


def check_steps(seq_len_max: Value, steps: int) -> None:
    """Check the requested number of steps; `seq_len_max` may be a traced value.

    Raises:
        InvalidArgumentError: it is not a scalar, or exceeds the steps of the input.
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
    """The inputs of the gradient op, in order."""

    x: Value
    cs_prev: Value
    h_prev: Value
    weights: Weights
    steps: Step
    cs_grad: Value
    h_grad: Value

    @classmethod
    def of(cls, inputs: tuple[Value, ...]) -> BackwardInputs:
        """Group flat inputs."""
        x, cs_prev, h_prev = inputs[:3]
        cs_grad, h_grad = inputs[15:]
        weights, steps = Weights(*inputs[3:8]), Step(*inputs[8:15])
        return cls(x, cs_prev, h_prev, weights, steps, cs_grad, h_grad)

    def check(self, cell: Cell, seq_len_max: Value) -> None:
        """Raise InvalidArgumentError unless the inputs fit together."""
        state = self.cs_prev, self.h_prev
        check_cell(self.x, state, self.weights, cell.peephole, steps=True)
        check_steps(seq_len_max, len(self.x))
        values = {**self.steps._asdict(), "cs_grad": self.cs_grad, "h_grad": self.h_grad}
        check_shapes(values, dict.fromkeys(values, (len(self.x), *self.cs_prev.shape)))


def gradients(
    xp: ArrayNamespace,
    cell: Cell,
    inputs: BackwardInputs,
    gates: Value,
    to_state: tuple[Value, ...],
) -> tuple[Value, ...]:
    """Return all gradients, given those of all steps' gates and of the first state."""
    x, steps = inputs.x, inputs.steps
    before = [
        xp.concatenate([first[None], later[:-1]])
        for first, later in ((inputs.cs_prev, steps.cs), (inputs.h_prev, steps.h))
    ]
    rows = xp.concatenate([x, before[1]], axis=-1)
    flat = gates.reshape(-1, gates.shape[-1])
    by_x = dot(xp, flat, inputs.weights.w[: x.shape[-1]].T).reshape(x.shape)
    by_w = dot(xp, rows.reshape(-1, rows.shape[-1]).T, flat)
    peepholes: tuple[Value, ...] = tuple(map(xp.zeros_like, inputs.weights[1:4]))
    if cell.peephole:
        peepholes = peephole_gradients(xp, cell, gates, before[0], steps.cs)
    return (by_x, *to_state, by_w, *peepholes, flat.sum(axis=0))


def block_lstm_kernels(backend: str, *, forward: Forward, backward: Backward) -> KernelTable:
    """Return a backend's kernels.

    Args:
        backend: name of the backend.
        forward: runs `seq_len_max` steps on checked inputs; later outputs are zero.
        backward: returns all gradients for checked inputs.
    """

    def steps(version: str) -> Callable[..., Callable[..., Step]]:
        def make(cell_clip: float, use_peephole: bool, **others: Any) -> Callable[..., Step]:
            forget_bias = others.get("forget_bias", 0.0)
            cell = Cell(_GATES[version], forget_bias, cell_clip, use_peephole)

            def run(seq_len_max: Value, *flat: Value) -> Step:
                inputs = ForwardInputs.of(flat)
                inputs.check(seq_len_max)
                return forward(cell, seq_len_max, inputs)

            return run

        return make

    def gradient(version: str) -> Callable[..., Callable[..., tuple[Value, ...]]]:
        def make(use_peephole: bool) -> Callable[..., tuple[Value, ...]]:
            cell = Cell(_GATES[version], peephole=use_peephole)

            def run(seq_len_max: Value, *flat: Value) -> tuple[Value, ...]:
                inputs = BackwardInputs.of(flat)
                inputs.check(cell, seq_len_max)
                return backward(cell, seq_len_max, inputs)

            return run

        return make

    return KernelTable(
        KernelDef((op + version,), make(version), backend, types=_TYPES, expensive=True, make=True)
        for op, make in (("BlockLSTM", steps), ("BlockLSTMGrad", gradient))
        for version in _GATES
    )
