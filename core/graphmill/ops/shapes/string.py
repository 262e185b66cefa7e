"""Shapes of string ops.

Semantics: tensorflow/core/ops/string_ops.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from graphmill.ops.inference.tensor_shape import SCALAR, UNKNOWN_SHAPE, TensorShape
from graphmill.ops.shapes.math import numbered_segments, reduced
from graphmill.ops.shapes.shared import common

if TYPE_CHECKING:
    from graphmill.ops.inference.shape_inference import ShapeContext, ShapeFunction

_UNCHANGED = """
    AsString DecodeBase64 EncodeBase64 RegexFullMatch RegexReplace StaticRegexFullMatch
    StaticRegexReplace StringLength StringLower StringStrip StringToHashBucket
    StringToHashBucketFast StringToHashBucketStrong StringUpper UnicodeScript UnicodeTranscode
"""


def joined(op: ShapeContext) -> TensorShape:
    """Return the shape of `StringJoin`: scalars broadcast, other shapes must be equal."""
    shape = SCALAR
    for part in op.inputs:
        if part.dims is None:
            return UNKNOWN_SHAPE
        if part.rank:
            shape = part.merge_with(shape) if shape.rank else part
    return shape


def cut(op: ShapeContext) -> TensorShape:
    """Return the shape of `Substr`: positions and lengths must have equal shapes."""
    text, place = op.inputs[0], op.inputs[1].merge_with(op.inputs[2])
    return text if place.rank == 0 else text.broadcast_with(place)


def split(op: ShapeContext) -> list[TensorShape]:
    """Return the shapes of the sparse tensor of `StringSplit`."""
    op.inputs[0].with_rank(1)
    return [TensorShape((None, 2)), TensorShape((None,)), TensorShape((2,))]


def decoded(op: ShapeContext) -> list[TensorShape]:
    """Return the shapes of `UnicodeDecode`: row splits, characters, perhaps their offsets."""
    sizes = op.inputs[0].dims
    count = None if sizes is None else common.product(sizes)
    splits = TensorShape((None if count is None else count + 1,))
    return [splits, *[TensorShape((None,))] * (op.num_outputs - 1)]


def encoded(op: ShapeContext) -> TensorShape:
    """Return the shape of `UnicodeEncode`: a string for each row of characters."""
    splits = op.shape("input_splits").with_rank(1)
    return TensorShape((common.sized(splits[0], lambda size: size - 1),))


SHAPES: Final[dict[str, ShapeFunction]] = common.table(
    (_UNCHANGED, common.unchanged),
    ("StringFormat", common.scalars),
    ("StringJoin", joined),
    ("StringSplit StringSplitV2", split),
    ("ReduceJoin", reduced),
    ("UnicodeEncode", encoded),
    ("UnsortedSegmentJoin", numbered_segments),
    ("Substr", cut),
    ("UnicodeDecode UnicodeDecodeWithOffsets", decoded),
)
