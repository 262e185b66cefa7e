"""Steps on several devices (clauses P1-P3, P5, R1-R3, E7, E9): towers, loops, dead values."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphmill
from graphmill import dtypes, errors, ops
from graphmill.ops.definition.op_def import ArgDef, OpDef
from graphmill.runtime.devices.device import Device, DeviceAttributes, DeviceFactory
from graphmill.runtime.kernels.kernel import kernel
from graphmill.testing.fakes import strict_device
from graphmill.testing.timeouts import TIMEOUT

CPU0, CPU1 = "/device:CPU:0", "/device:CPU:1"
BOX0, BOX1 = "/device:BOXED:0", "/device:BOXED:1"
PAIRS = [(CPU0, CPU1), (CPU1, CPU0), (CPU0, BOX0), (BOX0, BOX1)]
EXECUTORS = ["DEFAULT", "INLINE"]


class Kernels:
    """A plugin with a kernel that waits for cancellation, and one that fails."""

    def __init__(self) -> None:
        self.begun = self.cancelled = 0
        self.waits = threading.Event()

        @kernel("Downstream>Wait", async_=True)
        def wait(ctx: Any, x: Any, *, done: Any) -> None:
            def woken() -> None:
                self.cancelled += 1
                done(error=errors.CancelledError("woken"))

            self.begun += 1
            if ctx.cancellation.register(woken) is None:
                woken()
            self.waits.set()

        @kernel("Downstream>Fail")
        def fail(xp: Any, x: Any) -> None:
            raise errors.DataLossError("lost it")

        self.kernels = (wait, fail)

    @graphmill.hookimpl
    def graphmill_register_ops(self, ops: Any) -> None:
        x, y = ArgDef("x", dtypes.float32), ArgDef("y", dtypes.float32)
        for name in ("Wait", "Fail"):
            ops.add(OpDef(f"Downstream>{name}", (x,), (y,), is_stateful=True))

    @graphmill.hookimpl
    def graphmill_register_kernels(self, kernels: Any) -> None:
        for declared in self.kernels:
            kernels.add(declared)


@pytest.fixture
def plugin() -> Kernels:
    return Kernels()


@pytest.fixture
def host(plugin: Kernels) -> graphmill.Host:
    return graphmill.Host(plugins=[strict_device, plugin])


@pytest.fixture
def open_session(host: graphmill.Host):
    """Return a function that opens sessions with devices CPU:0-1 and BOXED:0-1."""
    made: list[graphmill.Session] = []

    def make(graph: graphmill.Graph, executor_type: str = "", **config: Any) -> graphmill.Session:
        settings = {
            "device_count": {"CPU": 2, "BOXED": 2},
            "experimental": {"executor_type": executor_type},
            **config,
        }
        made.append(graphmill.Session(graph=graph, config=settings, host=host))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def graph(host: graphmill.Host):
    """A graph under construction."""
    graph = graphmill.Graph(ops=host.ops)
    with graph.as_default():
        yield graph


def partitions(session: graphmill.Session, fetches: Any, feeds: Any = None) -> list[Any]:
    metadata = graphmill.RunMetadata()
    options = {"output_partition_graphs": True}
    session.run(fetches, feeds, options=options, run_metadata=metadata)
    return list(metadata.partition_graphs)


class Preferred:
    """A plugin whose NumPy devices rank above the CPU, as a GPU does."""

    class Accelerator(Device):
        def namespace(self, backend: str) -> Any:
            return np

        def to_device(self, value: Any) -> Any:
            return np.array(value)[()]

        to_host = to_device

    class Factory(DeviceFactory):
        def create_devices(self, config: Any, name_prefix: str) -> list[Device]:
            return [Preferred.Accelerator(DeviceAttributes(f"{name_prefix}/device:FAST:0", "FAST"))]

    @graphmill.hookimpl
    def graphmill_register_devices(self, devices: Any) -> None:
        devices.add("FAST", Preferred.Factory, priority=200)


def devices_of(session: graphmill.Session) -> set[str]:
    """Return the devices of the nodes of a session's signatures."""
    return {
        node.assigned_device
        for executors in session._impl._cache._sorted.values()
        for item in executors.items
        for node in item.graph.nodes
    }


def boxed(session: graphmill.Session, number: int = 0) -> strict_device.StrictDevice:
    (device,) = session._impl.devices.matching(f"/device:BOXED:{number}")
    return device


def invariant(value: Any, frame: str, parallel: int = 10) -> Any:
    return ops.control_flow.enter(
        value, frame_name=frame, is_constant=True, parallel_iterations=parallel
    )


def while_loop(
    graph: Any,
    frame: str,
    start: Any,
    limit: Any,
    body: Any,
    *,
    cond_on: str,
    parallel: int = 10,
    around: str = "",
) -> Any:
    """Build `i, x = 0, start; while i < limit: i, x = i + 1, body(x, i)`; return the last x.

    `around` is the frame around, if it is a loop in a loop.
    """

    def constant(value: float) -> Any:
        made = graph.constant(value)
        return invariant(made, around) if around else made

    with graph.device(cond_on):
        settings = {"frame_name": frame, "parallel_iterations": parallel}
        enters = [ops.control_flow.enter(v, **settings) for v in (constant(0.0), start)]
        merges = [ops.control_flow.merge([enter, enter]).output for enter in enters]
        bound = invariant(limit, frame, parallel)
        cond = ops.control_flow.loop_cond(ops.math.less(merges[0], bound))
        switches = [ops.control_flow.switch(merge, cond) for merge in merges]
        number = ops.math.add_v2(switches[0].output_true, invariant(constant(1.0), frame, parallel))
    result = body(switches[1].output_true, switches[0].output_true)
    with graph.device(cond_on):
        for merge, value in zip(merges, (number, result), strict=True):
            graph.replace_input(merge.op, 1, ops.control_flow.next_iteration(value).op, 0)
        return ops.control_flow.exit(switches[1].output_false)


class TestTowers:
    @pytest.mark.parametrize("executor_type", EXECUTORS)
    @pytest.mark.parametrize("pair", PAIRS)
    def test_two_towers_exchange_values_p3_r1(self, graph, open_session, pair, executor_type):
        left = right = graph.placeholder("float32", [3], name="x")
        for _ in range(4):
            with graph.device(pair[0]):
                new_left = ops.math.add_v2(left, right)
            with graph.device(pair[1]):
                right = ops.math.mul(right, left)
            left = new_left
        session = open_session(graph, executor_type)
        x = a = b = np.array([0.5, 1, -1], np.float32)
        for _ in range(4):
            a, b = a + b, b * a
        for _ in range(3):
            got = session.run([left, right], {"x:0": x})
            np.testing.assert_allclose(got, [a, b], rtol=1e-6)
        assert len(partitions(session, [left, right], {"x:0": x})) >= 2

    def test_a_graph_on_one_device_needs_no_rendezvous_p3(self, graph, open_session):
        with graph.device(CPU1):
            y = ops.math.neg(graph.placeholder("float32", [], name="x"))
        assert len(partitions(open_session(graph), y, {"x:0": 1})) == 1

    def test_feeds_and_fetches_are_the_clients_numpy_values_s6(self, graph, open_session):
        with graph.device(BOX0):
            y = ops.math.neg(graph.placeholder("float32", name="x"))
        session = open_session(graph)
        assert type(session.run(y, {"x:0": 2.0})) is np.float32
        assert type(session.run(y, {"x:0": [2.0]})) is np.ndarray
        assert session.make_callable(y, ["x:0"])(3.0) == -3

    def test_control_edges_cross_p3(self, graph, open_session):
        v = ops.state.variable_v2(shape=[], dtype="float32", name="v")
        assign = ops.state.assign(v, graph.placeholder("float32", [], name="x"))
        with graph.device(CPU1), graph.control_dependencies([assign]):
            between = ops.control_flow.no_op()
        with graph.control_dependencies([between]):
            ops.array.identity(v, name="read")
        session = open_session(graph)
        assert [session.run("read:0", {"x:0": n}) for n in range(3)] == [0, 1, 2]

    @pytest.mark.parametrize("pair", PAIRS)
    def test_ref_variables_are_read_and_written_across_devices_p1_p3(
        self, graph, open_session, pair
    ):
        with graph.device(pair[0]):
            v = ops.state.variable_v2(shape=[], dtype="float32", name="v")
            init = ops.state.assign(v, graph.constant(1.0), name="init")
        with graph.device(pair[1]):
            twice = ops.math.add_v2(v, v, name="twice")
        with graph.device(pair[0]):
            ops.state.assign(v, twice, name="step")
        session = open_session(graph)
        session.run(init.op)
        for expected in (2, 4, 8):
            session.run("step:0")
            assert session.run("twice:0") == 2 * expected

    def test_variable_is_on_one_device_in_all_steps_p1(self, graph, open_session):
        v = ops.state.variable_v2(shape=[], dtype="float32", name="v")
        ops.state.assign(v, graph.constant(5.0), name="init")
        with graph.device(CPU1), graph.colocate_with(v.op):
            ops.array.identity(v, name="read")
        session = open_session(graph, allow_soft_placement=True)
        session.run("init:0")
        assert session.run("read:0") == 5

    def test_partial_runs_cross_devices_s8(self, graph, open_session):
        a = graph.placeholder("float32", [], name="a")
        b = graph.placeholder("float32", [], name="b")
        with graph.device(BOX0):
            one = ops.math.neg(a)
        with graph.device(CPU1):
            two = ops.math.mul(one, b)
        session = open_session(graph)
        handle = session.partial_run_setup([one, two], [a, b])
        assert session.partial_run(handle, one, {a: 2}) == -2
        assert session.partial_run(handle, two, {b: 3}) == -6


class TestControlFlow:
    @pytest.mark.parametrize("pair", PAIRS)
    @pytest.mark.parametrize("executor_type", EXECUTORS)
    def test_dead_values_are_sent_as_dead_between_devices_e7(
        self, graph, open_session, pair, executor_type
    ):
        x = graph.placeholder("float32", [], name="x")
        p = graph.placeholder("bool", [], name="p")
        with graph.device(pair[0]):
            switch = ops.control_flow.switch(x, p)
            no = ops.math.neg(switch.output_false)
        with graph.device(pair[1]):
            yes = ops.math.square(switch.output_true)
            merged = ops.control_flow.merge([no, yes])
        with graph.device(pair[0]):
            y = ops.math.add_v2(merged.output, merged.output)
        session = open_session(graph, executor_type)
        assert session.run([y, merged.value_index], {x: 3, p: True}) == [18, 1]
        assert session.run([y, merged.value_index], {x: 3, p: False}) == [-6, 0]

    def test_dead_fetch_on_another_device_is_reported_e7(self, graph, open_session):
        switch = ops.control_flow.switch(
            graph.constant(1.0), graph.placeholder("bool", [], name="p")
        )
        with graph.device(CPU1):
            y = ops.math.neg(switch.output_true, name="y")
        session = open_session(graph)
        assert session.run(y, {"p:0": True}) == -1
        with pytest.raises(errors.InvalidArgumentError, match=r"'y:0' was not evaluated"):
            session.run(y, {"p:0": False})

    def test_dead_control_edge_across_devices_stops_consumers_e7(self, graph, open_session):
        v = ops.state.variable_v2(shape=[], dtype="float32", name="v")
        init = ops.state.assign(v, graph.constant(0.0))
        switch = ops.control_flow.switch(
            graph.constant(1.0), graph.placeholder("bool", [], name="p")
        )
        with graph.device(CPU1):
            pivot = ops.array.identity(switch.output_true)
        with graph.control_dependencies([pivot]):
            ops.state.assign_add(v, graph.constant(1.0), name="add")
        session = open_session(graph)
        session.run(init.op)
        for p, expected in [(False, 0), (True, 1), (False, 1), (True, 2)]:
            session.run([], {"p:0": p}, targets=["add"])
            assert session.run(v) == expected

    @pytest.mark.parametrize("pair", PAIRS)
    @pytest.mark.parametrize("executor_type", EXECUTORS)
    @pytest.mark.parametrize("parallel", [1, 10])
    def test_a_loop_may_have_its_body_on_another_device_p3(
        self, graph, open_session, pair, executor_type, parallel
    ):
        n = graph.placeholder("float32", [], name="n")
        factor = graph.placeholder("float32", [], name="f")

        def body(x: Any, number: Any) -> Any:
            with graph.device(pair[1]):
                return ops.math.add_v2(ops.math.mul(x, invariant(factor, "w", parallel)), number)

        start = graph.constant(1.0)
        y = while_loop(graph, "w", start, n, body, cond_on=pair[0], parallel=parallel)
        session = open_session(graph, executor_type)
        for trips in (0, 1, 7, 40):
            expected = 1.0
            for number in range(trips):
                expected = expected * 0.5 + number
            assert session.run(y, {n: trips, factor: 0.5}) == pytest.approx(expected)

    @pytest.mark.parametrize("pair", PAIRS)
    def test_nested_loops_may_cross_devices_p3(self, graph, open_session, pair):
        n = graph.placeholder("float32", [], name="n")

        def outer(x: Any, number: Any) -> Any:
            def inner(z: Any, _: Any) -> Any:
                with graph.device(pair[1]):
                    return ops.math.add_v2(z, invariant(number, "inner"))

            result = while_loop(graph, "inner", x, number, inner, cond_on=pair[1], around="outer")
            with graph.device(pair[0]):
                return ops.math.add_v2(result, result)

        y = while_loop(graph, "outer", graph.constant(1.0), n, outer, cond_on=pair[0])
        session = open_session(graph)
        for trips in (0, 1, 2, 5):
            expected = 1.0
            for number in range(trips):
                expected = 2 * (expected + number * number)
            assert session.run(y, {n: trips}) == expected

    def test_loop_invariant_results_are_sent_in_every_iteration_p3(self, graph, open_session):
        """Loop invariants are sent in every iteration; TensorFlow 2.21 deadlocks here."""
        n = graph.placeholder("float32", [], name="n")

        def body(x: Any, _: Any) -> Any:
            with graph.device(CPU1):
                two = ops.math.neg(invariant(graph.constant(-2.0), "w"))
            with graph.device(CPU0):
                return ops.math.mul(x, two)

        y = while_loop(graph, "w", graph.constant(1.0), n, body, cond_on=CPU0)
        assert open_session(graph).run(y, {n: 6}) == 64

    @pytest.mark.parametrize("taken", [True, False])
    def test_loop_in_untaken_branch_ends_on_all_devices_p3_e7(self, graph, open_session, taken):
        p = graph.placeholder("bool", [], name="p")
        switch = ops.control_flow.switch(graph.constant(1.0), p)

        def body(x: Any, _: Any) -> Any:
            with graph.device(CPU1):
                return ops.math.add_v2(x, x)

        limit = ops.array.identity(ops.math.mul(switch.output_true, graph.constant(3.0)))
        y = while_loop(graph, "w", switch.output_true, limit, body, cond_on=CPU0)
        with graph.device(CPU1):
            merged = ops.control_flow.merge([switch.output_false, y])
        assert open_session(graph).run(merged.output, {p: taken}) == (8 if taken else 1)


class TestErrors:
    @pytest.mark.parametrize("executor_type", EXECUTORS)
    def test_first_error_aborts_waiting_partitions_e8_e9(
        self, graph, open_session, plugin, executor_type
    ):
        x = graph.placeholder("float32", [], name="x")
        with graph.device(CPU1):
            (lost,) = graph.outputs_of(graph.create_op("Downstream>Fail", [x], name="fail"))
        (waits,) = graph.outputs_of(graph.create_op("Downstream>Wait", [x], name="wait"))
        y = ops.math.add_v2(ops.math.neg(lost), waits)
        session = open_session(graph, executor_type)
        for _ in range(2):  # and the session goes on working
            with pytest.raises(errors.DataLossError, match="lost it") as caught:
                session.run(y, {x: 1})
            assert caught.value.node == "fail"
            assert caught.value.device.endswith("CPU:1")
            assert not caught.value.is_derived
        assert plugin.cancelled == 2

    def test_a_timeout_ends_a_wait_for_another_device_e13_s6(self, graph, open_session, plugin):
        x = graph.placeholder("float32", [], name="x")
        with graph.device(CPU1):
            (late,) = graph.outputs_of(graph.create_op("Downstream>Wait", [x]))
        y = ops.math.neg(late)
        session = open_session(graph)
        with pytest.raises(errors.DeadlineExceededError, match="timeout of 30 ms"):
            session.run(y, {x: 1}, options={"timeout_in_ms": 30})
        assert plugin.cancelled == plugin.begun  # on a busy machine time is up before it begins

    def test_closing_the_session_ends_a_wait_for_another_device_s11(
        self, graph, open_session, plugin
    ):
        x = graph.placeholder("float32", [], name="x")
        with graph.device(CPU1):
            (late,) = graph.outputs_of(graph.create_op("Downstream>Wait", [x]))
        y = ops.math.neg(late)
        session = open_session(graph)
        seen: list[Any] = []

        def run() -> None:
            try:
                session.run(y, {x: 1})
            except errors.OpError as error:
                seen.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        assert plugin.waits.wait(TIMEOUT)
        session.close()
        thread.join(TIMEOUT)
        assert [type(error) for error in seen] == [errors.CancelledError]

    @pytest.mark.parametrize("executor_type", EXECUTORS)
    def test_a_device_that_fails_in_compute_is_named_e8(self, graph, open_session, executor_type):
        x = graph.placeholder("float32", [], name="x")
        with graph.device(BOX1):
            inner = ops.math.square(x, name="inner")
        y = ops.math.neg(inner)
        session = open_session(graph, executor_type)
        boxed(session, 1).fail_at = "inner"
        with pytest.raises(errors.InternalError, match="fallen off the bus") as caught:
            session.run(y, {x: 2})
        assert (caught.value.node, caught.value.op_type) == ("inner", "Square")
        assert caught.value.device.endswith("BOXED:1")
        boxed(session, 1).fail_at = None
        assert session.run(y, {x: 2}) == -4

    @pytest.mark.parametrize("method", ["to_host", "to_device"])
    def test_a_device_that_fails_to_copy_is_named_r1(
        self, graph, open_session, monkeypatch, method
    ):
        x = graph.placeholder("float32", [], name="x")
        with graph.device(BOX0):
            one = ops.math.square(x)
        with graph.device(BOX1):
            two = ops.math.square(one, name="two")
        session = open_session(graph)

        def broken(value: Any) -> Any:
            raise RuntimeError("no such page")

        monkeypatch.setattr(boxed(session, int(method == "to_device")), method, broken)
        with pytest.raises(errors.InternalError, match="no such page") as caught:
            session.run(two, {x: 2})
        assert caught.value.op_type == "_Recv"

    def test_error_in_loop_names_the_iteration_e8(self, graph, open_session):
        def body(x: Any, _: Any) -> Any:
            with graph.device(BOX0):
                return ops.math.neg(x, name="neg")

        n = graph.placeholder("float32", [], name="n")
        y = while_loop(graph, "w", graph.constant(1.0), n, body, cond_on=CPU0)
        session = open_session(graph)
        boxed(session).fail_at = "neg"
        with pytest.raises(errors.InternalError, match=r"in iteration w:0"):
            session.run(y, {n: 3})

    def test_executor_that_cannot_wait_refuses_the_graph_e1(self, graph, open_session):
        with graph.device(CPU1):
            one = ops.math.neg(graph.placeholder("float32", [], name="x"))
        with graph.device(CPU0):
            y = ops.math.neg(one)
        with pytest.raises(errors.UnimplementedError, match="cannot receive from another device"):
            open_session(graph, "SINGLE_THREADED_EXECUTOR").run(y, {"x:0": 1})


class TestDevices:
    def test_device_count_makes_virtual_cpus_r3_s1(self, graph, open_session):
        names = [device.name[-5:] for device in open_session(graph).list_devices()]
        assert names == ["CPU:0", "CPU:1", "XED:0", "XED:1"]

    def test_constants_are_copied_to_their_device_once_p2(self, graph, open_session):
        x = graph.placeholder("float32", [], name="x")
        with graph.device(BOX0):
            y = ops.math.mul(x, graph.constant(3.0))
        session = open_session(graph)
        assert session.run(y, {x: 2}) == 6
        before = boxed(session).copies_in
        assert session.run(y, {x: 2}) == 6
        assert boxed(session).copies_in - before == 1  # the feed

    def test_a_host_kernel_on_a_device_gets_copies_p2(self, graph, open_session):
        with graph.device(BOX0):
            text = ops.string.as_string(ops.math.neg(graph.placeholder("int32", [], name="x")))
        assert open_session(graph).run(text, {"x:0": 5}) == b"-5"

    def test_a_device_may_rewrite_its_part_p5(self, graph, open_session, monkeypatch):
        seen: list[tuple[str, list[str]]] = []

        def rewrite(self: Device, part: Any) -> None:
            seen.append((self.name[-5:], sorted(node.op for node in part.nodes)))

        monkeypatch.setattr(Device, "maybe_rewrite_graph", rewrite)
        with graph.device(CPU1):
            one = ops.math.neg(graph.placeholder("float32", [], name="x"))
        with graph.device(CPU0):
            y = ops.math.square(one)
        open_session(graph).run(y, {"x:0": 1})
        assert seen == [
            ("CPU:0", ["Square", "_Recv", "_Retval"]),
            ("CPU:1", ["Neg", "_Arg", "_Send"]),
        ]

    def test_function_body_may_span_devices_e10(self, host, open_session):
        from google.protobuf import text_format

        text = """
        node {{ name: "x" op: "Placeholder" attr {{ key: "dtype" value {{ type: DT_FLOAT }} }} }}
        node {{ name: "y" op: "PartitionedCall" input: "x" device: "{0}"
          attr {{ key: "Tin" value {{ list {{ type: DT_FLOAT }} }} }}
          attr {{ key: "Tout" value {{ list {{ type: DT_FLOAT }} }} }}
          attr {{ key: "f" value {{ func {{ name: "F" }} }} }} }}
        library {{ function {{
          signature {{ name: "F" input_arg {{ name: "a" type: DT_FLOAT }}
                       output_arg {{ name: "b" type: DT_FLOAT }} }}
          node_def {{ name: "d" op: "AddV2" input: "a" input: "a" device: "{1}"
                      attr {{ key: "T" value {{ type: DT_FLOAT }} }} }}
          node_def {{ name: "e" op: "Mul" input: "d:z:0" input: "a" device: "{0}"
                      attr {{ key: "T" value {{ type: DT_FLOAT }} }} }}
          ret {{ key: "b" value: "e:z:0" }} }} }}"""
        for pair in PAIRS:
            message = text_format.Parse(text.format(*pair), graphmill.GraphDef())
            assert open_session(message).run("y:0", {"x:0": 3.0}) == 18

    def test_saved_model_is_restored_onto_preferred_device_p1(self):
        """A SavedModel whose restore functions request the CPU is restored onto another device."""
        examples = Path(__file__).parents[3] / "examples" / "digits"
        digits = np.load(examples / "heldout.npz")
        host = graphmill.Host(plugins=[Preferred()])
        for name in ("saved_model_tf1", "saved_model_tf2"):
            model = graphmill.saved_model.load(str(examples / name), host=host)
            answer = model.signatures["serving_default"](image=digits["image"] / np.float32(255))
            assert (answer["classes"] == digits["label"]).mean() > 0.99
            assert any("FAST" in device for device in devices_of(model.session))
