"""Running graph passes (clause P4)."""

from __future__ import annotations

from typing import Any

import pytest

from graphmill import errors, proto
from graphmill.graph.graph import Graph
from graphmill.lowering.passes import DISABLE_VARIABLE, PassOptions, check_needed, run_passes
from graphmill.ops.definition.op_registry import OpRegistry
from graphmill.plugin.host import Host
from graphmill.plugin.markers import hookimpl
from graphmill.runtime.checks.validation import VALIDATE_VARIABLE


class Passes:
    """A plugin with passes that record their order."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.error: BaseException | None = None

    @hookimpl
    def graphmill_register_passes(self, passes: Any) -> None:
        def note(name: str) -> Any:
            return lambda graph, options: self.log.append(name)

        passes.add("late", note("late"), phase="POST_PLACEMENT", order=5)
        passes.add("b", note("b"), phase="POST_PLACEMENT")
        passes.add("a", note("a"), phase="POST_PLACEMENT")
        passes.add("early", note("early"), phase="POST_PLACEMENT", order=-5)
        passes.add("elsewhere", note("elsewhere"), phase="POST_PARTITIONING")
        passes.add("fails", self.fail, phase="POST_REWRITE_FOR_EXEC")

    def fail(self, graph: Any, options: Any) -> None:
        if self.error is not None:
            raise self.error


@pytest.fixture
def plugin() -> Passes:
    return Passes()


@pytest.fixture
def run(plugin: Passes) -> Any:
    host = Host(plugins=[plugin], load_entry_points=False)

    def run_phase(phase: str, forbidden: Any = ()) -> list[str]:
        options = PassOptions(proto.ConfigProto(), None, host, frozenset(forbidden))  # type: ignore[arg-type]
        run_passes(phase, Graph(), options)
        return plugin.log

    return run_phase


def test_p4_the_passes_of_a_phase_run_in_their_order(run: Any) -> None:
    assert run("POST_PLACEMENT") == ["early", "a", "b", "late"]


def test_p4_passes_can_be_switched_off(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DISABLE_VARIABLE, "b,early")
    assert run("POST_PLACEMENT", forbidden=["late"]) == ["a"]


class Conditional:
    """A plugin with a conditional pass whose module does not exist."""

    def __init__(self, applies: Any) -> None:
        self.applies = applies

    @hookimpl
    def graphmill_register_passes(self, passes: Any) -> None:
        passes.add("picky", "no_such_module:run", phase="POST_PLACEMENT", applies=self.applies)


def run_conditional(applies: Any) -> None:
    host = Host(plugins=[Conditional(applies)], load_entry_points=False)
    run_passes("POST_PLACEMENT", Graph(), PassOptions(proto.ConfigProto(), None, host))  # type: ignore[arg-type]


def test_a_pass_is_imported_only_where_it_applies() -> None:
    seen = []

    def applies(graph: Any, options: PassOptions) -> bool:
        seen.append((len(graph.nodes), options.host.passes.keys()))
        return len(seen) > 1

    run_conditional(applies)
    assert len(seen) == 1
    with pytest.raises(errors.OpError, match="no_such_module"):
        run_conditional(applies)


def test_p4_a_condition_that_raises_names_its_pass(run: Any) -> None:
    def applies(graph: Any, options: PassOptions) -> bool:
        raise ValueError("no idea")

    with pytest.raises(errors.InternalError, match=r"'picky'.*ValueError: no idea"):
        run_conditional(applies)


def test_a_pass_reads_the_settings_of_its_plugin() -> None:
    config = proto.ConfigProto()
    entry = config.graph_options.rewrite_options.custom_optimizers.add(name="mine")
    entry.parameter_map["limit"].i = 3
    entry.parameter_map["mode"].s = b"fast"
    seen = []

    class Plugin:
        @hookimpl
        def graphmill_register_passes(self, passes: Any) -> None:
            def look(_graph: Any, options: PassOptions) -> None:
                seen.extend([options.settings("mine"), options.settings("yours")])

            passes.add("look", look, phase="POST_PLACEMENT")

    host = Host(plugins=[Plugin()], load_entry_points=False)
    run_passes("POST_PLACEMENT", Graph(), PassOptions(config, None, host))  # type: ignore[arg-type]
    assert seen == [{"limit": 3, "mode": "fast"}, {}]


def test_p4_status_error_of_a_pass_is_unchanged(run: Any, plugin: Passes) -> None:
    plugin.error = errors.InvalidArgumentError("bad graph", node="n")
    with pytest.raises(errors.InvalidArgumentError) as caught:
        run("POST_REWRITE_FOR_EXEC")
    assert caught.value is plugin.error
    assert "Passes" in caught.value.plugin


def test_p4_any_other_error_names_pass_phase_and_plugin(run: Any, plugin: Passes) -> None:
    plugin.error = KeyError("oops")
    with pytest.raises(errors.InternalError) as caught:
        run("POST_REWRITE_FOR_EXEC")
    text = caught.value.message
    assert "the graph pass 'fails' of plugin" in text
    assert "failed in phase POST_REWRITE_FOR_EXEC: KeyError: 'oops'" in text
    assert caught.value.__cause__ is plugin.error


def test_e1_missing_pass_of_an_executor_is_an_error(
    plugin: Passes, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = Host(plugins=[plugin], load_entry_points=False)

    class Factory:
        needs_passes = ("a", "b")

    check_needed(Factory, "MINE", host)  # type: ignore[arg-type]
    monkeypatch.setenv(DISABLE_VARIABLE, "b")
    with pytest.raises(
        errors.FailedPreconditionError, match="'MINE' needs the graph pass 'b', whi"
    ):
        check_needed(Factory, "MINE", host)  # type: ignore[arg-type]
    Factory.needs_passes = ("a", "c")
    with pytest.raises(
        errors.FailedPreconditionError, match="'c', which is not registered; passes"
    ):
        check_needed(Factory, "MINE", host)  # type: ignore[arg-type]


class Adds:
    """A plugin with a pass that adds a node, with a device or without one."""

    def __init__(self, device: str) -> None:
        self.device = device

    @hookimpl
    def graphmill_register_passes(self, passes: Any) -> None:
        def add(graph: Graph, options: PassOptions) -> None:
            graph.add_node("new", OpRegistry().get("NoOp")).assigned_device = self.device

        passes.add("adds", add, phase="POST_REWRITE_FOR_EXEC")


def run_adding(device: str, others: list[str]) -> None:
    graph = Graph()
    for index, other in enumerate(others):
        graph.add_node(f"old{index}", OpRegistry().get("NoOp")).assigned_device = other
    host = Host(plugins=[Adds(device)], load_entry_points=False)
    options = PassOptions(proto.ConfigProto(), None, host)  # type: ignore[arg-type]
    run_passes("POST_REWRITE_FOR_EXEC", graph, options)


def test_p4_a_node_added_without_a_device_is_refused_on_two_devices(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(VALIDATE_VARIABLE, raising=False)
    with pytest.raises(
        errors.InternalError, match=r"'adds' of .*set its assigned_device"
    ) as caught:
        run_adding("", ["CPU:0", "CPU:1"])
    assert caught.value.node == "new"
    run_adding("CPU:1", ["CPU:0", "CPU:1"])
    run_adding("", ["CPU:0"])
