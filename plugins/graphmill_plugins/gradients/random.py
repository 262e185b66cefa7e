"""Random ops: no gradient flows to shapes and seeds, but gamma samples move with alpha.

Semantics: tensorflow/python/ops/random_grad.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.ops import array, math, random
from graphmill.plugin.gradient_declaration import gradient, not_differentiable

if TYPE_CHECKING:
    from graphmill.backprop.forward_op import ForwardOp
    from graphmill.graph.tensor import Tensor

none = not_differentiable(
    "RandomStandardNormal", "ParameterizedTruncatedNormal", "TruncatedNormal", "RandomUniform",
    "RandomUniformInt", "Multinomial", "StatelessMultinomial", "StatelessRandomNormal",
    "StatelessRandomNormalV2", "StatelessRandomUniform", "StatelessRandomUniformV2",
    "StatelessRandomUniformInt", "StatelessRandomUniformIntV2", "StatelessTruncatedNormal",
    "StatelessTruncatedNormalV2", "RandomShuffle", "RandomCrop",
    "StatelessRandomBinomial", "StatefulRandomBinomial", "StatelessShuffle",
)  # fmt: skip


@gradient("RandomGamma")
def random_gamma(op: ForwardOp, dy: Tensor) -> list[Any]:
    """Add up over the samples of each alpha."""
    shape, alpha = op.inputs
    return [None, _by_alpha(op, dy, alpha, array.size(shape))]


@gradient("StatelessRandomGammaV2", "StatelessRandomGammaV3")
def stateless_random_gamma(op: ForwardOp, dy: Tensor) -> list[Any]:
    """Add up over the samples of each alpha."""
    alpha = op.inputs[-1]
    axes = array.size(op.inputs[0]) - array.rank(alpha)
    return [*[None] * (len(op.inputs) - 1), _by_alpha(op, dy, alpha, axes)]


def _by_alpha(op: ForwardOp, dy: Tensor, alpha: Tensor, axes: Tensor) -> Tensor:
    """Return the gradient of alpha; samples have `axes` axes more, in front."""
    moved = dy * random.random_gamma_grad(alpha, op.outputs[0])
    return math.sum(moved, math.range(0, axes, 1))
