"""The state machine of the hot graph: random events, invariants, plugin faults."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import graphmill
from graphmill import proto
from graphmill.errors import InternalError, UnimplementedError
from graphmill.explain import explain_all
from graphmill.graph.functions.function_library import FunctionLibrary
from graphmill.lowering.plugin_faults import PluginFaultError
from graphmill.ops.definition.op_def import OpDef
from graphmill.ops.definition.op_traits import ControlFlow, OpTraits
from graphmill.plugin.fault_warnings import FaultWarnings
from graphmill.plugin.pass_registry import HOT, HOT_PLACEMENT
from graphmill.registry import PluginWarning
from graphmill.runtime.checks.validation import VALIDATE_VARIABLE
from graphmill.session.executors_cache import ExecutorsAndKeys
from graphmill.session.hot_states import EXPLAINED, HOT_TRANSITIONS, HotEvent, HotGraph, HotState
from graphmill.session.hot_steps import HotSteps, validate_hot
from graphmill.testing.differential.pass_bisection import pass_names, without_passes
from graphmill_plugins.default_executor.executor import DefaultExecutorFactory

FIRST, SECOND = ("first",), ("second",)


class Background:
    def __init__(self) -> None:
        self.jobs: list[Any] = []
        self.takes_jobs = True

    def submit(self, owner: object, job: Any, description: str) -> bool:
        del owner, description
        if self.takes_jobs:
            self.jobs.append(job)
        return self.takes_jobs

    def wait_idle(self) -> None:
        """Keep the jobs queued, as if the thread could not be started."""


class RandomEvents:
    """Runs steps of a signature, and requests and builds its hot graph, in random order."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.background = Background()
        self.error: Exception | None = None
        host = SimpleNamespace(
            background=self.background,
            fault_warnings=FaultWarnings(),
            passes=SimpleNamespace(scheduled_in=lambda _: [("a_pass", None)]),
        )
        session = SimpleNamespace(host=host, is_closed=False, hot_partitions=self.built)
        config = proto.ConfigProto()
        config.graphmill.jit = self.random.choice(["off", "tiered", "tiered", "tiered"])
        config.graphmill.jit_after_steps = self.random.choice([1, 2, 5])
        config.graphmill.deterministic = self.random.random() < 0.2
        self.hot_steps = HotSteps(session, config, DefaultExecutorFactory())  # type: ignore[arg-type]
        self.executors = ExecutorsAndKeys(FIRST, (), ("y:0",), (), (), (), ())  # type: ignore[arg-type]
        self.executors.items = self.executors.serving = ()

    def built(self, *_: Any) -> Any:
        if self.error is not None:
            raise self.error
        return SECOND

    def play(self) -> None:
        """Send one event."""
        if self.executors.hot.state is HotState.COLD:
            self.hot_steps.prepare(self.executors)
            return
        events = [self.step, self.work, self.ask, self.jobs, self.fault, self.fork]
        (event,) = self.random.choices(events, [50, 20, 5, 5, 20, 5])
        event()

    def step(self) -> None:
        executors = self.executors
        executors.step_count += 1
        if executors.step_count >= executors.build_at:
            self.hot_steps.build_later(executors)

    def work(self) -> None:
        if self.background.jobs:
            self.background.jobs.pop(0)()

    def ask(self) -> None:
        self.hot_steps.build_for(self.executors)

    def jobs(self) -> None:
        self.background.takes_jobs = not self.background.takes_jobs

    def fork(self) -> None:
        """Continue in a forked child, which has no background thread."""
        if self.executors.hot.state is HotState.QUEUED and self.random.random() < 0.5:
            self.hot_steps._send(self.executors, HotEvent.BUILD_STARTED)
        self.background.jobs.clear()
        self.hot_steps.after_fork_in_child(self.executors)

    def fault(self) -> None:
        self.error = self.random.choice(
            [None, UnimplementedError("no such op"), PluginFaultError("a fault", plugin="p")]
        )


@pytest.mark.filterwarnings("ignore::graphmill.registry.PluginWarning")
@given(seed=st.integers(0, 2**32))
def test_invariants_hold_after_any_events(seed: int) -> None:
    events = RandomEvents(seed)
    for _ in range(40):
        events.play()
        validate_hot(events.executors, events.hot_steps.after_steps)


@pytest.mark.filterwarnings("ignore::graphmill.registry.PluginWarning")
def test_random_events_use_every_row_of_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    used: set[tuple[HotState, HotEvent]] = set()
    send = HotGraph.send

    def note(self: HotGraph, event: HotEvent, cause: str = "") -> Any:
        used.add((self.state, event))
        return send(self, event, cause)

    monkeypatch.setenv(VALIDATE_VARIABLE, "1")
    monkeypatch.setattr(HotGraph, "send", note)
    for seed in range(200):
        events = RandomEvents(seed)
        for _ in range(40):
            events.play()
    assert used == set(HOT_TRANSITIONS)


def test_every_state_can_be_reached_and_every_event_is_used() -> None:
    assert {HotState.COLD, *(after for after, _ in HOT_TRANSITIONS.values())} == set(HotState)
    assert {event for _, event in HOT_TRANSITIONS} == set(HotEvent)


def test_final_states_are_hot_or_explained() -> None:
    final = set(HotState) - {state for state, _ in HOT_TRANSITIONS}
    assert final == {HotState.HOT, *EXPLAINED}


def test_two_threads_that_see_the_same_step_submit_one_job() -> None:
    events = RandomEvents(0)
    events.hot_steps.after_steps = 1
    events.hot_steps._send(events.executors, HotEvent.ELIGIBLE)
    for _ in range(2):
        events.hot_steps.build_later(events.executors)
    assert len(events.background.jobs) == 1


V1 = OpDef("Mine>Enter", traits=OpTraits(control_flow=ControlFlow.ENTER))
FUNCTIONAL = graphmill.default_host().ops.get("While")
PLAIN = graphmill.default_host().ops.get("NoOp")


def state_of_new_graph(
    op_def: OpDef, num_nodes: int, num_function_nodes: int = 0, *, is_expensive: bool = False
) -> tuple[HotState, set[Any]]:
    """Return the state of a graph of equal nodes, and for which devices kernels were found."""
    devices = set()

    def try_find(op_def: Any, attrs: Any, device_type: str, backends: Any) -> Any:
        del op_def, attrs
        devices.add((device_type, backends))
        return SimpleNamespace(definition=SimpleNamespace(expensive=is_expensive))

    events = RandomEvents(0)
    events.hot_steps.after_steps = 3
    events.hot_steps._session.host.kernels = SimpleNamespace(try_find=try_find)  # type: ignore[assignment]
    library = FunctionLibrary()
    if num_function_nodes:
        nodes = [{"name": f"n{i}", "op": "NoOp"} for i in range(num_function_nodes)]
        library.add(proto.FunctionDef(signature={"name": "f"}, node_def=nodes))
    nodes = [SimpleNamespace(op_def=op_def, attrs={}) for _ in range(num_nodes)]
    graph = SimpleNamespace(nodes=nodes, library=library)
    device = SimpleNamespace(device_type="NPU", backends=("mine",))
    item = SimpleNamespace(graph=graph, device=device)
    events.executors.items = events.executors.serving = (item,)  # type: ignore[assignment]
    events.hot_steps.prepare(events.executors)
    return events.executors.hot.state, devices


@pytest.mark.parametrize("loop", [V1, FUNCTIONAL])
@pytest.mark.parametrize("is_expensive", [False, True])
def test_small_graphs_with_loops_are_rebuilt_at_once(loop: OpDef, is_expensive: bool) -> None:
    """V1 loops are recognized by the traits of an op that TensorFlow lacks."""
    assert state_of_new_graph(loop, 500, is_expensive=is_expensive)[0] is HotState.HOT


def test_graphs_without_loops_are_counted() -> None:
    assert state_of_new_graph(PLAIN, 5)[0] is HotState.COUNTING


def test_larger_graphs_are_rebuilt_at_once_without_expensive_nodes_on_their_device() -> None:
    devices = {("NPU", ("mine",))}
    assert state_of_new_graph(V1, 2000) == (HotState.HOT, devices)
    assert state_of_new_graph(V1, 2000, is_expensive=True) == (HotState.COUNTING, devices)
    assert state_of_new_graph(V1, 2001)[0] is HotState.COUNTING


def test_nodes_of_functions_count() -> None:
    assert state_of_new_graph(FUNCTIONAL, 100, 400)[0] is HotState.HOT
    assert state_of_new_graph(FUNCTIONAL, 100, 401)[0] is HotState.COUNTING


# ------------------------------------------------------------------------------ faults of plugins


class FaultyPass:
    """A plugin whose pass raises during the rebuild of a graph."""

    def __init__(self, phase: str, error: BaseException) -> None:
        self.phase, self.error = phase, error
        self.num_calls = 0

    @graphmill.hookimpl
    def graphmill_register_passes(self, passes: Any) -> None:
        passes.add("faulty", self._run, phase=self.phase)
        passes.add("harmless", lambda graph, options: None, phase=HOT)

    def _run(self, graph: Any, options: Any) -> None:
        del graph, options
        self.num_calls += 1
        raise self.error


def session(plugin: FaultyPass, make_host: Any, mode: str) -> graphmill.Session:
    host = make_host(plugin)
    host = without_passes(host, [name for name in pass_names(host) if "jit" in name])
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [], name="x")
        graphmill.ops.math.neg(x, name="y")
        graphmill.ops.math.exp(x, name="z")
    return graphmill.Session(graph=graph, config={"graphmill": {"jit": mode}}, host=host)


def run(made: graphmill.Session, steps: int) -> None:
    for _ in range(steps):
        assert made.run("y:0", {"x:0": 2}) == -2
        made._impl.host.background.wait_idle()


def run_two_graphs(made: graphmill.Session) -> None:
    run(made, 8)
    made.run("z:0", {"x:0": 0})


@pytest.mark.parametrize("phase", [HOT, HOT_PLACEMENT])
def test_a_plugin_whose_pass_raises_leaves_steps_interpreted(phase: str, make_host: Any) -> None:
    plugin = FaultyPass(phase, ValueError("the pass's own bug"))
    with session(plugin, make_host, "tiered") as made:
        with pytest.warns(PluginWarning, match="the pass's own bug") as warnings:
            run_two_graphs(made)
        first, *_ = explain_all(made)
    assert len([one for one in warnings if one.category is PluginWarning]) == 1
    assert "'faulty'" in first.reason
    assert "FaultyPass" in first.reason
    assert "ValueError: the pass's own bug" in first.reason
    assert first.num_interpreted == 8
    assert plugin.num_calls == 1
    assert "building -> failed (plugin raised)" in str(first.history)


@pytest.mark.parametrize("phase", [HOT, HOT_PLACEMENT])
def test_a_plugin_whose_pass_raises_fails_each_step_of_an_eager_session(
    phase: str, make_host: Any
) -> None:
    plugin = FaultyPass(phase, ValueError("the pass's own bug"))
    with session(plugin, make_host, "eager") as made:
        for number in (1, 2):
            with pytest.raises(
                InternalError, match=r"'faulty' of .*FaultyPass.*ValueError: the pass's own bug"
            ) as caught:
                made.run("y:0", {"x:0": 2})
            assert caught.value.plugin
            assert plugin.num_calls == number


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3)], ids=lambda e: repr(e))
def test_interrupt_of_a_pass_reaches_the_caller(error: BaseException, make_host: Any) -> None:
    with (
        session(FaultyPass(HOT, error), make_host, "eager") as made,
        pytest.raises(type(error)),
    ):
        made.run("y:0", {"x:0": 2})


def test_our_own_internal_errors_surface_in_validation_mode(
    make_host: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VALIDATE_VARIABLE, "1")
    plugin = FaultyPass(HOT, InternalError("a broken invariant"))
    with session(plugin, make_host, "tiered") as made:
        made._impl.hot_steps.after_steps = 0  # build it in this thread
        with pytest.raises(InternalError, match="a broken invariant"):
            made.run("y:0", {"x:0": 2})


def test_history_lists_steps_to_hot_state(make_host: Any) -> None:
    plugin = FaultyPass("POST_PLACEMENT", ValueError())
    plugin._run = lambda graph, options: None  # type: ignore[method-assign]
    with session(plugin, make_host, "tiered") as made:
        run(made, 4)
        (record,) = explain_all(made)
    assert record.history.lines() == [
        "the graph: cold -> counting (eligible)",
        "the graph: counting -> queued (ran often)",
        "the graph: queued -> building (build started)",
        "the graph: building -> hot (built)",
    ]
