"""`ExecutorTests`: the contract of executors (clauses E1, E6-E8, E11, E13, S6, S8)."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pytest

from graphmill import errors, proto
from graphmill.graph.builder import Graph
from graphmill.graph.control_flow.cond import cond
from graphmill.graph.control_flow.while_loop import while_loop
from graphmill.ops import array, control_flow, math, state
from graphmill.plugin.host import Host
from graphmill.session.session import Session
from graphmill.testing.conformance.clauses import clauses
from graphmill.testing.conformance.seeded import SeededSuite, named
from graphmill.testing.fakes import strict_device
from graphmill.testing.fakes.executor_probe import probed
from graphmill.testing.generators.control_flow_programs import random_program
from graphmill.testing.generators.dataflow_graphs import random_graph
from graphmill.testing.oracle.reference_evaluator import ReferenceSession
from graphmill.testing.timeouts import within

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphmill.graph.tensor import Tensor
    from graphmill.testing.fakes.executor_probe import ProbedFactory, ProbeOps


class ExecutorTests(SeededSuite):
    """Test an executor against the contract that sessions rely on.

        class TestMyExecutor(ExecutorTests):
            executor_type = "MINE"

    Each test also checks that `done` is called once per run, after the last kernel has ended. A
    step that hangs fails its test after half a minute.

    Attributes:
        executor_type: its name; by default that of `--graphmill-executor`.
        runs_control_flow: whether it runs loops and conditionals of control flow v1. If not, it
            must refuse a graph that has them, with a reason.
        runs_transfers: whether it runs partitions that receive from others, and partial runs.
        seeds: the number of random graphs, programs and schedules.
        settings: `ConfigProto` fields that its sessions need.
    """

    graphmill_suite: ClassVar[str] = "ExecutorTests"
    executor_type: ClassVar[str | None] = None
    runs_control_flow: ClassVar[bool] = True
    runs_transfers: ClassVar[bool] = True

    @pytest.fixture
    def name(self, request: pytest.FixtureRequest) -> str:
        """Return the executor's name."""
        return named(request, "executor", "executor_type", self.executor_type)

    @pytest.fixture
    def watched(
        self, plugins: list[object], probe_ops: ProbeOps, name: str
    ) -> Iterator[tuple[Host, ProbedFactory]]:
        """Yield a host whose executors are watched; a violation fails the test."""
        host, probe = probed(Host(plugins=[*plugins, probe_ops, strict_device]), name, probe_ops)
        yield host, probe
        assert not probe.problems(), probe.problems()

    @pytest.fixture
    def host(self, watched: tuple[Host, ProbedFactory]) -> Host:
        """Return the host of the tests."""
        return watched[0]

    @pytest.fixture
    def config(self, name: str) -> Any:
        """Return the configuration that selects the executor."""
        options = proto.ConfigProto(**self.settings)
        options.experimental.executor_type = name
        return options

    # ------------------------------------------------------------------------- plain graphs

    @clauses("E6", "S6")
    def test_random_graphs_match_the_reference_evaluator(
        self, seed: int, host: Host, config: Any
    ) -> None:
        """Results of random graphs equal those of the reference evaluator."""
        sample = random_graph(seed, host.ops)
        expected = ReferenceSession(sample.graph_def, host).run(sample.fetches, sample.feeds)
        with Session(graph=sample.graph_def, host=host, config=config) as session:
            for _ in range(2):
                fetches = list(sample.fetches)
                step = f"a step of {sample.name}"
                actual = within(lambda: session.run(fetches, sample.feeds), step)  # noqa: B023
                _check_same(sample.name, fetches, expected, actual)

    @clauses("E5", "E6")
    def test_kernels_may_end_in_any_order(self, seed: int, host: Host, config: Any) -> None:
        """The result does not depend on the order in which asynchronous kernels end."""
        graph = Graph(ops=host.ops)
        with graph.as_default():
            x = graph.placeholder("float32", [], name="x")
            layer = [x * float(i + 1) for i in range(6)]
            for depth in range(3):
                later = [_probe(graph, "Later", t, seed=seed + depth) for t in layer]
                layer = [later[i] + later[(i + 1 + depth) % 6] for i in range(6)]
            total = math.add_n(layer, name="total")
        with Session(graph=graph, host=host, config=config) as session:
            result = within(lambda: session.run(total, {x: 1.0}), "a step of waiting kernels")
        assert result == 21 * 8

    @clauses("E6")
    def test_every_node_runs_once(self, host: Host, config: Any, probe_ops: ProbeOps) -> None:
        """A node with many consumers runs once per step, and only if the step needs it."""
        graph = Graph(ops=host.ops)
        with graph.as_default():
            x = graph.placeholder("float32", [], name="x")
            counted = _probe(graph, "Count", x, name="counted")
            _probe(graph, "Count", x, name="unneeded")
            y = counted * 2.0 + counted * counted
        with Session(graph=graph, host=host, config=config) as session:
            assert within(lambda: session.run(y, {x: 3.0}), "a step") == 15.0
            session.run(y, {x: 3.0})
        assert probe_ops.calls == {"counted": 2}

    @clauses("E6")
    def test_control_edges_order_effects(self, host: Host, config: Any) -> None:
        """Control edges order nodes; nodes with effects run without being fetched."""
        graph = Graph(ops=host.ops)
        with graph.as_default():
            v = state.var_handle_op(dtype="int32", shape=(), shared_name="v")
            start = state.assign_variable_op(v, 1)
            with graph.control_dependencies([start]):
                added = state.assign_add_variable_op(v, 10)
            with graph.control_dependencies([added]):
                read = state.read_variable_op(v, dtype="int32")
        with Session(graph=graph, host=host, config=config) as session:
            for _ in range(3):
                assert within(lambda: session.run(read), "a step with control edges") == 11

    @clauses("E6", "E11")
    def test_references_are_read_as_values(self, host: Host, config: Any) -> None:
        """Reading an uninitialized reference variable is an error; a set one keeps its value."""
        graph = Graph(ops=host.ops)
        with graph.as_default():
            ref = state.variable_v2(shape=(), dtype="float32", name="ref")
            start = state.assign(ref, 2.0)
            more = state.assign_add(ref, 3.0)
            twice = array.identity(ref) * 2.0
        with Session(graph=graph, host=host, config=config) as session:
            with pytest.raises(errors.FailedPreconditionError, match="uninitialized"):
                within(lambda: session.run(twice), "a step that reads an unset variable")
            session.run(start.op)
            assert session.run(more) == 5.0
            assert session.run(twice) == 10.0

    @clauses("E6")
    def test_a_deep_graph_runs_without_recursion(self, host: Host, config: Any) -> None:
        """A graph of 2500 nodes runs; the executor must not recurse."""
        sample = random_graph(3, host.ops, nodes=2500)
        expected = ReferenceSession(sample.graph_def, host).run(sample.fetches, sample.feeds)
        with Session(graph=sample.graph_def, host=host, config=config) as session:
            fetches = list(sample.fetches)
            actual = within(lambda: session.run(fetches, sample.feeds), "a step of 2500 nodes")
        _check_same(sample.name, fetches, expected, actual)

    @clauses("S6")
    def test_overlapping_steps_do_not_interfere(self, host: Host, config: Any) -> None:
        """Concurrent steps of one executor do not interfere."""
        graph = Graph(ops=host.ops)
        with graph.as_default():
            x = graph.placeholder("float32", [], name="x")
            y = _probe(graph, "Later", x * x, seed=1) + _probe(graph, "Later", x, seed=2)
        wrong: list[float] = []
        with Session(graph=graph, host=host, config=config) as session:
            call = session.make_callable(y, [x])

            def steps(number: int) -> None:
                for _ in range(10):
                    result = float(call(np.float32(number)))
                    if result != number * number + number:
                        wrong.append(result)

            threads = [threading.Thread(target=steps, args=(n,), daemon=True) for n in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                within(thread.join, "overlapping steps")
        assert not wrong

    # ------------------------------------------------------------------------- control flow

    @clauses("E7", "E4")
    def test_random_programs_match_plain_python(self, seed: int, host: Host, config: Any) -> None:
        """Nested loops, conditionals and effects compute the same as plain Python."""
        self._needs_control_flow()
        program = random_program(seed, depth=3)
        graph = Graph(ops=host.ops)
        built = program.build(graph)
        with Session(graph=graph, host=host, config=config) as session:
            for x in (0, 5):
                step = f"a step of {program.name}"
                result = within(lambda: built.run(session, x), step)  # noqa: B023
                assert result == program.expected(x), program.name

    @clauses("E7")
    def test_dead_tokens_reach_nodes_at_any_distance(
        self, host: Host, config: Any, probe_ops: ProbeOps
    ) -> None:
        """No node that depends on a branch that is not taken runs, at any distance."""
        self._needs_control_flow()
        graph = Graph(ops=host.ops)
        with graph.as_default():
            p = graph.placeholder("bool", [], name="p")
            x = graph.placeholder("float32", [], name="x")
            switch = control_flow.switch(x, p)
            dead = _probe(graph, "Count", switch.output_false, name="when_false")
            for _ in range(5):
                dead = dead + 1.0
            alive = _probe(graph, "Count", switch.output_true, name="when_true")
            merged = control_flow.merge([dead, alive])
            y = merged.output + 0.0
        with Session(graph=graph, host=host, config=config) as session:
            assert within(lambda: session.run(y, {p: True, x: 2.0}), "a dead branch") == 2.0
            assert probe_ops.calls == {"when_true": 1}
            index = session.run(merged.value_index, {p: False, x: 2.0})
            assert (index, probe_ops.calls["when_false"]) == (0, 1)
            with pytest.raises(errors.OpError, match=r"dead|not evaluated|did not return"):
                within(lambda: session.run(dead, {p: True, x: 2.0}), "the fetch of a dead tensor")

    @clauses("E7")
    def test_control_edge_propagates_deadness(
        self, host: Host, config: Any, probe_ops: ProbeOps
    ) -> None:
        """A control edge propagates deadness; a ControlTrigger stops it."""
        self._needs_control_flow()
        graph = Graph(ops=host.ops)
        with graph.as_default():
            p = graph.placeholder("bool", [], name="p")
            x = graph.placeholder("float32", [], name="x")
            off = array.identity(control_flow.switch(x, p).output_false)
            with graph.control_dependencies([off]):
                _probe(graph, "Count", x, name="after_dead")
                trigger = graph.create_op("ControlTrigger", [])
            with graph.control_dependencies([trigger]):
                after = _probe(graph, "Count", x, name="after_trigger")
        with Session(graph=graph, host=host, config=config) as session:
            targets = [graph.node("after_dead"), after.op]
            within(lambda: session.run(targets, {p: True, x: 1.0}), "dead control edges")
        assert probe_ops.calls == {"after_trigger": 1}

    @clauses("E7")
    @pytest.mark.parametrize("parallel", [1, 10])
    def test_iterations_may_overlap(self, parallel: int, host: Host, config: Any) -> None:
        """Loops with asynchronous bodies are correct with 1 and with 10 parallel iterations."""
        self._needs_control_flow()
        graph = Graph(ops=host.ops)
        with graph.as_default():
            n = graph.placeholder("int32", [], name="n")
            _, total = while_loop(
                lambda i, _: math.less(i, n),
                lambda i, t: (i + 1, t + _probe(graph, "Later", i * i, seed=4)),
                [0, 0],
                parallel_iterations=parallel,
            )
        with Session(graph=graph, host=host, config=config) as session:
            result = within(lambda: session.run(total, {n: 20}), "a loop that waits")
        assert result == sum(i * i for i in range(20))

    @clauses("E1")
    def test_unsupported_graph_is_refused(self, host: Host, config: Any) -> None:
        """An executor without control flow refuses the graph before the step and names a node."""
        if self.runs_control_flow:
            pytest.skip("the executor runs control flow")
        graph = Graph(ops=host.ops)
        with graph.as_default():
            p = graph.placeholder("bool", [], name="p")
            y = cond(p, lambda: graph.constant(1.0), lambda: graph.constant(2.0))
        refusals = (errors.UnimplementedError, errors.InvalidArgumentError)
        with (
            Session(graph=graph, host=host, config=config) as session,
            pytest.raises(refusals) as caught,
        ):
            within(lambda: session.run(y, {p: True}), "a step that is refused")
        assert caught.value.node

    # ------------------------------------------------------------------ errors, cancellation

    @clauses("E8", "S12")
    def test_first_error_names_the_node(self, host: Host, config: Any) -> None:
        """An error has node, op and device, and the session remains usable."""
        graph = Graph(ops=host.ops)
        with graph.as_default():
            x = graph.placeholder("float32", [], name="x")
            y = _probe(graph, "Fail", x, name="culprit") + 1.0
            z = x * 2.0
        with Session(graph=graph, host=host, config=config) as session:
            with pytest.raises(errors.DataLossError, match="lost it") as caught:
                within(lambda: session.run(y, {x: 1.0}), "a step that fails")
            assert (caught.value.node, caught.value.op_type) == ("culprit", "Probe>Fail")
            assert "CPU:0" in str(caught.value.device)
            assert session.run(z, {x: 2.0}) == 4.0

    @clauses("E8", "E13")
    def test_error_cancels_waiting_kernels(
        self, host: Host, config: Any, probe_ops: ProbeOps
    ) -> None:
        """The first error cancels waiting kernels; the step ends after the last of them."""
        if not self.runs_transfers:
            pytest.skip("the executor runs kernels one after the other")
        graph = Graph(ops=host.ops)
        with graph.as_default():
            x = graph.placeholder("float32", [], name="x")
            waits = [_probe(graph, "Wait", x, name=f"wait{i}") for i in range(3)]
            fails = _probe(graph, "Fail", _probe(graph, "Later", x, seed=1), name="culprit")
            y = math.add_n([*waits, fails])
        with (
            Session(graph=graph, host=host, config=config) as session,
            pytest.raises(errors.DataLossError) as caught,
        ):
            within(lambda: session.run(y, {x: 1.0}), "a step with waiting kernels that fails")
        assert caught.value.node == "culprit"
        assert probe_ops.waiting == 0

    @clauses("E13", "S6")
    def test_a_deadline_ends_a_step(self, host: Host, config: Any, probe_ops: ProbeOps) -> None:
        """A waiting step ends at its deadline with DEADLINE_EXCEEDED; the next step works."""
        graph, x, y, z = _waiting(host)
        options = proto.RunOptions(timeout_in_ms=50)
        with Session(graph=graph, host=host, config=config) as session:
            with pytest.raises(errors.DeadlineExceededError) as caught:
                within(
                    lambda: session.run(y, {x: 1.0}, options=options), "a step beyond its deadline"
                )
            assert "`done` was not called" not in str(caught.value), "the session had to end it"
            assert session.run(z, {x: 2.0}) == 4.0
        assert probe_ops.waiting == 0

    @clauses("E13", "S11")
    def test_closing_the_session_wakes_a_step(
        self, host: Host, config: Any, probe_ops: ProbeOps
    ) -> None:
        """Closing the session ends a waiting step with CANCELLED."""
        graph, x, y, _ = _waiting(host)
        session = Session(graph=graph, host=host, config=config)
        outcome: list[BaseException] = []

        def step() -> None:
            try:
                session.run(y, {x: 1.0})
            except errors.OpError as error:
                outcome.append(error)

        thread = threading.Thread(target=step, daemon=True)
        thread.start()
        assert probe_ops.has_begun.wait(30)
        within(session.close, "closing a session whose step waits")
        within(thread.join, "a step whose session was closed")
        assert isinstance(outcome[0], errors.CancelledError)

    # ----------------------------------------------------------- transfers and partial runs

    @clauses("E9", "R1", "P3")
    def test_partitions_run_together(self, seed: int, host: Host, config: Any) -> None:
        """Results of a graph on three devices equal those of the reference evaluator."""
        self._needs_transfers()
        sample = random_graph(seed, host.ops)
        expected = ReferenceSession(sample.graph_def, host).run(sample.fetches, sample.feeds)
        config.device_count["CPU"] = 3
        for index, node in enumerate(sample.graph_def.node):
            node.device = f"/device:CPU:{(index * 7 + seed) % 3}"
        with Session(graph=sample.graph_def, host=host, config=config) as session:
            fetches = list(sample.fetches)
            actual = within(
                lambda: session.run(fetches, sample.feeds), f"{sample.name} on 3 devices"
            )
        _check_same(sample.name, fetches, expected, actual)

    @clauses("E7", "E9", "P3")
    def test_a_loop_crosses_devices(self, host: Host, config: Any) -> None:
        """A loop with its body on another device is correct, also with a trip count of 0."""
        self._needs_transfers()
        self._needs_control_flow()
        config.device_count["CPU"] = 2
        graph = Graph(ops=host.ops)

        def body(i: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
            with graph.device("/device:CPU:1"):
                doubled = t * 2.0
            return i + 1, doubled

        with graph.as_default(), graph.device("/device:CPU:0"):
            n = graph.placeholder("int32", [], name="n")
            _, total = while_loop(lambda i, _: math.less(i, n), body, [0, 1.0])
        with Session(graph=graph, host=host, config=config) as session:
            for trips in (6, 0):
                step = "a loop on two devices"
                result = within(lambda: session.run(total, {n: trips}), step)  # noqa: B023
                assert result == 2.0**trips

    @clauses("S8")
    def test_partial_runs_return_results_piece_by_piece(self, host: Host, config: Any) -> None:
        """A partial run returns each result as soon as its feeds are given."""
        self._needs_transfers()
        graph = Graph(ops=host.ops)
        with graph.as_default():
            a = graph.placeholder("float32", [], name="a")
            b = graph.placeholder("float32", [], name="b")
            first = a * 2.0
            second = first + b
        with Session(graph=graph, host=host, config=config) as session:
            handles = [session.partial_run_setup([first, second], [a, b]) for _ in range(2)]
            for offset, handle in enumerate(handles):
                result = within(
                    lambda: session.partial_run(handle, first, {a: 1.0 + offset}),  # noqa: B023
                    "the first half of a partial run",
                )
                assert result == 2.0 * (1 + offset)
            for offset, handle in enumerate(handles):
                result = within(
                    lambda: session.partial_run(handle, second, {b: 10.0}),  # noqa: B023
                    "the second half of a partial run",
                )
                assert result == 2.0 * (1 + offset) + 10

    @clauses("E12")
    def test_statistics_name_the_nodes(self, host: Host, config: Any) -> None:
        """A traced step records when each node ran."""
        graph = Graph(ops=host.ops)
        with graph.as_default():
            x = graph.placeholder("float32", [], name="x")
            y = math.mul(x, x, name="squared")
        options = proto.RunOptions(trace_level=proto.RunOptions.FULL_TRACE)
        metadata = proto.RunMetadata()
        with Session(graph=graph, host=host, config=config) as session:
            session.run(y, {x: 3.0}, options=options, run_metadata=metadata)
        ran = {n.node_name for d in metadata.step_stats.dev_stats for n in d.node_stats}
        if not ran:
            pytest.skip("the executor collects no statistics")
        assert "squared" in ran

    def _needs_control_flow(self) -> None:
        if not self.runs_control_flow:
            pytest.skip("the executor does not run control flow v1")

    def _needs_transfers(self) -> None:
        if not self.runs_transfers:
            pytest.skip("the executor does not receive from other partitions")


def _probe(graph: Graph, op: str, x: Tensor, name: str | None = None, **attrs: Any) -> Tensor:
    node = graph.create_op(f"Probe>{op}", [x], attrs, name=name)
    return graph.outputs_of(node)[0]


def _waiting(host: Host) -> tuple[Graph, Tensor, Tensor, Tensor]:
    """Return a graph, its input, a result that waits forever, and one that does not."""
    graph = Graph(ops=host.ops)
    with graph.as_default():
        x = graph.placeholder("float32", [], name="x")
        y = _probe(graph, "Wait", x, name="wait") + 1.0
        z = x * 2.0
    return graph, x, y, z


def _check_same(name: str, fetches: list[str], expected: Any, actual: Any) -> None:
    for fetch, expected_value, actual_value in zip(fetches, expected, actual, strict=True):
        where = f"{name}, {fetch}"
        assert np.asarray(actual_value).dtype == np.asarray(expected_value).dtype, where
        np.testing.assert_allclose(
            actual_value, expected_value, rtol=1e-5, atol=1e-6, err_msg=where
        )
