"""Spans of loops and iterations: extents, lanes, nesting."""

from __future__ import annotations

from graphmill.explain.loop_spans import LoopSpan, loop_spans


def test_a_loop_lasts_from_its_first_node_to_its_last() -> None:
    spans = loop_spans([("loop:0", 3, 5), ("loop:0", 1, 2), ("loop:1", 6, 9), ("", 0, 99)])
    assert spans == [
        LoopSpan("loop", "loop", 1, 9, 0),
        LoopSpan("loop:0", "iteration 0", 1, 5, 0),
        LoopSpan("loop:1", "iteration 1", 6, 9, 0),
    ]


def test_overlapping_iterations_get_their_own_lanes() -> None:
    spans = loop_spans([("a:0", 0, 10), ("a:1", 5, 15), ("a:2", 12, 20)])
    assert [(span.path, span.lane) for span in spans] == [
        ("a", 0),
        ("a:0", 0),
        ("a:1", 1),
        ("a:2", 0),
    ]


def test_inner_loop_belongs_to_its_iteration() -> None:
    """The inner loop of iteration 1 is not drawn in iteration 0, though it runs during it."""
    spans = loop_spans([("a:0", 0, 100), ("a:1", 10, 90), ("a:1/b/c:0", 20, 30)])
    lanes = {span.path: span.lane for span in spans}
    assert lanes == {"a": 0, "a:0": 0, "a:1": 1, "a:1/b/c": 1, "a:1/b/c:0": 1}
    assert [span.name for span in spans[-2:]] == ["b/c", "iteration 0"]
