"""An assertion is an Assert node, in a branch if its data are expensive (clause G4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from graphmill.errors import InvalidArgumentError
from graphmill.graph.assertion import Assert
from graphmill.graph.builder import Graph, Tensor

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


def test_strings_and_integers_are_at_hand(graph: Graph, x: Tensor) -> None:
    node = Assert(x > 3, [x, "too small"])
    assert (node.name, node.op, node.attrs["summarize"]) == ("Assert/Assert", "Assert", 3)


def test_assertion_data_is_evaluated_on_failure(graph: Graph, x: Tensor) -> None:
    node = Assert(x > 3, [x, 1.5], summarize=7, name="check")
    assert (node.name, node.op) == ("check/AssertGuard/Merge", "Merge")
    check = graph.node("check/AssertGuard/Assert")
    assert check.attrs["summarize"] == 7
    assert [edge.src.op for edge in check.in_edges] == ["Switch", "Switch", "Const"]


def test_check_in_scope_precedes_later_nodes(graph: Graph, x: Tensor) -> None:
    with graph.control_dependencies([Assert(x > 3, [x])]):
        y = -x
    assert [edge.src.name for edge in y.op.control_in_edges] == ["Assert/Assert"]


def test_the_condition_is_bool(x: Tensor) -> None:
    for data in ([x], [1.5]):
        with pytest.raises(InvalidArgumentError, match="bool"):
            Assert(x, data)


def test_data_are_tensors(x: Tensor) -> None:
    with pytest.raises(InvalidArgumentError, match="is not a tensor"):
        Assert(x > 3, [None])
