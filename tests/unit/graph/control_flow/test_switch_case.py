"""A choice by index is a binary tree of conditionals (clause G4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from graphmill.errors import InvalidArgumentError
from graphmill.graph.builder import Graph, Tensor
from graphmill.graph.control_flow.switch_case import switch_case

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


def test_eight_branches_are_three_deep(graph: Graph, x: Tensor) -> None:
    switch_case(x, [lambda k=k: x + k for k in range(8)])  # type: ignore[misc]
    merges = [node.name for node in graph if node.op == "Merge"]
    assert len(merges) == 7
    assert max(name.count("cond") for name in merges) == 3


@pytest.mark.parametrize(
    "branches",
    [
        [lambda: 10, lambda: 11],
        {1: lambda: 11, 0: lambda: 10},
        [(1, lambda: 11), (0, lambda: 10)],
    ],
)
def test_branches_may_have_any_form(graph: Graph, x: Tensor, branches: Any) -> None:
    y = switch_case(x, branches)
    values = [edge.src.attrs["value"].numpy() for edge in y.op.in_edges]
    assert values == [11, 10]  # Merge takes the false branch first
    assert graph.node("switch_case/cond/Switch").in_edges[0].src.op == "Less"


def test_the_default_is_one_more_branch(graph: Graph, x: Tensor) -> None:
    y = switch_case(x, [lambda: 10], default=lambda: -1)
    assert [edge.src.attrs["value"].numpy() for edge in y.op.in_edges] == [-1, 10]


def test_single_branch_is_not_a_choice(graph: Graph, x: Tensor) -> None:
    assert switch_case(x, [lambda: x + 1], name="only").op.name == "only/add"


@pytest.mark.parametrize(
    ("branches", "message"),
    [
        ([], "switch_case got no functions"),
        ([(0, lambda: 1), (2, lambda: 2)], r"indices of branches are \[0, 2\], expected 0 to 1"),
        ([(0, lambda: 1), (0, lambda: 2)], r"indices of branches are \[0, 0\]"),
        ({"a": lambda: 1}, "expected a function, or a tuple of an index and a function"),
        ([lambda: 1, 2], "expected a function, or a tuple"),
        ({0: 1}, "branch 0 is 1, expected a function"),
    ],
)
def test_wrong_branches_are_refused(x: Tensor, branches: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        switch_case(x, branches)


def test_wrong_default_is_refused(x: Tensor) -> None:
    with pytest.raises(InvalidArgumentError, match="default is 3"):
        switch_case(x, [lambda: 1], 3)  # type: ignore[arg-type]


def test_the_number_is_an_integer_tensor(graph: Graph) -> None:
    y = graph.placeholder("float32", (), "y")
    for wrong in (3, y):
        with pytest.raises(InvalidArgumentError, match=r"branch_index is .+ integer tensor"):
            switch_case(wrong, [lambda: 1])  # type: ignore[arg-type]
