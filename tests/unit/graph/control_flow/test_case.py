"""`case` builds nested conditionals (clause G4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from graphmill.errors import InvalidArgumentError
from graphmill.graph.builder import Graph, Tensor
from graphmill.graph.control_flow.case import case

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def graph() -> Iterator[Graph]:
    made = Graph()
    with made.as_default():
        yield made


@pytest.fixture
def x(graph: Graph) -> Tensor:
    return graph.placeholder("int32", (), "x")


def ops_of(graph: Graph, op: str) -> list[str]:
    return [node.name for node in graph if node.op == op]


def test_conditionals_are_nested_in_order(graph: Graph, x: Tensor) -> None:
    y = case([(x > 5, lambda: x), (x > 3, lambda: x + 1), (x > 1, lambda: x + 2)], lambda: -x)
    assert y.name == "case/cond/Merge:0"
    merges = ["case/cond/Merge", "case/cond/cond/Merge", "case/cond/cond/cond/Merge"]
    assert sorted(ops_of(graph, "Merge")) == merges
    assert not ops_of(graph, "Assert")


def test_a_dict_keeps_its_order(graph: Graph, x: Tensor) -> None:
    case({x > 5: lambda: x, x > 3: lambda: x + 1}, default=lambda: x)
    switch = graph.node("case/cond/Switch")
    assert switch.in_edges[0].src.name == "Greater"


def test_case_without_default_needs_a_true_predicate(graph: Graph, x: Tensor) -> None:
    case([(x > 5, lambda: x), (x < 3, lambda: x + 1)])
    (check,) = ops_of(graph, "Assert")
    assert check.startswith("case/cond/Assert/")
    assert len(ops_of(graph, "Merge")) == 2  # one of the case, one of the check


def test_a_single_case_without_default_always_runs(graph: Graph, x: Tensor) -> None:
    assert case([(x > 5, lambda: x + 1)], name="only").op.name == "only/add"


def test_exclusive_cases_are_counted(graph: Graph, x: Tensor) -> None:
    y = case([(x > 5, lambda: x), (x > 3, lambda: x + 1)], lambda: x, exclusive=True)
    (check,) = ops_of(graph, "Assert")
    assert check == "case/Assert/AssertGuard/Assert"
    waits = graph.node("case/cond/pred_id").control_in_edges
    assert [edge.src.name for edge in waits] == ["case/Assert/AssertGuard/Merge"]
    assert y.op.op == "Merge"


def test_strict_keeps_a_list(x: Tensor) -> None:
    assert isinstance(case([(x > 5, lambda: [x])], lambda: [x], strict=True), list)


@pytest.mark.parametrize(
    ("pairs", "default", "message"),
    [
        ([], None, "case got no pairs"),
        ([1], None, "case 0 is 1, expected a tuple"),
        ([(True, lambda: 1)], None, "predicate 0 is True, expected a bool tensor"),
        ("not bool", None, r"predicate 0 is <Tensor 'x:0' .*int32>, expected a bool tensor"),
        ("no function", None, "function 0 is 3, expected a function"),
        ("good", 3, "default is 3, expected a function"),
    ],
)
def test_wrong_arguments_are_refused(x: Tensor, pairs: Any, default: Any, message: str) -> None:
    made = {
        "not bool": [(x, lambda: 1)],
        "no function": [(x > 2, 3)],
        "good": [(x > 2, lambda: 1)],
    }
    with pytest.raises(InvalidArgumentError, match=message):
        case(made[pairs] if isinstance(pairs, str) else pairs, default)
