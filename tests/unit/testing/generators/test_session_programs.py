"""The generator of programs of clients: its draws, its models, its shrinking."""

from __future__ import annotations

from dataclasses import replace

import pytest

from graphmill.testing.generators.dataflow_graphs import SeededChooser
from graphmill.testing.generators.session_programs.generate import KINDS, session_program
from graphmill.testing.generators.session_programs.program import (
    Close,
    Part,
    Pending,
    Program,
    Run,
    SetUp,
    Step,
    Value,
    Wrong,
)
from graphmill.testing.generators.session_programs.queues import Barrier, Queue
from graphmill.testing.generators.session_programs.resource import Outcome
from graphmill.testing.generators.session_programs.shrink import shrink
from graphmill.testing.generators.session_programs.simulation import (
    Simulation,
    is_defined,
    outcomes,
)
from graphmill.testing.generators.session_programs.staging import StagingArea

PROGRAMS = [session_program(seed) for seed in range(150)]


def test_program_of_a_seed_is_always_the_same() -> None:
    assert session_program(7).text() == PROGRAMS[7].text()
    assert session_program(8).text() != PROGRAMS[7].text()


def test_programs_are_defined_and_have_the_calls_asked_for() -> None:
    assert all(is_defined(program) for program in PROGRAMS)
    assert len(session_program(3, calls=30).calls) >= 30


def test_programs_have_all_kinds_of_resources_and_calls() -> None:
    kinds = {type(resource) for program in PROGRAMS for resource in program.resources}
    assert set(KINDS) <= kinds
    calls = {type(call) for program in PROGRAMS for call in program.calls}
    assert calls == {Run, Pending, Wrong, SetUp, Part, Close}
    found = {outcome for program in PROGRAMS for outcome in outcomes(program)}
    assert found == {Outcome.OK, Outcome.MAY_FAIL, Outcome.WAITS}


def test_graphs_of_programs_are_valid(graphmill_host) -> None:
    from graphmill.graph.builder import Graph

    for program in PROGRAMS[:40]:
        made = Graph.from_graph_def(program.graph_def(graphmill_host.ops), graphmill_host.ops)
        names = {node.name for node in made.nodes}
        steps = [step for c in program.calls if isinstance(c, Run) for step in c.steps]
        used = [name for s in steps for name in (*s.fetches, *s.targets, *dict(s.feeds))]
        assert {name.partition(":")[0] for name in used} <= names


def queue(capacity: int, kept: int = 0) -> Queue:
    made = Queue("q", SeededChooser(1))
    made.capacity, made.kept = capacity, kept
    return made


@pytest.mark.parametrize(
    ("events", "last"),
    [
        ([("get", 1)], Outcome.WAITS),
        ([("put", 2), ("put", 1)], Outcome.WAITS),
        ([("put", 2), ("put", 2)], Outcome.UNDEFINED),
        ([("put", 2), ("gets", 2), ("get", 1)], Outcome.WAITS),
        ([("put", 1), ("gets", 2)], Outcome.UNDEFINED),
        ([("close",), ("get", 1)], Outcome.MAY_FAIL),
        ([("put", 1), ("close",), ("upto", 2)], Outcome.OK),
        ([("put", 1), ("close",), ("gets", 2)], Outcome.MAY_FAIL),
        ([("close",), ("close",)], Outcome.MAY_FAIL),
        ([("close",), ("put", 1)], Outcome.MAY_FAIL),
    ],
)
def test_the_model_of_a_queue_predicts_outcomes(
    events: list[tuple[object, ...]], last: Outcome
) -> None:
    model = queue(2).model()
    *before, found = [model.apply(event) for event in events]
    assert all(outcome is Outcome.OK for outcome in before)
    assert found is last


def test_model_of_a_shuffling_queue_keeps_elements() -> None:
    model = queue(3, kept=1).model()
    assert model.apply(("put", 1)) is Outcome.OK
    assert model.apply(("get", 1)) is Outcome.WAITS
    assert model.apply(("close",)) is Outcome.OK
    assert model.apply(("get", 1)) is Outcome.OK


def test_model_of_a_barrier_counts_complete_elements() -> None:
    model = Barrier("b", SeededChooser(1)).model()
    assert model.apply(("insert", 0, b"a", b"b")) is Outcome.OK
    assert model.apply(("take", 1)) is Outcome.WAITS
    assert model.apply(("insert", 0, b"a")) is Outcome.MAY_FAIL
    assert model.apply(("insert", 1, b"b")) is Outcome.OK
    assert model.apply(("take", 1)) is Outcome.OK


def test_closed_barrier_is_cancelled_only_if_an_element_is_incomplete() -> None:
    """In TensorFlow, the step would otherwise never end."""
    model = Barrier("b", SeededChooser(1)).model()
    assert model.apply(("insert", 0, b"a")) is Outcome.OK
    assert model.apply(("close",)) is Outcome.OK
    assert model.copy().apply(("cancel",)) is Outcome.MAY_FAIL
    assert model.apply(("insert", 1, b"a")) is Outcome.OK
    assert model.apply(("cancel",)) is Outcome.UNDEFINED


def test_taking_nothing_from_a_closed_barrier_may_fail() -> None:
    model = Barrier("b", SeededChooser(1)).model()
    assert model.apply(("take", 0)) is Outcome.OK
    assert model.apply(("close",)) is Outcome.OK
    assert model.apply(("take", 0)) is Outcome.MAY_FAIL


def test_staging_area_does_not_time_out_and_waits_for_another_step() -> None:
    area = StagingArea("s", SeededChooser(1))
    get, put = Step("s", ("get",), ("s_get:0",)), Step("s", ("put",), (), ("s_put",))
    assert Simulation((area,)).outcome(Run((get,))) is Outcome.UNDEFINED
    assert Simulation((area,)).outcome(Pending(get, put)) is Outcome.OK
    assert Simulation((area,)).outcome(Pending(put, get)) is Outcome.UNDEFINED


def test_step_that_may_fail_runs_alone() -> None:
    made = queue(2)
    look, fails = Step("q", ("look",)), Step("q", ("wrong",))
    assert Simulation((made,)).outcome(Run((look, look))) is Outcome.OK
    assert Simulation((made,)).outcome(Run((look, fails))) is Outcome.UNDEFINED


def test_shrinking_keeps_the_parts_that_cause_the_failure() -> None:
    program = next(
        one
        for one in PROGRAMS
        if len(one.calls) > 8 and any(isinstance(c, Wrong) for c in one.calls)
    )
    small = shrink(program, lambda one: any(isinstance(c, Wrong) for c in one.calls))
    assert [type(call) for call in small.calls] == [Wrong]
    assert small.resources == program.resources[-1:]


def test_shrinking_leaves_no_undefined_program() -> None:
    put, get = Step("q", ("put", 1), (), ("q_put",)), Step("q", ("get", 1), ("q_get:0",))
    tried: list[Program] = []

    def fails(program: Program) -> bool:
        tried.append(program)
        return Run((get,)) in program.calls

    arithmetic = PROGRAMS[0].resources[-1]
    program = Program("made", (queue(1), arithmetic), (Run((put,)), Run((get,)), Run((put,))))
    assert shrink(program, fails).calls == (Run((get,)),)
    assert all(is_defined(one) for one in tried)


def test_text_of_a_program_shows_nodes_and_calls() -> None:
    program = replace(PROGRAMS[0], calls=(Wrong("nothing:0", (("m_a:0", Value("float32", 1.0)),)),))
    assert "m_sum = AddV2(m_a, m_b)" in program.text()
    assert "0. Wrong(fetches='nothing:0'" in program.text()
