"""Loops that cannot be compiled become generated code, which may wait for queues."""

from __future__ import annotations

import logging
import threading
from typing import Any

import numpy as np
import pytest

import graphmill
from graphmill import errors, ops
from graphmill.explain.compilation import compilation_of

EAGER = {"graphmill": {"jit": "eager"}}
OFF = {"graphmill": {"jit": "off"}}


def queue_ops() -> Any:
    queue = ops.data_flow.fifo_queue_v2(component_types=["float32"], shared_name="q", name="q")
    value = graphmill.ops.array.placeholder(dtype="float32", shape=[], name="value")
    ops.data_flow.queue_enqueue_v2(queue, [value], name="put")
    ops.data_flow.queue_close_v2(queue, name="close")
    return queue


def total_of(queue: Any, iterations: int, *, dequeues: int = 1) -> Any:
    """Return the sum of the elements that a loop dequeues."""

    def body(i: Any, total: Any) -> Any:
        for _ in range(dequeues):
            total = total + ops.data_flow.queue_dequeue_v2(queue, component_types=["float32"])[0]
        return i + 1, total

    start = [np.int32(0), np.float32(0)]
    return graphmill.while_loop(lambda i, _: ops.math.less(i, np.int32(iterations)), body, start)[1]


def code_of(session: graphmill.Session) -> list[str]:
    """Return the source of the generated loops."""
    return [
        cluster.source
        for executors in session._impl._cache._sorted.values()
        for item in executors.hot_items or ()
        for cluster in compilation_of(item.graph).clusters
        if any(node.op == "_StraightLine" for node in item.graph.nodes)
    ]


def made(config: Any, **options: Any) -> tuple[graphmill.Session, Any]:
    with graphmill.Graph().as_default() as graph:
        total = total_of(queue_ops(), 5, **options)
    return graphmill.Session(graph=graph, config=config), total


@pytest.mark.parametrize("config", [EAGER, OFF], ids=["straight-line", "interpreted"])
def test_available_element_is_taken_immediately(config: Any) -> None:
    session, total = made(config)
    with session:
        for value in range(5):
            session.run([], {"value:0": value}, targets=["put"])
        assert session.run(total) == 10
        assert bool(code_of(session)) == (config is EAGER)


@pytest.mark.parametrize("dequeues", [1, 2])
def test_a_loop_that_is_not_compiled_is_logged_with_the_reason(
    dequeues: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "graphmill.jit")
    session, total = made(EAGER, dequeues=dequeues)
    with session:
        for value in range(5 * dequeues):
            session.run([], {"value:0": value}, targets=["put"])
        session.run(total)
    first = next(text for text in caplog.messages if text.startswith("not compiled "))
    assert ("cluster=" in first, "region=" in first) == (dequeues == 1, dequeues == 2)
    assert "reason=" in first


def test_a_loop_waits_for_elements() -> None:
    session, total = made(EAGER)
    with session:
        results: list[Any] = []
        thread = threading.Thread(target=lambda: results.append(session.run(total)))
        thread.start()
        for value in range(5):
            session.run([], {"value:0": value}, targets=["put"])
        thread.join(30)
        assert results == [10]


def test_a_loop_that_waits_ends_with_its_session() -> None:
    session, total = made(EAGER)
    caught: list[errors.OpError] = []

    def run() -> None:
        try:
            session.run(total)
        except errors.OpError as error:
            caught.append(error)

    session.run([], {"value:0": 1.0}, targets=["put"])
    thread = threading.Thread(target=run)
    thread.start()
    session.close()
    thread.join(30)
    assert isinstance(caught[0], errors.CancelledError)


def test_an_error_in_a_loop_names_its_node() -> None:
    session, total = made(EAGER)
    with session:
        session.run([], targets=["close"])
        with pytest.raises(errors.OutOfRangeError, match="QueueDequeueV2"):
            session.run(total)


def test_loop_with_two_waiting_nodes_is_not_rewritten() -> None:
    session, total = made(EAGER, dequeues=2)
    with session:
        for value in range(10):
            session.run([], {"value:0": value}, targets=["put"])
        assert session.run(total) == 45
        assert not code_of(session)


def test_a_loop_over_strings_becomes_code() -> None:
    with graphmill.Graph().as_default() as graph:
        start = ops.array.placeholder(dtype="string", shape=[], name="start")

        def body(i: Any, text: Any) -> Any:
            return i + 1, ops.string.string_join([text, text], separator="-")

        text = graphmill.while_loop(
            lambda i, _: ops.math.less(i, np.int32(2)), body, [np.int32(0), start]
        )[1]
    with graphmill.Session(graph=graph, config=EAGER) as session:
        assert session.run(text, {"start:0": b"a"}) == b"a-a-a-a"
        assert code_of(session)
