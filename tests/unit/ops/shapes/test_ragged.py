"""Shapes of dense and sparse forms of ragged tensors."""

from __future__ import annotations

import pytest

import graphmill
from graphmill import errors
from graphmill.ops import ragged


@pytest.fixture
def graph():
    with graphmill.Graph().as_default() as graph:
        yield graph


def dense(graph, shape, values, default=(), types=("ROW_SPLITS",)):
    return ragged.ragged_tensor_to_tensor(
        shape,
        graph.placeholder("float32", values),
        graph.placeholder("float32", default),
        [graph.placeholder("int64", [None]) for _ in types],
        row_partition_types=list(types),
    )


@pytest.mark.parametrize(
    ("shape", "values", "expected"),
    [
        ([-1, -1], [None], (None, None)),
        ([4, -1], [9], (4, None)),
        (-1, [9, 5], (None, None, 5)),
        ([2, -1, -1], [9, 5], (2, None, 5)),
        ([2, 3], None, (2, 3)),
    ],
)
def test_dense_shape_is_the_requested_one_and_that_of_the_values(graph, shape, values, expected):
    assert dense(graph, shape, values).shape == expected


def test_first_size_is_no_ragged_dimension(graph):
    types = ("FIRST_DIM_SIZE", "VALUE_ROWIDS")
    tensor = ragged.ragged_tensor_to_tensor(
        -1,
        graph.placeholder("float32", [9]),
        0.0,
        [graph.placeholder("int64", []), graph.placeholder("int64", [None])],
        row_partition_types=list(types),
    )
    assert tensor.shape == (None, None)


@pytest.mark.parametrize(
    ("shape", "values", "default"),
    [([-1, -1, -1], [9], ()), ([-1, -1, 4], [9, 5], ()), ([-1, -1], [9], (1,)), (-1, [9, 5], (4,))],
)
def test_shapes_that_do_not_fit_are_refused(graph, shape, values, default):
    with pytest.raises(errors.InvalidArgumentError):
        dense(graph, shape, values, default)


def test_sparse_form_has_an_index_for_each_value(graph):
    values = graph.placeholder("float32", [3, 2])
    splits = [graph.placeholder("int64", [None])]
    indices, elements, shape = ragged.ragged_tensor_to_sparse(splits, values)
    assert (indices.shape, elements.shape, shape.shape) == ((6, 3), (6,), (3,))


def test_ranges_have_a_split_more_than_rows(graph):
    splits, values = ragged.ragged_range(graph.placeholder("int32", [4]), 9, 1)
    assert (splits.shape, values.shape) == ((5,), (None,))


def test_filled_rows_have_an_index_for_each_value(graph):
    rows = graph.placeholder("int64", [4])
    values = graph.placeholder("float32", [4])
    *outputs, reverse = ragged.ragged_fill_empty_rows(rows, values, 3, 0.0)
    assert [output.shape for output in outputs] == [(None,)] * 3
    assert reverse.shape == (4,)


@pytest.mark.parametrize(
    ("shapes", "splits"),
    [
        (([], [], []), 2),
        (([], [4], []), 5),
        (([4], None, []), 5),
        ((None, [], []), None),
        ((None, None, None), None),
    ],
)
def test_ranges_have_a_row_for_each_start(graph, shapes, splits):
    made = ragged.ragged_range(*(graph.placeholder("int32", shape) for shape in shapes))
    assert made.rt_nested_splits.shape == (splits,)


@pytest.mark.parametrize(
    ("splits", "inputs", "expected"),
    [([4], [None, 2], 4), ([None], [3, 2], 4), ([None], None, None)],
)
def test_a_cross_has_the_rows_of_its_inputs(graph, splits, inputs, expected):
    made = ragged.ragged_cross(
        [graph.placeholder("int64", [None])],
        [graph.placeholder("int64", splits)],
        [],
        [],
        [],
        [graph.placeholder("int64", inputs)],
        input_order="RD",
        hashed_output=True,
        num_buckets=9,
        hash_key=1,
        out_values_type="int64",
        out_row_splits_type="int64",
    )
    assert [tensor.shape for tensor in made] == [(None,), (expected,)]


def test_inputs_of_a_cross_have_equally_many_rows(graph):
    arguments = {"num_buckets": 9, "hash_key": 1, "out_row_splits_type": "int64"}
    with pytest.raises(errors.InvalidArgumentError, match="Dimensions must be equal"):
        ragged.ragged_cross(
            [graph.placeholder("int64", [None])],
            [graph.placeholder("int64", [4])],
            [],
            [],
            [],
            [graph.placeholder("int64", [7, 2])],
            input_order="RD",
            hashed_output=True,
            out_values_type="int64",
            **arguments,
        )


@pytest.mark.parametrize(("sizes", "expected"), [([5, 2], (5, 2)), (None, (None, None))])
def test_gradient_of_variants_has_the_given_shape(graph, sizes, expected):
    given = graph.placeholder("int32", [2]) if sizes is None else graph.constant(sizes)
    made = ragged.ragged_tensor_to_variant_gradient(
        graph.placeholder("variant", [3]), graph.placeholder("int64", [4]), given, Tvalues="float32"
    )
    assert made.shape == expected
