"""Shapes of string ops.

Semantics: tensorflow/core/ops/string_ops.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from graphmill.ops.inference.tensor_shape import SCALAR, UNKNOWN_SHAPE, TensorShape
from graphmill.ops.shapes import _common as common

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


SHAPES: Final[dict[str, ShapeFunction]] = common.table(
    (_UNCHANGED, common.unchanged),
    ("StringFormat", common.scalars),
    ("StringJoin", joined),
)
