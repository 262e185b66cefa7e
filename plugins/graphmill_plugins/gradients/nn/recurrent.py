"""Gradients of recurrent blocks. Semantics: tensorflow/python/ops/rnn_grad.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.ops import nn
from graphmill.spi import gradient

if TYPE_CHECKING:
    from graphmill.spi.gradients import ForwardOp

_STATES, _OUTPUTS = 1, 6  # the outputs cs and h; gradients of the others are ignored


def _block(op: ForwardOp, dys: tuple[Any, ...], build: Any) -> list[Any]:
    grads = [
        op.zeros(op.outputs[index]) if dys[index] is None else dys[index]
        for index in (_STATES, _OUTPUTS)
    ]
    gradients = build(*op.inputs, *op.outputs, *grads, use_peephole=op.get_attr("use_peephole"))
    return [None, *gradients]


@gradient("BlockLSTM")
def block_lstm(op: ForwardOp, *dys: Any) -> list[Any]:
    """Apply the op's gradient op."""
    return _block(op, dys, nn.block_lstm_grad)


@gradient("BlockLSTMV2")
def block_lstm_v2(op: ForwardOp, *dys: Any) -> list[Any]:
    """Apply the op's gradient op."""
    return _block(op, dys, nn.block_lstm_grad_v2)
