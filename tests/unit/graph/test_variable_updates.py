"""Updates of rows and elements of a variable."""

from __future__ import annotations

import pytest

import graphmill
from graphmill.errors import OutOfRangeError

pytestmark = pytest.mark.parametrize("use_resource", [True, False])


@pytest.mark.parametrize(
    ("method", "row"),
    [
        ("scatter_add", 6.0),
        ("scatter_sub", -2.0),
        ("scatter_mul", 8.0),
        ("scatter_div", 0.5),
        ("scatter_max", 4.0),
        ("scatter_min", 2.0),
        ("scatter_update", 4.0),
    ],
)
def test_scatter_returns_the_new_value(method: str, row: float, use_resource: bool) -> None:
    with graphmill.Graph().as_default() as graph, graphmill.Session() as session:
        variable = graphmill.Variable([1.0, 2.0, 3.0], use_resource=use_resource)
        rows = graphmill.IndexedSlices(graph.constant([4.0]), graph.constant([1]))
        changed = getattr(variable, method)(rows)
        session.run(graphmill.global_variables_initializer())
        assert session.run(changed).tolist() == [1.0, row, 3.0]


def test_scatter_takes_indexed_slices_only(use_resource: bool) -> None:
    with graphmill.Graph().as_default():
        variable = graphmill.Variable([1.0], use_resource=use_resource)
        with pytest.raises(TypeError, match="sparse_delta must be IndexedSlices, got list"):
            variable.scatter_add([1.0])


def test_slices_are_changed_and_read_by_index_vectors(use_resource: bool) -> None:
    with graphmill.Graph().as_default(), graphmill.Session() as session:
        variable = graphmill.Variable([1.0, 2.0, 3.0], use_resource=use_resource)
        session.run(graphmill.global_variables_initializer())
        assert session.run(variable.scatter_nd_add([[0]], [1.0])).tolist() == [2.0, 2.0, 3.0]
        assert session.run(variable.scatter_nd_sub([[2]], [1.0])).tolist() == [2.0, 2.0, 2.0]
        assert session.run(variable.scatter_nd_update([[1]], [7.0])).tolist() == [2.0, 7.0, 2.0]
        assert session.run(variable.gather_nd([[1]])).tolist() == [7.0]
        assert session.run(variable.sparse_read([1, 0])).tolist() == [7.0, 2.0]


def test_count_up_to_fails_at_its_limit(use_resource: bool) -> None:
    with graphmill.Graph().as_default(), graphmill.Session() as session:
        variable = graphmill.Variable(0, use_resource=use_resource)
        session.run(graphmill.global_variables_initializer())
        count = variable.count_up_to(2)
        assert [int(session.run(count)), int(session.run(count))] == [0, 1]
        with pytest.raises(OutOfRangeError):
            session.run(count)
