"""Patterns of the shapes that ops accept as inputs."""

from __future__ import annotations

import pytest

import graphmill
from graphmill.errors import InvalidArgumentError
from graphmill.ops.definition.op_def import OpDef
from graphmill.ops.definition.op_registry import OpRegistry
from graphmill.ops.inference.input_shapes import Bindings, ShapePattern, _lines, input_patterns
from graphmill.ops.inference.tensor_shape import TensorShape


def check(patterns: str, *shapes: object) -> None:
    found = [TensorShape(shape) for shape in shapes]
    bindings = Bindings(found)
    for text, shape in zip(patterns.split(), found, strict=True):
        ShapePattern.parse(text).check(shape, bindings)


@pytest.mark.parametrize(
    ("patterns", "shapes"),
    [
        ("*", [(1, 2, 3)]),
        ("*", [None]),
        ("[]", [()]),
        ("[]", [None]),
        ("[_,4]", [(7, 4)]),
        ("[_,4]", [(7, None)]),
        ("[n,n]", [(3, None)]),
        ("[...,m,m]", [(2, 5, 5)]),
        ("[...,m,m]", [(5, 5)]),
        ("[n,...]", [(2,)]),
        ("[n,...,3]", [(2, 3)]),
        ("<=1", [()]),
        ("<=1", [(9,)]),
        ("[n] [n,2]", [(3,), (3, 2)]),
        ("[n] [n,2]", [None, (3, 2)]),
        ("[...b,n] [...b,2]", [(5, 6, 9), (5, 6, 2)]),
        ("[...b,n] [...b,2]", [(None, 6, 9), (5, None, 2)]),
        ("* [#0]", [(4, 5, 6), (3,)]),
        ("* [#0]", [None, (3,)]),
    ],
)
def test_shapes_of_a_pattern_are_accepted(patterns: str, shapes: list[object]) -> None:
    check(patterns, *shapes)


@pytest.mark.parametrize(
    ("patterns", "shapes", "message"),
    [
        ("[]", [(1,)], "must be rank 0 but is rank 1"),
        ("[_,4]", [(7, 5)], "must be equal, but are 4 and 5"),
        ("[_,4]", [(7,)], "must be rank 2 but is rank 1"),
        ("[...,m,m]", [(2, 5, 6)], "must be equal, but are 5 and 6"),
        ("[...,m,m]", [(5,)], "must be at least rank 2 but is rank 1"),
        ("[n,...,3]", [(3,)], "must be at least rank 2 but is rank 1"),
        ("<=1", [(2, 2)], "must be at most rank 1 but is rank 2"),
        ("[n] [n,2]", [(3,), (4, 2)], "must be equal, but are 3 and 4"),
        ("[...b,n] [...b,2]", [(5, 6, 9), (6, 2)], "must be equal rank, but are 2 and 1"),
        ("[...b,n] [...b,2]", [(5, 9), (6, 2)], "must be equal, but are 5 and 6"),
        ("* [#0]", [(4, 5, 6), (2,)], "must be equal, but are 3 and 2"),
    ],
)
def test_other_shapes_are_refused(patterns: str, shapes: list[object], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        check(patterns, *shapes)


def test_each_op_has_a_valid_pattern_for_each_input() -> None:
    ops = OpRegistry()
    for name, line in _lines().items():
        patterns = line.split()
        assert len(patterns) == len(ops.get(name).input_args), name
        for text in patterns:
            pattern = ShapePattern.parse(text)
            for axis in (*pattern.head, *(pattern.tail or ())):
                assert axis.isidentifier() or axis.isdigit() or axis.startswith("#"), (name, text)


def test_refused_node_names_input_shape_and_patterns() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        boxes = graph.placeholder("float32", [3, 5], name="boxes")
        scores = graph.placeholder("float32", [3], name="scores")
        with pytest.raises(InvalidArgumentError) as caught:
            graph.create_op("NonMaxSuppression", [boxes, scores, graph.constant(2)], name="kept")
    assert caught.value.node == "kept"
    assert caught.value.op_type == "NonMaxSuppression"
    assert "input 'boxes' has the shape (3, 5)" in caught.value.message
    assert "boxes: [n,4], scores: [n], max_output_size: []" in caught.value.message


def test_op_of_a_plugin_with_a_bundled_name_has_no_patterns() -> None:
    bundled = OpRegistry().get("NonMaxSuppression")
    assert input_patterns(bundled)
    other = OpDef(bundled.name, bundled.input_args[:1], bundled.output_args)
    assert not input_patterns(other)
