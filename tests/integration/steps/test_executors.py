"""Selecting executors (clauses E1, E5, E13, S2) by `executor_type`, with and without threads."""

from __future__ import annotations

import threading
import tracemalloc

import numpy as np
import pytest

import graphmill
from graphmill import errors, ops
from graphmill.runtime.kernels.kernel import kernel
from graphmill.testing.timeouts import no_leaked_threads

EVERYTHING = ["", "DEFAULT", "INLINE"]


# What is hot after three steps is compiled by a thread of the host's own.
NOT_COMPILED = {"graph_options": {"optimizer_options": {"global_jit_level": -1}}}


def config(executor_type):
    return {"experimental": {"executor_type": executor_type}}


def counting_loop():
    """A v1 loop that counts to `n`, built from primitives."""
    graph = graphmill.Graph()
    with graph.as_default():
        n = graph.placeholder("int32", [], name="n")
        enter = ops.control_flow.enter(graph.constant(0), frame_name="w", name="enter")
        bound = ops.control_flow.enter(n, frame_name="w", is_constant=True)
        merged = ops.control_flow.merge([enter, enter], name="merge")
        cond = ops.control_flow.loop_cond(ops.math.less(merged.output, bound))
        switch = ops.control_flow.switch(merged.output, cond)
        step = ops.math.add_v2(switch.output_true, ops.array.ones_like(switch.output_true))
        following = ops.control_flow.next_iteration(step)
        graph.replace_input(merged.output.op, 1, following.op, 0)
        ops.control_flow.exit(switch.output_false, name="exit")
    return graph


@pytest.mark.parametrize("executor_type", EVERYTHING)
def test_e1_loops_run_in_every_executor_that_can(executor_type) -> None:
    with graphmill.Session(graph=counting_loop(), config=config(executor_type)) as session:
        assert session.run("exit:0", {"n:0": 7}) == 7
        assert session.run("exit:0", {"n:0": 0}) == 0


def test_e1_single_threaded_executor_names_unsupported_nodes() -> None:
    settings = config("SINGLE_THREADED_EXECUTOR")
    with (
        graphmill.Session(graph=counting_loop(), config=settings) as session,
        pytest.raises(errors.UnimplementedError, match="DEFAULT or INLINE"),
    ):
        session.run("exit:0", {"n:0": 7})


def test_e1_unknown_executor_type_lists_alternatives() -> None:
    with pytest.raises(errors.NotFoundError, match="SINGLE_THREADED_EXECUTOR"):
        graphmill.Session(config=config("DEFAULTT"))


@pytest.mark.parametrize("executor_type", [*EVERYTHING, "SINGLE_THREADED_EXECUTOR"])
def test_e12_every_executor_records_its_nodes(executor_type) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [2], name="x")
        ops.array.unpack(ops.math.neg(x, name="neg"), num=2, name="parts")
    full = {"trace_level": graphmill.RunOptions.FULL_TRACE}
    metadata = graphmill.RunMetadata()
    with graphmill.Session(graph=graph, config=config(executor_type)) as session:
        session.run(["parts:0", "parts:1"], {"x:0": [1, 2]}, options=full, run_metadata=metadata)
    (device,) = metadata.step_stats.dev_stats
    assert device.device.endswith("CPU:0")
    stats = {node.node_name: node for node in device.node_stats}
    assert {"neg", "parts"} <= set(stats)
    assert [len(stats[name].output) for name in ("neg", "parts")] == [1, 2]
    assert stats["neg"].output[0].tensor_description.shape.dim[0].size == 2
    assert stats["neg"].all_end_rel_nanos > 0


def test_e4_loop_memory_does_not_grow_with_trip_count() -> None:
    def peak(trips: int) -> int:
        tracemalloc.start()
        session.run("exit:0", {"n:0": trips})
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    # A compiler that is imported meanwhile would count.
    with graphmill.Session(graph=counting_loop(), config=NOT_COMPILED) as session:
        session.run("exit:0", {"n:0": 10})
        graphmill.default_host().background.wait_idle(60)  # what other tests left to compile, too
        short, long = peak(300), peak(6000)
    assert long < 1.5 * short + 10_000


class Kernels:
    """A plugin with kernels that a test can inspect."""

    def __init__(self) -> None:
        self.threads: set[int] = set()
        self.waiting: list = []
        self.has_started = threading.Event()
        outer = self

        @kernel("Downstream>Heavy", expensive=True)
        def heavy(xp, x):
            outer.threads.add(threading.get_ident())
            return xp.matmul(x, x)

        @kernel("Downstream>Wait", async_=True)
        def wait(ctx, x, *, done):
            token = ctx.cancellation.register(
                lambda: done(error=errors.CancelledError("woken by cancellation"))
            )
            if token is None:
                done(error=errors.CancelledError("too late"))
            else:
                outer.waiting.append((x, done))
                outer.has_started.set()

        self.kernels = (heavy, wait)

    @graphmill.hookimpl
    def graphmill_register_ops(self, ops):
        from graphmill import dtypes
        from graphmill.ops.definition.op_def import ArgDef, OpDef

        for name in ("Heavy", "Wait"):
            x, y = ArgDef("x", dtypes.float32), ArgDef("y", dtypes.float32)
            ops.add(OpDef(f"Downstream>{name}", (x,), (y,), is_stateful=name == "Wait"))

    @graphmill.hookimpl
    def graphmill_register_kernels(self, kernels):
        for declared in self.kernels:
            kernels.add(declared)


@pytest.fixture
def plugin():
    return Kernels()


@pytest.fixture
def host(plugin):
    return graphmill.Host(plugins=[plugin])


def heavy_graph(host, width=6):
    graph = graphmill.Graph(ops=host.ops)
    with graph.as_default():
        x = graph.placeholder("float32", [None, None], name="x")
        # Different inputs, so that equal nodes are not merged.
        inputs = [ops.math.mul(x, float(factor)) for factor in range(width)]
        nodes = [graph.create_op("Downstream>Heavy", [item]) for item in inputs]
        ops.math.add_n([tensor for node in nodes for tensor in graph.outputs_of(node)], name="sum")
    return graph


def test_e5_slow_kernels_move_to_the_pool_after_measurement(plugin, host) -> None:
    x = np.ones((400, 400), np.float32)
    with graphmill.Session(graph=heavy_graph(host), host=host) as session:
        call = session.make_callable("sum:0", ["x:0"])
        for _ in range(3):
            np.testing.assert_allclose(call(x), np.full((400, 400), 55 * 400.0))
    assert len(plugin.threads) > 1


def test_s2_a_negative_number_of_threads_means_the_callers_alone(plugin, host) -> None:
    x = np.ones((400, 400), np.float32)
    settings = {"inter_op_parallelism_threads": -1} | NOT_COMPILED
    with graphmill.Session(graph=heavy_graph(host), host=host, config=settings) as session:
        for _ in range(3):
            session.run("sum:0", {"x:0": x})
    assert plugin.threads == {threading.get_ident()}


def test_e1_inline_starts_no_thread(plugin, host) -> None:
    x = np.ones((400, 400), np.float32)
    before = set(threading.enumerate())
    settings = config("INLINE") | NOT_COMPILED
    with graphmill.Session(graph=heavy_graph(host), host=host, config=settings) as session:
        for _ in range(3):
            session.run("sum:0", {"x:0": x})
        started = {thread.name for thread in set(threading.enumerate()) - before}
        mine = {name for name in started if name.startswith("graphmill")}
        assert mine <= {"graphmill-helper"}  # a product shares its work
    assert plugin.threads == {threading.get_ident()}


def test_s2_threads_of_a_sessions_own_pool_end_with_it(plugin, host) -> None:
    settings = {"use_per_session_threads": True, "inter_op_parallelism_threads": 2} | NOT_COMPILED
    x = np.ones((400, 400), np.float32)
    graph = heavy_graph(host)
    with no_leaked_threads(), graphmill.Session(graph=graph, host=host, config=settings) as session:
        for _ in range(3):
            session.run("sum:0", {"x:0": x})


def test_s2_run_options_choose_pool_and_invalid_pool_is_reported(plugin, host) -> None:
    settings = {"session_inter_op_thread_pool": [{"num_threads": 1}, {"num_threads": 2}]}
    x = np.ones((4, 4), np.float32)
    with graphmill.Session(graph=heavy_graph(host), host=host, config=settings) as session:
        for index in (-1, 0, 1):
            options = graphmill.RunOptions(inter_op_thread_pool=index)
            session.run("sum:0", {"x:0": x}, options=options)
        options = graphmill.RunOptions(inter_op_thread_pool=2)
        with pytest.raises(errors.InvalidArgumentError, match="inter_op_thread_pool: 2"):
            session.run("sum:0", {"x:0": x}, options=options)


def waiting_graph(host):
    graph = graphmill.Graph(ops=host.ops)
    with graph.as_default():
        x = graph.placeholder("float32", [], name="x")
        (waited,) = graph.outputs_of(graph.create_op("Downstream>Wait", [x], name="wait"))
        ops.math.neg(waited, name="y")
        ops.math.floor_div(graph.placeholder("int32", [], name="n"), 0, name="fails")
    return graph


@pytest.mark.parametrize("executor_type", EVERYTHING)
def test_e6_async_kernel_blocks_no_thread_and_completes_on_any(plugin, host, executor_type) -> None:
    settings = config(executor_type)
    results = []
    with graphmill.Session(graph=waiting_graph(host), host=host, config=settings) as session:
        thread = threading.Thread(target=lambda: results.append(session.run("y:0", {"x:0": 3.0})))
        thread.start()
        assert plugin.has_started.wait(60)
        x, done = plugin.waiting[0]
        done(x)
        thread.join()
    assert results == [-3.0]


@pytest.mark.parametrize("executor_type", EVERYTHING)
def test_e8_first_error_wakes_waiters(plugin, host, executor_type) -> None:
    settings = config(executor_type)
    with graphmill.Session(graph=waiting_graph(host), host=host, config=settings) as session:
        with pytest.raises(errors.InvalidArgumentError) as caught:
            session.run(["y:0", "fails:0"], {"x:0": 3.0, "n:0": 1})
        assert caught.value.node == "fails"
        assert not caught.value.is_derived


@pytest.mark.parametrize("executor_type", [*EVERYTHING, "SINGLE_THREADED_EXECUTOR"])
def test_e13_a_timeout_ends_a_step_that_waits(plugin, host, executor_type) -> None:
    options = graphmill.RunOptions(timeout_in_ms=30)
    settings = config(executor_type)
    with graphmill.Session(graph=waiting_graph(host), host=host, config=settings) as session:
        with pytest.raises(errors.DeadlineExceededError, match="30 ms"):
            session.run("y:0", {"x:0": 3.0}, options=options)
        with pytest.raises(errors.InvalidArgumentError):
            session.run("fails:0", {"n:0": 1})  # the session goes on working


def test_s11_closing_the_session_wakes_a_step_that_waits(plugin, host) -> None:
    session = graphmill.Session(graph=waiting_graph(host), host=host)
    caught = []

    def run() -> None:
        try:
            session.run("y:0", {"x:0": 3.0})
        except errors.CancelledError as error:
            caught.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    assert plugin.has_started.wait(60)
    session.close()
    thread.join()
    assert len(caught) == 1


def test_e6_done_is_called_once(plugin, host) -> None:
    results = []
    with graphmill.Session(graph=waiting_graph(host), host=host) as session:
        thread = threading.Thread(target=lambda: results.append(session.run("y:0", {"x:0": 3.0})))
        thread.start()
        assert plugin.has_started.wait(60)
        x, done = plugin.waiting[0]
        done(x)
        with pytest.raises(errors.InternalError, match="called done twice"):
            done(x)
        thread.join()
    assert results == [-3.0]


def picky_host(**declared):
    from graphmill_plugins.default_executor.executor import DefaultExecutorFactory

    factory = type("Picky", (DefaultExecutorFactory,), declared)

    class Plugin:
        @graphmill.hookimpl
        def graphmill_register_executors(self, executors):
            executors.add("PICKY", factory)

    return graphmill.Host(plugins=[Plugin()])


def test_e1_an_executor_may_forbid_passes() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        ops.math.add_v2(graph.constant(1), graph.constant(2), name="sum")

    def lowered(host):
        metadata, options = graphmill.RunMetadata(), {"output_partition_graphs": True}
        with graphmill.Session(graph=graph, config=config("PICKY"), host=host) as session:
            session.run("sum:0", options=options, run_metadata=metadata)
        return {node.op for node in metadata.partition_graphs[0].node}

    assert "AddV2" not in lowered(picky_host())
    assert "AddV2" in lowered(picky_host(forbids_passes=("constant_folding",)))


def test_e1_an_executor_may_need_passes(monkeypatch) -> None:
    with pytest.raises(errors.FailedPreconditionError, match=r"'PICKY' needs.*'absent'"):
        graphmill.Session(config=config("PICKY"), host=picky_host(needs_passes=("absent",)))
    host = picky_host(needs_passes=("constant_folding",))
    graphmill.Session(config=config("PICKY"), host=host).close()
    monkeypatch.setenv("GRAPHMILL_DISABLE_PASSES", "constant_folding")
    with pytest.raises(errors.FailedPreconditionError, match="switched off"):
        graphmill.Session(config=config("PICKY"), host=host)
