"""Shapes of ops that parse.

Semantics: tensorflow/core/ops/parsing_ops.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from graphmill.errors import InvalidArgumentError
from graphmill.ops.inference.tensor_shape import UNKNOWN_SHAPE, TensorShape
from graphmill.ops.shapes.shared import common

if TYPE_CHECKING:
    from graphmill.ops.inference.shape_inference import ShapeContext, ShapeFunction

_SEQUENCE_FEATURES: Final = (
    "Ncontext_sparse context_sparse_types",
    "Tcontext_dense context_dense_shapes",
    "Nfeature_list_sparse feature_list_sparse_types",
    "Nfeature_list_dense feature_list_dense_types feature_list_dense_shapes",
    "Ncontext_sparse context_sparse_keys",
    "Ncontext_dense context_dense_keys",
    "Nfeature_list_sparse feature_list_sparse_keys",
    "Nfeature_list_dense feature_list_dense_keys",
)
"""Attrs of sequence examples that are equally many; the keys only where they are attrs."""


def with_unknown_axis(op: ShapeContext) -> TensorShape:
    """Return the shape of the input with a last axis of unknown size."""
    return op.inputs[0].concatenate((None,))


def counted(*equal: str) -> ShapeFunction:
    """Return the shape function of an op that parses features of the kinds that its attrs list.

    Args:
        equal: names of attrs with spaces between them, which are counts, or lists of as many items.
    """

    def shapes(op: ShapeContext) -> list[TensorShape]:
        for names in equal:
            attrs = {name: op.get_attr(name) for name in names.split()}
            counts = {n: len(v) if isinstance(v, list | tuple) else v for n, v in attrs.items()}
            if len(set(counts.values())) > 1:
                raise InvalidArgumentError(f"attrs must be equally many, but are {counts}")
        return [UNKNOWN_SHAPE] * op.num_outputs

    return shapes


SHAPES: Final[dict[str, ShapeFunction]] = common.table(
    ("DecodeRaw", with_unknown_axis),
    ("StringToNumber", common.unchanged),
    ("ParseExample", counted("Nsparse sparse_types", "Ndense dense_shapes")),
    (
        "ParseExampleV2",
        counted("num_sparse sparse_types", "ragged_value_types ragged_split_types"),
    ),
    ("ParseSequenceExample", counted(*_SEQUENCE_FEATURES)),
    (
        "ParseSequenceExampleV2",
        counted(
            *_SEQUENCE_FEATURES[:4],
            "context_ragged_value_types context_ragged_split_types",
            "feature_list_ragged_value_types feature_list_ragged_split_types",
        ),
    ),
    ("ParseSingleExample", counted("num_sparse sparse_keys sparse_types")),
)
