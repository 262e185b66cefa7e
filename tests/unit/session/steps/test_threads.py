"""A session shared by threads, also while it is extended (clauses S3, S5, S6)."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

import graphmill
from graphmill import ops
from graphmill.graph.builder import Graph
from graphmill.testing.proto_builders import graph_def, node_def

X = node_def("x", "Placeholder", dtype="float32", shape=None)
Y = node_def("y", "Neg", "x", T="float32")


def identity(name: str, src: str) -> Any:
    return node_def(name, "Identity", src, T="float32")


class Counting:
    """A plugin with a pass that counts its runs and can block."""

    def __init__(self, parties: int = 0) -> None:
        self.count = 0
        self.barrier = threading.Barrier(parties) if parties else None

    @graphmill.hookimpl
    def graphmill_register_passes(self, passes: Any) -> None:
        passes.add("counting", self.count_graph, phase="PRE_PLACEMENT")

    def count_graph(self, graph: Any, options: Any) -> None:
        self.count += 1


def test_s5_one_set_of_executors_serves_all_orders_and_calls() -> None:
    counting = Counting()
    host = graphmill.Host(plugins=[counting])
    message, config = graph_def(X, Y, identity("z", "x")), {"graphmill": {"jit": "off"}}
    with graphmill.Session(graph=message, host=host, config=config) as session:
        assert session.run(["y:0", "z:0"], {"x:0": 1.0}) == [-1, 1]
        assert session.run(["z:0", "y:0"], {"x:0": 1.0}) == [1, -1]
        assert session.run({"a": "z:0", "b": ["y:0", "z:0"]}, {"x:0": 1.0}) == {
            "a": 1,
            "b": [-1, 1],
        }
        assert session.make_callable(("y:0", "z:0"), ["x:0"])(1.0) == (-1, 1)
        assert counting.count == 1
        session.run("y:0", {"x:0": 1.0})
        assert counting.count == 2


def test_s5_feeds_in_another_order_reach_their_tensors() -> None:
    b = node_def("b", "Placeholder", dtype="float32")
    less = node_def("d", "Sub", "x", "b", T="float32")
    with graphmill.Session(graph=graph_def(X, b, less)) as session:
        assert session.run("d:0", {"x:0": 5.0, "b:0": 2.0}) == 3
        assert session.run("d:0", {"b:0": 2.0, "x:0": 5.0}) == 3
        assert session.make_callable("d:0", ["x:0", "b:0"])(5.0, 2.0) == 3
        assert session.make_callable("d:0", ["b:0", "x:0"])(5.0, 2.0) == -3


def test_s5_concurrent_first_steps_are_correct(in_thread: Any) -> None:
    nodes = [
        X,
        *(node_def(f"n{i}", "Neg", f"n{i - 1}" if i else "x", T="float32") for i in range(50)),
    ]
    for _ in range(10):
        barrier = threading.Barrier(8)
        with graphmill.Session(graph=graph_def(*nodes)) as session:

            def first_step(value: float, session: Any = session, barrier: Any = barrier) -> Any:
                barrier.wait()
                return session.run(["n49:0", "n48:0"], {"x:0": value})

            results = [in_thread(first_step, float(i)) for i in range(8)]
            assert [result() for result in results] == [[i, -i] for i in range(8)]
            assert len(session._impl._cache) == 1


def test_s6_many_threads_run_one_session(in_thread: Any) -> None:
    graph = Graph()
    with graph.as_default():
        x = graph.placeholder("float32", None, name="x")
        ops.math.mul(ops.math.add_v2(x, 1.0), ops.math.sub(x, 1.0), name="y")
        v = ops.state.variable_v2(shape=[], dtype="float32", name="v")
        ops.state.assign(v, 0.0, name="init")
        ops.state.assign_add(v, 1.0, use_locking=True, name="more")
        ops.array.identity(v, name="read")
    with graphmill.Session(graph=graph) as session:
        session.run("init:0")
        call = session.make_callable("y:0", ["x:0"])

        def work(start: int) -> bool:
            for i in range(start, start + 100):
                value = np.full(3, i, np.float32)
                assert list(session.run("y:0", {"x:0": value})) == [i * i - 1] * 3
                assert call(float(i)) == i * i - 1
                session.run("more:0")
            return True

        assert all(result() for result in [in_thread(work, 100 * i) for i in range(6)])
        assert session.run("read:0") == 600


def test_s3_a_session_may_be_extended_while_it_runs(in_thread: Any) -> None:
    with graphmill.Session(graph=graph_def(X, Y)) as session:

        def extend() -> bool:
            for i in range(50):
                session.extend(graph_def(identity(f"z{i}", "x")))
            return True

        def run() -> bool:
            for i in range(200):
                assert session.run("y:0", {"x:0": float(i)}) == -i
            return True

        assert all(result() for result in [in_thread(extend), in_thread(run), in_thread(run)])
        assert session.run([f"z{i}:0" for i in range(50)], {"x:0": 3.0}) == [3] * 50
