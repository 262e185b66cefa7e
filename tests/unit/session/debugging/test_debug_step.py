"""`Session.debug_step`: a step that a driver drives node by node, with the session's state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import graphmill
from graphmill import errors, ops
from graphmill.runtime.session_interface import SessionInterface
from graphmill.runtime.stepping import StepDriver

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.errors import OpError
    from graphmill.runtime.stepping import NodeInstance, SteppableRun
    from graphmill.session.debugging.debug_step import DebugStep


class Driver(StepDriver):
    """Drives a step to its end; the latest run with a ready node goes first."""

    def __init__(self) -> None:
        self.step: DebugStep
        self.runs: list[SteppableRun] = []
        self.started: list[SteppableRun] = []
        self.done: list[tuple[str, str, bool]] = []
        self.failed: list[tuple[str, int]] = []

    def run_started(self, run: SteppableRun) -> None:
        self.runs.append(run)
        self.started.append(run)

    def node_done(self, run: SteppableRun, instance: NodeInstance, outputs: Sequence[Any]) -> None:
        self.done.append((instance.node.name, instance.iteration, instance.is_dead))

    def node_failed(self, run: SteppableRun, instance: NodeInstance, error: OpError) -> None:
        self.failed.append((instance.node.name, len(instance.inputs)))

    def run_ended(self, run: SteppableRun, error: OpError | None) -> None:
        assert run.has_ended
        self.runs.remove(run)

    def next_run(self) -> SteppableRun | None:
        while self.step.run_posted():
            pass
        return next((run for run in reversed(self.runs) if run.next_ready() is not None), None)

    def advance(self) -> bool:
        run = self.next_run()
        if run is not None:
            self.step.run_next(run)
            return True
        return not self.step.is_done and self.step.run_posted(is_idle=True)

    def finish(self) -> None:
        while self.advance():
            pass


def drive(session: graphmill.Session, *args: Any, **options: Any) -> tuple[Any, Driver]:
    driver = Driver()
    driver.step, rebuild = session.debug_step(driver, *args, **options)
    driver.step.start()
    driver.finish()
    return rebuild(driver.step.results()), driver


@pytest.fixture
def graph() -> graphmill.Graph:
    return graphmill.Graph()


def counting_loop(limit: int = 3) -> list[Any]:
    def body(i: Any, a: Any) -> list[Any]:
        return [i + 1, a * 2.0]

    start = graphmill.get_default_graph().placeholder("float32", [], name="x")
    return graphmill.while_loop(lambda i, _: i < limit, body, [0, start])


def test_a_driven_loop_returns_the_values_of_an_ordinary_step(graph: graphmill.Graph) -> None:
    with graph.as_default():
        results = counting_loop()
    with graphmill.Session(graph=graph) as session:
        values, driver = drive(session, results, {"x:0": 1.5})
        assert values == session.run(results, {"x:0": 1.5}) == [3, 12.0]
    names = [name for name, _, _ in driver.done]
    assert names.count("while/Merge") == 4
    assert ("while/add", "while/while_context:3", True) in driver.done


def test_iterations_are_processed_one_after_the_other(graph: graphmill.Graph) -> None:
    with graph.as_default():
        results = counting_loop()
    with graphmill.Session(graph=graph) as session:
        _, driver = drive(session, results, {"x:0": 1.5})
    numbers = [int(iteration[-1]) for _, iteration, _ in driver.done if iteration]
    assert numbers == sorted(numbers)


def test_a_suspended_run_shows_its_state(graph: graphmill.Graph) -> None:
    with graph.as_default():
        results = counting_loop()
    with graphmill.Session(graph=graph) as session:
        driver = Driver()
        driver.step, _ = session.debug_step(driver, results, {"x:0": 1.5})
        driver.step.start()
        (run,) = driver.runs
        while run.next_ready().node.name != "while/mul":  # type: ignore[union-attr]
            driver.advance()
        ready = run.next_ready()
        assert ready is not None
        assert ready.iteration == "while/while_context:0"
        assert ready.inputs == (1.5, 2.0)
        assert run.ready()[0] == ready
        (frame,) = run.frames()
        assert frame.name == "while/while_context"
        assert frame.awaited_enters == 0
        counts = {(count.node.name, count.iteration): count for count in run.pending()}
        assert counts["while/NextIteration_1", "while/while_context:0"].pending == 1
        assert {node.name for node in run.constants()} == {"while/Const"}
        driver.finish()


def test_variables_and_random_state_are_those_of_the_session(graph: graphmill.Graph) -> None:
    with graph.as_default():
        variable = graphmill.Variable(np.float32(1.0), name="v")
        add = variable.assign_add(1.0)
        uniform = ops.random.random_uniform([2], dtype="float32", seed=1, seed2=2)
    with graphmill.Session(graph=graph) as a, graphmill.Session(graph=graph) as b:
        for session in (a, b):
            session.run(variable.initializer)
        drawn = [drive(a, uniform)[0], a.run(uniform), drive(a, uniform)[0]]
        np.testing.assert_array_equal(drawn, [b.run(uniform) for _ in range(3)])
        drive(a, add)
        assert a.run(variable) == 2.0


def test_calls_of_functions_are_driven_and_name_their_caller() -> None:
    source = """
    node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } }
    node { name: "p" op: "Placeholder" attr { key: "dtype" value { type: DT_BOOL } } }
    node { name: "choice" op: "StatelessIf" input: "p" input: "x"
      attr { key: "Tcond" value { type: DT_BOOL } }
      attr { key: "Tin" value { list { type: DT_FLOAT } } }
      attr { key: "Tout" value { list { type: DT_FLOAT } } }
      attr { key: "then_branch" value { func { name: "double" } } }
      attr { key: "else_branch" value { func { name: "double" } } } }
    library { function {
      signature { name: "double" input_arg { name: "a" type: DT_FLOAT }
        output_arg { name: "b" type: DT_FLOAT } }
      node_def { name: "sum" op: "AddV2" input: "a" input: "a"
        attr { key: "T" value { type: DT_FLOAT } } }
      ret { key: "b" value: "sum:z:0" } } }
    """
    from google.protobuf import text_format

    graph_def = text_format.Parse(source, graphmill.GraphDef())
    with graphmill.Session(graph=graph_def) as session:
        feeds = {"x:0": 3.0, "p:0": True}
        value, driver = drive(session, "choice:0", feeds)
        assert value == session.run("choice:0", feeds) == 6.0
    _, call = driver.started
    assert call.caller is not None
    assert (call.caller.node.name, call.caller.run) == ("choice", driver.started[0])
    assert ("sum", "", False) in driver.done


def test_a_failure_is_reported_with_its_inputs_and_ends_the_step(graph: graphmill.Graph) -> None:
    with graph.as_default():
        x = graph.placeholder("float32", name="x")
        y = ops.array.reshape(x, [3], name="y")
    with graphmill.Session(graph=graph) as session:
        driver = Driver()
        driver.step, _ = session.debug_step(driver, y, {x: [1.0, 2.0]})
        with pytest.raises(errors.FailedPreconditionError, match="has not ended"):
            driver.step.results()
        driver.step.start()
        driver.finish()
        assert driver.failed == [("y", 2)]
        with pytest.raises(errors.InvalidArgumentError, match="'y'"):
            driver.step.results()
        assert session.run(x, {x: 1.0}) == 1.0


def queue_graph(graph: graphmill.Graph) -> None:
    with graph.as_default():
        queue = ops.data_flow.fifo_queue_v2(component_types=["float32"], name="queue")
        value = graph.placeholder("float32", [], name="value")
        ops.data_flow.queue_enqueue_v2(queue, [value], name="put")
        ops.data_flow.queue_dequeue_v2(queue, component_types=["float32"], name="take")


def test_a_waiting_step_is_suspended_and_continues(graph: graphmill.Graph) -> None:
    queue_graph(graph)
    with graphmill.Session(graph=graph) as session:
        driver = Driver()
        driver.step, rebuild = session.debug_step(driver, "take:0")
        driver.step.start()
        driver.finish()
        (run,) = driver.runs
        assert [instance.node.name for instance in run.in_flight()] == ["take"]
        (wait,) = driver.step.waits()
        assert "'put' (QueueEnqueueV2)" in str(wait)
        session.run("put", {"value:0": 4.0})
        driver.finish()
        assert rebuild(driver.step.results()) == 4.0


def test_cancelled_step_reports_its_waits(graph: graphmill.Graph) -> None:
    queue_graph(graph)
    with graphmill.Session(graph=graph) as session:
        driver = Driver()
        driver.step, _ = session.debug_step(driver, "take:0")
        driver.step.start()
        driver.finish()
        driver.step.cancel()
        driver.step.drain()
        with pytest.raises(errors.CancelledError, match=r"the debugger ended.*'take'"):
            driver.step.results()


def test_a_partial_run_is_fed_while_it_is_suspended(graph: graphmill.Graph) -> None:
    with graph.as_default():
        a = graph.placeholder("float32", [], name="a")
        b = graph.placeholder("float32", [], name="b")
        first = ops.math.neg(a, name="first")
        second = ops.math.add(first, b, name="second")
    with graphmill.Session(graph=graph) as session:
        driver = Driver()
        driver.step, rebuild = session.debug_step(driver, [first, second], partial_feeds=[a, b])
        driver.step.start()
        driver.finish()
        driver.step.feed("a:0", 2.0)
        driver.finish()
        assert "first" in [name for name, _, _ in driver.done]
        assert not driver.step.is_done
        driver.step.feed("b:0", 5.0)
        driver.finish()
        assert rebuild(driver.step.results()) == [-2.0, 3.0]


def test_several_devices_are_driven(graph: graphmill.Graph) -> None:
    with graph.as_default():
        x = graph.placeholder("float32", [], name="x")
        with graph.device("/device:CPU:1"):
            y = ops.math.neg(x, name="y")
        with graph.device("/device:CPU:0"):
            z = ops.math.neg(y, name="z")
    with graphmill.Session(graph=graph, config={"deviceCount": {"CPU": 2}}) as session:
        value, driver = drive(session, z, {x: 2.0})
        assert value == 2.0
    assert len(driver.started) == 2


def test_a_remote_session_refuses() -> None:
    with pytest.raises(errors.UnimplementedError, match="int cannot be debugged"):
        SessionInterface.debug_step(1, ((), (), ()), {}, Driver())  # type: ignore[arg-type]
