"""A server's memory does not grow with past requests."""

from __future__ import annotations

import gc
import sys
import tracemalloc
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import graphmill
from graphmill import ops

pytest.importorskip("grpc")

from tests.plugins.distributed.served_master import ARITHMETIC

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.divided

MEGABYTE = 1 << 20
NUM_STEPS = 10_000
NUM_SESSIONS = 500
NUM_CALLABLES = 200
INTERPRETED = {"graphmill": {"jit": "off"}}  # else JAX is imported by and by


def identity() -> Any:
    graph = graphmill.Graph()
    with graph.as_default():
        ops.array.identity(graph.placeholder("float32", [None], name="x"), name="y")
    return graph


def allocated_blocks() -> int:
    gc.collect()
    return sys.getallocatedblocks()


def growth(act: Callable[[], object]) -> int:
    """Return the growth of Python's memory by an action, in bytes."""
    gc.collect()
    tracemalloc.start()
    try:
        act()
        gc.collect()
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


def test_steps_free_everything(server: Any) -> None:
    value = np.ones(2, np.float32)
    with graphmill.Session(server.target, graph=identity(), config=INTERPRETED) as session:
        found = []
        for _ in range(2):  # the first half fills the memory of requests
            for _ in range(NUM_STEPS // 2):
                session.run("y:0", {"x:0": value})
            found.append(allocated_blocks())
    assert found[1] - found[0] < NUM_STEPS // 10


def test_released_callables_free_everything(server: Any) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [], name="x")
        large = np.ones(MEGABYTE // 4, np.float32)
        ops.math.sum(ops.math.mul(large, x), [0], name="y")

    def make_and_release(count: int) -> None:
        for _ in range(count):
            call = session.make_callable("y:0", ["x:0"])
            assert call(np.float32(2)) == MEGABYTE // 2
            del call

    with graphmill.Session(server.target, graph=graph, config=INTERPRETED) as session:
        make_and_release(3)
        assert growth(lambda: make_and_release(NUM_CALLABLES)) < 4 * MEGABYTE


def test_unclosed_sessions_are_small(client: Any) -> None:
    def abandon(count: int) -> None:
        for _ in range(count):
            handle = client.create(ARITHMETIC)
            assert client.run(handle, ["y:0"], {"x:0": np.float32([2, 3])}) == [[4, 9]]

    abandon(3)
    assert growth(lambda: abandon(NUM_SESSIONS)) < NUM_SESSIONS * MEGABYTE // 16
