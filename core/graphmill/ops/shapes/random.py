"""Shapes of random ops; most have the shape in an input.

Semantics: tensorflow/core/ops/random_ops.cc and stateless_random_ops.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from graphmill.ops.inference.tensor_shape import TensorShape
from graphmill.ops.shapes.shared import common

if TYPE_CHECKING:
    from graphmill.ops.inference.shape_inference import ShapeContext, ShapeFunction

_OF_SHAPE = """
    NonDeterministicInts ParameterizedTruncatedNormal RandomStandardNormal RandomUniform
    RandomUniformInt StatefulStandardNormal StatefulStandardNormalV2 StatefulTruncatedNormal
    StatefulUniform StatefulUniformFullInt StatefulUniformInt StatelessRandomNormal
    StatelessRandomNormalV2 StatelessRandomUniform StatelessRandomUniformFullInt
    StatelessRandomUniformFullIntV2 StatelessRandomUniformInt StatelessRandomUniformIntV2
    StatelessRandomUniformV2 StatelessTruncatedNormal StatelessTruncatedNormalV2 TruncatedNormal
"""


def sampled(op: ShapeContext) -> TensorShape:
    """Return the shape of `Multinomial`."""
    rows = op.inputs[0].with_rank(2)[0]
    return TensorShape((rows, common.integer(op, "num_samples")))


def for_each(op: ShapeContext) -> TensorShape:
    """Return the shape of samples for each parameter: `RandomGamma` and similar ops."""
    return op.value_as_shape("shape") + op.inputs[1]


SHAPES: Final[dict[str, ShapeFunction]] = common.table(
    (_OF_SHAPE, common.shape_input("shape")),
    ("RandomShuffle StatelessShuffle", common.unchanged),
    ("Multinomial StatelessMultinomial", sampled),
    ("RandomGamma RandomPoisson RandomPoissonV2", for_each),
)
