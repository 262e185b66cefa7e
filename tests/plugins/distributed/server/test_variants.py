"""Variants travel between tasks, and between a task and a client."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphmill
from graphmill import errors, ops

pytest.importorskip("grpc")
from tests.plugins.distributed.server.test_cluster import free_addresses

NEAR, FAR = "/job:worker/task:0", "/job:worker/task:1"


@pytest.fixture(scope="module")
def target() -> Any:
    cluster = {"worker": free_addresses(2)}
    first, second = (graphmill.Server(cluster, "worker", index) for index in (0, 1))
    yield first.target
    first.stop()
    second.stop()


def a_list(graph: graphmill.Graph) -> Any:
    handle = ops.tensor_list.tensor_list_reserve(
        graph.constant([2]), graph.constant(3), element_dtype="float32"
    )
    return ops.tensor_list.tensor_list_set_item(
        handle, graph.constant(1), graph.placeholder("float32", [2], name="x")
    )


def item(graph: graphmill.Graph, handle: Any, index: int, name: str) -> Any:
    return ops.tensor_list.tensor_list_get_item(
        handle, graph.constant(index), graph.constant([2]), element_dtype="float32", name=name
    )


def test_a_list_survives_the_way_to_another_task_and_back(target: str) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        with graph.device(FAR):
            handle = a_list(graph)
        with graph.device(NEAR):
            pushed = ops.tensor_list.tensor_list_push_back(handle, graph.constant([5.0, 6.0]))
        with graph.device(FAR):
            outputs = [item(graph, pushed, index, f"item{index}") for index in (0, 1, 3)]
    with graphmill.Session(target, graph=graph) as session:
        found = session.run(outputs, {"x:0": [1.0, 2.0]})
    assert [one.tolist() for one in found] == [[0, 0], [1, 2], [5, 6]]


def test_a_client_fetches_and_feeds_a_list(target: str) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        with graph.device(FAR):
            handle = a_list(graph)
        out = item(graph, handle, 1, "out")
    with graphmill.Session(target, graph=graph) as session:
        fetched = session.run(handle, {"x:0": [1.0, 2.0]})
        assert fetched.length == 3
        assert session.run(out, {handle: fetched}).tolist() == [1, 2]
        call = session.make_callable(out, [handle])
        assert call(fetched).tolist() == [1, 2]


def test_a_functional_loop_over_a_list_crosses_tasks(target: str) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        n = graph.placeholder("int32", [], name="n")
        with graph.device(FAR):
            handle = ops.tensor_list.empty_tensor_list(
                graph.constant(np.int32([])), graph.constant(-1), element_dtype="int32"
            )

        def body(i: Any, a: Any) -> Any:
            with graph.device(FAR):
                longer = ops.tensor_list.tensor_list_push_back(a, i * 2)
            return i + 1, longer

        with graph.device(NEAR):
            _, result = graphmill.while_loop(lambda i, a: i < n, body, [0, handle])
            stacked = ops.tensor_list.tensor_list_stack(
                result, graph.constant(np.int32([])), element_dtype="int32"
            )
    with graphmill.Session(target, graph=graph) as session:
        assert session.run(stacked, {"n:0": 4}).tolist() == [0, 2, 4, 6]


def test_a_variant_without_a_codec_names_node_and_type(target: str) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        with graph.device(FAR):
            made = ops.dataset.range_dataset(
                *(graph.constant(np.int64(value)) for value in (0, 3, 1)),
                output_types=["int64"],
                output_shapes=[[]],
                name="made",
            )
        with graph.device(NEAR):
            out = ops.dataset.dataset_cardinality(made, name="out")
    with graphmill.Session(target, graph=graph) as session:
        with pytest.raises(
            errors.UnimplementedError, match=r"a Range .*register_variants"
        ) as caught:
            session.run(out)
        assert caught.value.node == "made/_recv_G2"
        with pytest.raises(errors.UnimplementedError, match=r"a Range .*made:0\)"):
            session.run(made)
