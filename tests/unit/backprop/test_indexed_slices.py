"""`IndexedSlices` has the properties of TensorFlow's."""

from __future__ import annotations

import pytest

import graphmill


def test_slices_have_name_node_and_device_of_their_rows() -> None:
    with graphmill.Graph().as_default() as graph, graph.device("/cpu:0"):
        rows = graph.placeholder("float32", [None, 3], name="rows")
        slices = graphmill.IndexedSlices(rows, graph.constant([1]), graph.constant([5, 3]))
    assert (slices.name, slices.op, slices.device) == ("rows:0", rows.op, rows.device)
    assert slices.shape == (5, 3)


def test_slices_without_a_dense_shape_have_no_dense_tensor() -> None:
    with graphmill.Graph().as_default() as graph:
        rows = graph.placeholder("float32", [2, 3], name="rows")
        slices = graphmill.IndexedSlices(rows, graph.constant([1, 0]))
    assert slices.dense_shape is None
    assert slices.shape == (None, 3)
    with pytest.raises(ValueError, match="create IndexedSlices with a dense_shape"):
        slices.to_tensor()


def test_shape_of_rows_of_unknown_rank_is_unknown() -> None:
    with graphmill.Graph().as_default() as graph:
        rows = graph.placeholder("float32")
        slices = graphmill.IndexedSlices(rows, graph.placeholder("int32", [None]))
    assert slices.shape.rank is None
