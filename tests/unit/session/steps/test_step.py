"""One step: results, memory, options and metadata (clauses S6, E8, E12, E13)."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import graphmill
from graphmill import dtypes, errors, ops
from graphmill.graph.builder import Graph
from graphmill.ops.attrs.attr_types import FuncAttr
from graphmill.proto import RunMetadata, RunOptions
from graphmill.runtime.steps.call_frame import CallFrame
from graphmill.session.steps import step
from graphmill.session.steps.transfer import identity
from graphmill.testing.proto_builders import const_def, function_def, graph_def, node_def
from graphmill.testing.timeouts import no_leaked_threads

CPU = "/job:localhost/replica:0/task:0/device:CPU:0"
X = node_def("x", "Placeholder", dtype="float32", shape=None)

# -------------------------------------------------------- results, as tf.compat.v1.Session has them


@pytest.mark.parametrize(
    ("value", "dtype", "kind"),
    [
        (3.5, "float32", np.float32),
        (3.5, "float64", np.float64),
        (True, "bool", np.bool_),
        (1, "float16", np.float16),
        (2, "int8", np.int8),
        (2, "uint64", np.uint64),
        (1 + 2j, "complex128", np.complex128),
        ("text", "string", bytes),
        (2, "qint8", np.int8),
    ],
)
def test_s6_rank_0_tensor_is_returned_as_scalar(value: Any, dtype: str, kind: type) -> None:
    graph = Graph()
    array = (
        np.array(value)
        if dtype == "string"
        else np.array(value, dtypes.as_dtype(dtype).as_numpy_dtype)
    )
    attrs = {"dtype": dtypes.as_dtype(dtype)}
    graph.create_op("Placeholder", (), {**attrs, "shape": None}, "p")
    with graph.as_default():
        ops.array.identity(graph.get_tensor_by_name("p:0"), name="y")
    with graphmill.Session(graph=graph) as session:
        result = session.run("y:0", {"p:0": array})
    assert type(result) is kind
    assert result == (value.encode() if dtype == "string" else value)


def test_s6_small_dtypes_are_returned_as_numpy_types() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    graph = Graph()
    with graph.as_default():
        x = graph.constant([1, 2], name="x")
        ops.math.cast(x, DstT="bfloat16", name="b")
        ops.math.cast(x, DstT="int4", name="i")
    with graphmill.Session(graph=graph) as session:
        b, i = session.run(["b:0", "i:0"])
    assert (b.dtype, i.dtype) == (ml_dtypes.bfloat16, ml_dtypes.int4)


@pytest.mark.parametrize("shape", [(1,), (0, 3), (2, 2)])
def test_s6_fetched_tensors_are_writable_arrays(shape: tuple[int, ...]) -> None:
    graph = Graph()
    graph.constant(np.zeros(shape, np.float32), name="c")
    graph.constant(np.full(shape, b"s", object), name="s")
    with graphmill.Session(graph=graph) as session:
        for array in session.run(["c:0", "s:0"]):
            assert type(array) is np.ndarray
            assert array.shape == shape
            assert array.flags.writeable
            assert array.dtype.metadata is None or array.dtype == object


# ------------------------------------------------------------------------------- nobody's memory


@pytest.fixture
def memory() -> Any:
    """Return a session whose tensors share memory in all known ways."""
    graph = Graph()
    with graph.as_default():
        c = graph.constant(np.arange(6, dtype=np.float32).reshape(2, 3), name="c")
        ops.array.reshape(c, [3, 2], name="reshaped")
        ops.array.transpose(c, [1, 0], name="transposed")
        ops.array.identity(c, name="same")
        ops.array.strided_slice(c, [0], [1], [1], name="part")
        ops.array.broadcast_to(graph.constant(1.0), [2, 2], name="broadcast")
        x = graph.placeholder("float32", None, name="x")
        ops.array.identity(x, name="x_same")
        ops.array.reshape(x, [-1], name="x_flat")
        v = ops.state.variable_v2(shape=[2], dtype="float32", name="v")
        ops.state.assign(v, x, name="assign")
        ops.state.assign_add(v, x, name="assign_add")
        ops.array.identity(v, name="read")
        handle = ops.state.var_handle_op(dtype="float32", shape=[2], name="handle", shared_name="r")
        ops.state.assign_variable_op(handle, x, name="assign_r")
        ops.state.read_variable_op(handle, dtype="float32", name="read_r")
        ops.math.add_v2(c, 1.0, name="fresh")
        s = graph.constant(["a", "b"], name="s")
        ops.array.identity(s, name="s_same")
    with graphmill.Session(graph=graph) as session:
        yield session


@pytest.mark.parametrize(
    "fetch", ["c", "reshaped", "transposed", "same", "part", "broadcast", "fresh", "s", "s_same"]
)
def test_s6_writing_to_a_fetch_changes_no_constant(memory: Any, fetch: str) -> None:
    name = f"{fetch}:0"
    call = memory.make_callable(name)
    for run in (call, lambda: memory.run(name), lambda: memory.run([name, name])[1]):
        first = run()
        expected = first.copy()
        first.fill(b"z" if first.dtype == object else 99)
        np.testing.assert_array_equal(run(), expected)
    np.testing.assert_array_equal(memory.run("c:0"), np.arange(6).reshape(2, 3))


def test_s6_repeated_fetches_do_not_alias_the_graph(memory: Any) -> None:
    one, other = memory.run(["fresh:0", "c:0"])
    one[:] = 5
    assert other[0, 0] == 0
    assert memory.run("fresh:0")[0, 0] == 1


@pytest.mark.parametrize("fetch", ["x:0", "x_same:0", "x_flat:0"])
def test_s6_writing_to_a_fetch_changes_no_feed(memory: Any, fetch: str) -> None:
    fed = np.zeros(2, np.float32)
    memory.run(fetch, {"x:0": fed})[:] = 7
    assert list(fed) == [0, 0]


@pytest.mark.parametrize(("assign", "read"), [("assign:0", "read:0"), ("assign_r", "read_r:0")])
def test_s6_variable_value_is_isolated_from_feeds_and_fetches(
    memory: Any, assign: str, read: str
) -> None:
    fed = np.array([1, 2], np.float32)
    result = memory.run(assign, {"x:0": fed})
    fed[:] = 50
    if result is not None:
        result[:] = 60
    first = memory.run(read)
    first[:] = 70
    assert list(memory.run(read)) == [1, 2]


def test_s6_read_variable_value_survives_later_writes(memory: Any) -> None:
    memory.run("assign:0", {"x:0": [1.0, 2.0]})
    before = memory.run("read:0")
    memory.run("assign_add:0", {"x:0": [10.0, 10.0]})
    assert list(before) == [1, 2]
    assert list(memory.run("read:0")) == [11, 12]


@pytest.mark.parametrize("is_view", [False, True])
@pytest.mark.parametrize("is_held", [False, True])
def test_s6_values_owned_by_the_step_are_not_copied(is_view: bool, is_held: bool) -> None:
    """Large values that only the step holds are not copied; others are."""
    frame = CallFrame([], 1)
    frame.retvals[0] = np.ones(4)[1:] if is_view else np.ones(3)
    address = frame.retvals[0].ctypes.data
    held = (frame.retvals[0].base if is_view else frame.retvals[0]) if is_held else None
    executors = SimpleNamespace(to_host=(identity,), fetches=("y:0",))
    (result,) = step.step_results(executors, frame, may_alias=False)  # type: ignore[arg-type]
    assert (result.ctypes.data == address) == (held is None)


# ---------------------------------------------------------------------------------------- errors


def test_s12_an_error_names_node_op_device_and_node_def(probe: Any, probe_host: Any) -> None:
    message = graph_def(
        X, node_def("bad", "Probe>Raise", "x"), node_def("ok", "Neg", "x", T="float32")
    )
    with graphmill.Session(graph=message, host=probe_host) as session:
        with pytest.raises(errors.InvalidArgumentError) as caught:
            session.run("bad:0", {"x:0": 1.0})
        error = caught.value
        assert error.message == "the kernel's own words"
        assert (error.node, error.op_type, error.device) == ("bad", "Probe>Raise", CPU)
        assert "Probe" in error.plugin
        assert error.node_def.input == ["x"] or list(error.node_def.input) == ["_arg_x_0_0"]
        assert "[[{{node bad}}]] (op Probe>Raise, device " in str(error)
        assert session.run("ok:0", {"x:0": 1.0}) == -1


@pytest.mark.parametrize(
    ("raised", "cls"),
    [
        (KeyError("k"), errors.InternalError),
        (MemoryError(), errors.ResourceExhaustedError),
        (errors.OutOfRangeError("end"), errors.OutOfRangeError),
        (RecursionError(), errors.ResourceExhaustedError),
        (StopIteration(), errors.InternalError),
    ],
    ids=lambda value: getattr(value, "__name__", type(value).__name__),
)
def test_s12_kernel_exceptions_become_typed_errors(
    probe: Any, probe_host: Any, raised: BaseException, cls: type[errors.OpError]
) -> None:
    probe.error = raised
    message = graph_def(X, node_def("bad", "Probe>Raise", "x"))
    with graphmill.Session(graph=message, host=probe_host) as session:
        with pytest.raises(cls) as caught:
            session.run("bad:0", {"x:0": 1.0})
        assert caught.value.node == "bad"
        assert caught.value is raised or caught.value.__cause__ is raised


def test_s12_ctrl_c_is_not_an_error_of_the_step(probe: Any, probe_host: Any) -> None:
    probe.error = KeyboardInterrupt()
    message = graph_def(X, node_def("bad", "Probe>Raise", "x"))
    with graphmill.Session(graph=message, host=probe_host) as session:
        with pytest.raises(KeyboardInterrupt):
            session.run("bad:0", {"x:0": 1.0})
        assert session.run("x:0", {"x:0": 1.0}) == 1


def test_s12_interrupt_cancels_waiting_kernels(probe: Any, probe_host: Any) -> None:
    """An interrupt cancels waiting kernels, so that no queue passes an element to an ended step."""
    probe.error = KeyboardInterrupt()
    message = graph_def(X, node_def("bad", "Probe>Raise", "x"), node_def("w", "Probe>Wait", "x"))
    with graphmill.Session(graph=message, host=probe_host) as session:
        with pytest.raises(KeyboardInterrupt):
            session.run(["w:0", "bad:0"], {"x:0": 1.0})
        assert probe.is_waiting.is_set()
        assert probe.was_woken.is_set()


def test_s6_fetch_in_untaken_branch_is_reported() -> None:
    switch = node_def("switch", "Switch", "x", "no", T="float32")
    with graphmill.Session(graph=graph_def(X, const_def("no", np.bool_(False)), switch)) as session:
        assert session.run("switch:0", {"x:0": 1.0}) == 1
        with pytest.raises(
            errors.InvalidArgumentError, match=r"'switch:1' was not evaluated: .*dead"
        ):
            session.run("switch:1", {"x:0": 1.0})


def test_s6_overflow_and_nan_are_values_not_warnings() -> None:
    divide = node_def("y", "RealDiv", "x", "zero", T="float32")
    with graphmill.Session(graph=graph_def(X, const_def("zero", 0.0), divide)) as session:
        assert np.isnan(session.run("y:0", {"x:0": 0.0}))
        assert session.run("y:0", {"x:0": 1.0}) == np.inf


# -------------------------------------------------------------------------------------- timeouts


@pytest.fixture
def waiting(probe_host: Any) -> Any:
    nodes = (X, node_def("w", "Probe>Wait", "x"), node_def("y", "Neg", "x", T="float32"))
    with graphmill.Session(graph=graph_def(*nodes), host=probe_host) as session:
        yield session


def test_s6_step_timeout_is_deadline_exceeded(waiting: Any) -> None:
    with pytest.raises(errors.DeadlineExceededError, match="within its timeout of 20 ms"):
        waiting.run("w:0", {"x:0": 1.0}, options={"timeout_in_ms": 20})
    assert waiting.run("y:0", {"x:0": 1.0}) == -1


def test_s6_the_sessions_timeout_holds_for_steps_without_one(probe_host: Any) -> None:
    message = graph_def(X, node_def("w", "Probe>Wait", "x"))
    config = {"operation_timeout_in_ms": 20}
    with graphmill.Session(graph=message, host=probe_host, config=config) as session:
        for options in (None, {"timeout_in_ms": 0}, {"timeout_in_ms": -5}):
            with pytest.raises(errors.DeadlineExceededError, match="20 ms"):
                session.run("w:0", {"x:0": 1.0}, options=options)


@pytest.mark.parametrize("timeout", [-1, 0, 10**6, 2**62])
def test_s6_absent_or_long_timeout_changes_nothing(waiting: Any, timeout: int) -> None:
    options = RunOptions(timeout_in_ms=timeout)
    with no_leaked_threads():
        assert waiting.run("y:0", {"x:0": 1.0}, options=options) == -1


def endless(kind: str) -> Any:
    keep = function_def("keep", {"n": "int32"}, {"y": ("int32", "n")})
    yes = function_def(
        "yes", {"n": "int32"}, {"y": ("bool", "c:output:0")}, const_def("c", np.bool_(True))
    )
    attrs: dict[str, Any] = {"T": ["int32"], "body": FuncAttr("keep")}
    if kind == "While":
        loop = node_def("loop", "While", "n", cond=FuncAttr("yes"), **attrs)
    else:
        keep = function_def("keep", {"i": "int32", "n": "int32"}, {"y": ("int32", "n")})
        loop = node_def("loop", "For", "zero", "last", "one", "n", **attrs)
    numbers = [const_def("zero", 0), const_def("one", 1), const_def("last", 2**31 - 1)]
    return graph_def(const_def("n", 0), *numbers, loop, functions=[keep, yes])


@pytest.mark.parametrize("kind", ["While", "For"])
def test_s6_a_loop_without_end_is_stopped_by_the_timeout(kind: str) -> None:
    with graphmill.Session(graph=endless(kind)) as session:
        with pytest.raises(errors.DeadlineExceededError):
            session.run("loop:0", options={"timeout_in_ms": 30})
        assert session.run("n:0") == 0


def test_s11_a_loop_without_end_is_stopped_by_closing(in_thread: Any) -> None:
    session = graphmill.Session(graph=endless("While"))
    started = threading.Event()
    call = session.make_callable("loop:0")

    def run() -> Any:
        started.set()
        return call()

    result = in_thread(run)
    assert started.wait(60)
    session.close()
    with pytest.raises(errors.CancelledError, match="Session has been closed"):
        result()


# -------------------------------------------------------------------------------------- metadata


@pytest.fixture
def traced() -> Any:
    graph = Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [None, 2], name="x")
        y = ops.math.neg(x, name="y")
        ops.string.as_string(y, name="text")
        v = ops.state.variable_v2(shape=[2], dtype="float32", name="v")
        with graph.control_dependencies([ops.state.assign(v, [1.0, 2.0], name="assign")]):
            ops.array.identity(v, name="read")
        ops.array.unpack(x, num=1, axis=0, name="parts")
        ops.state.var_handle_op(dtype="float32", shape=[2], name="handle")
        switch = ops.control_flow.switch(y, graph.constant(True))
        ops.math.neg(switch.output_true, name="live")
        ops.math.neg(switch.output_false, name="dead")
    with graphmill.Session(graph=graph) as session:
        yield session


TRACE = {"trace_level": "FULL_TRACE"}


def stats(session: Any, fetches: Any, **keywords: Any) -> dict[str, Any]:
    """Return the statistics of a step's nodes by name."""
    metadata = RunMetadata()
    session.run(fetches, options=TRACE, run_metadata=metadata, **keywords)
    (device,) = metadata.step_stats.dev_stats
    assert device.device == CPU
    return {node.node_name: node for node in device.node_stats}


def test_e12_trace_has_times_and_outputs_of_executed_nodes(traced: Any) -> None:
    before = time.time_ns()
    nodes = stats(traced, "y:0", feed_dict={"x:0": np.ones((3, 2), np.float32)})
    node = nodes["y"]
    assert before <= node.all_start_nanos <= node.all_start_nanos + node.all_end_rel_nanos
    assert node.all_start_nanos + node.all_end_rel_nanos <= time.time_ns()
    assert before <= node.scheduled_nanos <= node.all_start_nanos
    assert node.timeline_label == "y = Neg(_arg_x_0_0)"
    (output,) = node.output
    assert output.tensor_description.dtype == dtypes.float32.enum
    assert [dim.size for dim in output.tensor_description.shape.dim] == [3, 2]
    allocation = output.tensor_description.allocation_description
    assert (allocation.requested_bytes, allocation.allocator_name) == (24, "cpu")
    (memory,) = node.memory
    assert (memory.allocator_name, memory.total_bytes, memory.live_bytes) == ("cpu", 24, 24)


def test_e12_trace_has_the_source_arguments_constants_and_results(traced: Any) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [], name="x")
        ops.math.add_v2(ops.math.exp(x, name="e"), 2.0, name="y")
    metadata = RunMetadata()
    with graphmill.Session(graph=graph) as session:
        session.run("y:0", {"x:0": 0}, options=TRACE, run_metadata=metadata)
    (device,) = metadata.step_stats.dev_stats
    nodes = {node.node_name: node for node in device.node_stats}
    assert set(nodes) == {"_SOURCE", "_arg_x_0_0", "e", "y/y", "y", "_retval_y_0_0"}
    assert nodes["y"].timeline_label == "y = AddV2(e, y/y)"
    assert nodes["_arg_x_0_0"].all_start_nanos <= nodes["e"].all_start_nanos
    last = nodes["y"].all_start_nanos + nodes["y"].all_end_rel_nanos
    assert nodes["_retval_y_0_0"].all_start_nanos >= last
    (output,) = nodes["y/y"].output
    assert output.tensor_description.dtype == dtypes.float32.enum
    assert nodes["y"].scheduled_nanos <= nodes["y"].all_start_nanos


@pytest.mark.jax
def test_a_trace_shows_the_cluster_that_ran_and_estimates_its_nodes(probe_host: Any) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [2, 2], name="x")
        ops.math.add_v2(ops.math.mat_mul(x, x, name="y"), 1.0, name="z")
    metadata = RunMetadata()
    options = RunOptions(trace_level=RunOptions.FULL_TRACE, output_partition_graphs=True)
    feeds = {"x:0": np.ones((2, 2), np.float32)}
    config = {"graphmill": {"jit": "eager"}}
    with graphmill.Session(graph=graph, host=probe_host, config=config) as session:
        session.run("z:0", feeds)
        session.run("z:0", feeds, options=options, run_metadata=metadata)
    (part,) = metadata.partition_graphs
    assert sorted(node.op for node in part.node) == ["_Arg", "_Cluster", "_Retval"]
    (cluster,) = (node for node in part.node if node.op == "_Cluster")
    (function,) = part.library.function
    assert function.signature.name == cluster.attr["f"].func.name
    assert {"MatMul", "AddV2"} <= {node.op for node in function.node_def}
    nodes = {n.node_name: n for n in metadata.step_stats.dev_stats[0].node_stats}
    whole = nodes[cluster.name]
    for name, op in (("y", "MatMul"), ("z", "AddV2")):
        label = nodes[name].timeline_label
        assert label.startswith(f"{name} = {op}(")
        assert label.endswith(f"(estimate: in {cluster.name}, compiled)")
        assert abs(nodes[name].op_end_rel_nanos - whole.op_end_rel_nanos / 2) <= 1
        assert nodes[name].all_start_nanos >= whole.all_start_nanos


def test_e12_strings_references_lists_and_handles_are_traced(traced: Any) -> None:
    x = np.ones((1, 2), np.float32)
    fetches = ["text:0", "read:0", "parts:0", "handle:0"]
    nodes = stats(traced, fetches, feed_dict={"x:0": x})
    found = {
        name: [o.tensor_description.dtype for o in node.output] for name, node in nodes.items()
    }
    assert found["text"] == [dtypes.string.enum]
    assert found["v"] == [dtypes.float32.enum]
    assert found["assign"] == [dtypes.float32.enum]
    assert found["parts"] == [dtypes.float32.enum]
    assert found["handle"] == [dtypes.resource.enum]


def test_e12_dead_nodes_did_not_run(traced: Any) -> None:
    nodes = stats(
        traced, "live:0", feed_dict={"x:0": np.ones((1, 2), np.float32)}, targets=["dead"]
    )
    assert "live" in nodes
    assert "dead" not in nodes


def test_e12_waiting_kernels_and_called_functions_are_traced(probe: Any, probe_host: Any) -> None:
    inner = function_def(
        "twice",
        {"x": "float32"},
        {"y": ("float32", "sum:z:0")},
        node_def("count", "Probe>Count", "x"),
        node_def("sum", "AddV2", "count:y:0", "count:y:0", T="float32"),
    )
    message = graph_def(X, node_def("call", "twice", "x"), functions=[inner])
    with graphmill.Session(graph=message, host=probe_host) as session:
        nodes = stats(session, "call:0", feed_dict={"x:0": 2.0})
    assert any(name.endswith("count") for name in nodes)
    assert any(name.endswith("sum") for name in nodes)


def test_s6_tracing_is_off_by_default(traced: Any) -> None:
    metadata = RunMetadata()
    x = np.ones((1, 2), np.float32)
    traced.run("y:0", {"x:0": x}, run_metadata=metadata)
    assert metadata == RunMetadata()
    assert traced.run("y:0", {"x:0": x}, options=TRACE).shape == (1, 2)


def test_s6_metadata_is_filled_for_a_step_that_fails(probe: Any, probe_host: Any) -> None:
    nodes = (X, node_def("c", "Probe>Count", "x"), node_def("bad", "Probe>Raise", "c"))
    with graphmill.Session(graph=graph_def(*nodes), host=probe_host) as session:
        metadata = RunMetadata()
        with pytest.raises(errors.InvalidArgumentError):
            session.run("bad:0", {"x:0": 1.0}, options=TRACE, run_metadata=metadata)
    nodes = [node.node_name for node in metadata.step_stats.dev_stats[0].node_stats]
    assert nodes == ["c", "_SOURCE", "_arg_x_0_0"]


def test_s6_partition_graphs_are_the_executed_ones(traced: Any) -> None:
    metadata = RunMetadata()
    options = RunOptions(output_partition_graphs=True)
    x = np.ones((1, 2), np.float32)
    traced.run("y:0", {"x:0": x}, options=options, run_metadata=metadata)
    (graph,) = metadata.partition_graphs
    nodes = {node.name: node for node in graph.node}
    assert sorted(node.op for node in graph.node) == ["Neg", "_Arg", "_Retval"]
    assert {node.device for node in graph.node} == {CPU}
    assert list(nodes["y"].input) == ["_arg_x_0_0"]


@pytest.mark.parametrize("then_fails", [False, True])
def test_s10_the_steps_container_is_emptied_after_it(
    probe: Any, probe_host: Any, then_fails: bool
) -> None:
    nodes = (X, node_def("s", "Probe>Scratch", "x"), node_def("bad", "Probe>Raise", "s"))
    with graphmill.Session(graph=graph_def(*nodes), host=probe_host) as session:
        for _ in range(2):
            if then_fails:
                with pytest.raises(errors.InvalidArgumentError):
                    session.run("bad:0", {"x:0": 1.0})
            else:
                session.run("s:0", {"x:0": 1.0})
    (first, container, resources), (second, other, _) = probe.scratch
    assert second > first
    assert container != other
    assert resources.containers() == []
