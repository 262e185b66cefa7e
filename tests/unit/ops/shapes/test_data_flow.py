"""Shapes of queues, accumulators and stacks are known as far as TensorFlow knows them."""

from __future__ import annotations

import pytest

import graphmill
from graphmill import errors
from graphmill.ops import data_flow

HANDLES = {
    "ConditionalAccumulator": (2,),
    "SparseConditionalAccumulator": (2,),
    "ResourceConditionalAccumulator": (2,),
}


@pytest.fixture
def graph():
    with graphmill.Graph().as_default() as graph:
        yield graph


@pytest.mark.parametrize("op", HANDLES)
def test_handle_of_an_accumulator_has_its_shape(graph, op):
    node = graph.create_op(op, attrs={"dtype": "float32", "shape": [3]})
    assert graph.outputs_of(node)[0].shape == HANDLES[op]


def test_number_of_gradients_is_a_scalar(graph):
    handle = data_flow.conditional_accumulator(dtype="float32", shape=[3])
    assert data_flow.accumulator_num_accumulated(handle).shape == ()
    assert data_flow.accumulator_take_gradient(handle, 1, dtype="float32").shape.dims is None


def test_parts_keep_the_shape_of_their_elements(graph):
    data = graph.placeholder("float32", [5, 4, 3])
    for part in data_flow.dynamic_partition(data, [0, 1, 0, 1, 1], num_partitions=2):
        assert part.shape == (None, 4, 3)


def test_only_part_keeps_the_shape_of_its_elements(graph):
    data = graph.placeholder("float32", [5, 4, 3])
    (part,) = data_flow.dynamic_partition(data, [0, 0, 0, 0, 0], num_partitions=1)
    assert part.shape == (None, 4, 3)


def test_parts_of_another_shape_are_refused(graph):
    data = graph.placeholder("float32", [5, 4])
    partitions = graph.placeholder("int32", [5, 4, 3])
    with pytest.raises(errors.InvalidArgumentError):
        data_flow.dynamic_partition(data, partitions, num_partitions=2)


def test_stitched_elements_keep_their_shape(graph):
    parts = [graph.placeholder("float32", [2, 3]), graph.placeholder("float32", [1, None])]
    assert data_flow.dynamic_stitch([[0, 2], [1]], parts).shape == (None, 3)


def test_pushed_element_has_the_shape_of_the_element(graph):
    stack = data_flow.stack_v2(-1, elem_type="float32")
    element = graph.placeholder("float32", [7])
    assert data_flow.stack_push_v2(stack, element).shape == (7,)
