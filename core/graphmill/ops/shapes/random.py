"""Shapes of random ops; most have the shape in an input.

Semantics: tensorflow/core/ops/random_ops.cc and stateless_random_ops.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from graphmill.ops.inference.tensor_shape import UNKNOWN_SHAPE, TensorShape, merged_size
from graphmill.ops.shapes.shared import common

if TYPE_CHECKING:
    from graphmill.ops.inference.shape_inference import ShapeContext, ShapeFunction

_OF_SHAPE = """
    NonDeterministicInts ParameterizedTruncatedNormal RandomStandardNormal RandomUniform
    StatefulStandardNormal StatefulStandardNormalV2 StatefulTruncatedNormal StatefulUniform
    StatefulUniformFullInt StatefulUniformInt TruncatedNormal
"""
_SEEDED = """
    StatelessRandomNormal StatelessRandomUniform StatelessRandomUniformFullInt
    StatelessTruncatedNormal
"""
_KEYED = """
    StatelessRandomNormalV2 StatelessRandomUniformFullIntV2 StatelessRandomUniformV2
    StatelessTruncatedNormalV2
"""
_KEYS: Final = {"key": 1, "counter": 1, "alg": 0}
_BOUNDS: Final = {"minval": 0, "maxval": 0}


def sampled(op: ShapeContext) -> TensorShape:
    """Return the shape of `Multinomial`."""
    rows = op.inputs[0].with_rank(2)[0]
    return TensorShape((rows, common.integer(op, "num_samples")))


def seeded(op: ShapeContext) -> TensorShape:
    """Return the shape in the input `shape`, after a check of the two numbers of the seed."""
    op.shape("seed").merge_with((2,))
    return op.value_as_shape("shape")


def for_each(op: ShapeContext) -> TensorShape:
    """Return the shape of samples for each parameter: `RandomGamma` and similar ops."""
    return op.value_as_shape("shape") + op.inputs[1]


def truncated(op: ShapeContext) -> TensorShape:
    """Return the shape in the input `shape`, after a check that the parameters broadcast."""
    shape = op.inputs[2]
    for other in op.inputs[3:]:
        shape = shape.broadcast_with(other)
    return seeded(op)


def shuffled_index(op: ShapeContext) -> TensorShape:
    """Return the shape of `RandomIndexShuffle`, known if the index is a vector."""
    index, seed, most = op.inputs
    seed.with_rank_at_least(1).with_rank_at_most(2)
    if index.rank != 1:
        return UNKNOWN_SHAPE
    for shape, is_vector in ((most, most.rank == 1), (seed, seed.rank == 2)):
        if is_vector and shape[0] != 1:
            merged_size(index[0], shape[0])
    return index


SHAPES: Final[dict[str, ShapeFunction]] = common.table(
    (_OF_SHAPE, common.shape_input("shape")),
    (_SEEDED, seeded),
    (_KEYED, common.with_ranks(common.shape_input("shape"), **_KEYS)),
    ("StatelessParameterizedTruncatedNormal", truncated),
    ("RandomIndexShuffle", shuffled_index),
    ("RandomUniformInt", common.with_ranks(common.shape_input("shape"), **_BOUNDS)),
    ("StatelessRandomUniformInt", common.with_ranks(seeded, **_BOUNDS)),
    (
        "StatelessRandomUniformIntV2",
        common.with_ranks(common.shape_input("shape"), **_KEYS, **_BOUNDS),
    ),
    ("RandomShuffle StatelessShuffle", common.unchanged),
    ("Multinomial StatelessMultinomial", sampled),
    ("RandomGamma RandomPoisson RandomPoissonV2", for_each),
)
