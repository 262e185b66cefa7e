"""Sessions on one server share only the resources with a `shared_name`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import graphmill
from graphmill import errors, ops

if TYPE_CHECKING:
    from collections.abc import Callable

pytest.importorskip("grpc")


def queue(**attrs: Any) -> tuple[Any, Any]:
    handle = ops.data_flow.fifo_queue_v2(component_types=["int32"], shapes=[[]], **attrs)
    put = ops.data_flow.queue_enqueue_v2(handle, [np.int32(7)])
    return put, ops.data_flow.queue_size_v2(handle)


def queue_of_version_1(**attrs: Any) -> tuple[Any, Any]:
    handle = ops.data_flow.fifo_queue(component_types=["int32"], shapes=[[]], **attrs)
    put = ops.data_flow.queue_enqueue(handle, [np.int32(7)])
    return put, ops.data_flow.queue_size(handle)


def barrier(**attrs: Any) -> tuple[Any, Any]:
    handle = ops.data_flow.barrier(component_types=["int32"], shapes=[[]], **attrs)
    put = ops.data_flow.barrier_insert_many(handle, [b"a"], np.int32([5]), component_index=0)
    return put, ops.data_flow.barrier_ready_size(handle)


def accumulator(**attrs: Any) -> tuple[Any, Any]:
    handle = ops.data_flow.conditional_accumulator(dtype="float32", shape=[], **attrs)
    put = ops.data_flow.accumulator_apply_gradient(handle, np.int64(0), np.float32(1))
    return put, ops.data_flow.accumulator_num_accumulated(handle)


def table(**attrs: Any) -> tuple[Any, Any]:
    handle = ops.lookup.hash_table_v2(key_dtype="string", value_dtype="int64", **attrs)
    put = ops.lookup.lookup_table_import_v2(handle, [b"a"], np.int64([1]))
    return put, ops.lookup.lookup_table_size_v2(handle)


def sizes_in_two_sessions(target: str, make: Callable[..., Any], **attrs: Any) -> list[int]:
    """Enqueue in one session; return the queue sizes in this session and another."""
    graph = graphmill.Graph()
    with graph.as_default():
        put, size = make(name="made", **attrs)
    with (
        graphmill.Session(target, graph) as one,
        graphmill.Session(target, graph) as other,
    ):
        one.run(put)
        return [int(session.run(size)) for session in (one, other)]


MAKERS = [queue, queue_of_version_1, barrier, accumulator, table]


@pytest.mark.parametrize("make", MAKERS)
def test_resources_without_shared_name_belong_to_one_session(server: Any, make: Any) -> None:
    assert sizes_in_two_sessions(server.target, make) == [1, 0]


@pytest.mark.parametrize("make", MAKERS)
def test_resources_with_shared_name_belong_to_all_sessions(server: Any, make: Any) -> None:
    assert sizes_in_two_sessions(server.target, make, shared_name="shared") == [1, 1]


def test_tables_may_be_shared_by_node_name(server: Any) -> None:
    assert sizes_in_two_sessions(server.target, table, use_node_name_sharing=True) == [1, 1]


def test_iterator_of_another_session_has_not_been_started(server: Any) -> None:
    graph = graphmill.Graph()
    what = {"output_types": ["int64"], "output_shapes": [[]]}
    with graph.as_default():
        numbers = ops.dataset.range_dataset(np.int64(0), np.int64(5), np.int64(1), **what)
        iterator = ops.dataset.iterator_v2(shared_name=b"", container=b"", name="it", **what)
        start = ops.dataset.make_iterator(numbers, iterator)
        (taken,) = ops.dataset.iterator_get_next(iterator, **what)
    with (
        graphmill.Session(server.target, graph) as one,
        graphmill.Session(server.target, graph) as other,
    ):
        one.run(start)
        assert one.run(taken) == 0
        with pytest.raises(errors.FailedPreconditionError):
            other.run(taken)


def test_resources_of_a_session_are_deleted_with_it(server: Any) -> None:
    (device,) = server._impl._devices
    before = device.resource_mgr.containers()
    assert sizes_in_two_sessions(server.target, queue) == [1, 0]
    assert device.resource_mgr.containers() == before
