"""The rules of the propagators (clauses E4, E7), on small graphs without kernels."""

from __future__ import annotations

import random

import pytest

from graphmill.errors import InvalidArgumentError
from graphmill_plugins.default_executor.propagator import Propagator

from .conftest import FALSE, TRUE, loop


def trips(count):
    """Return the outputs of a loop's switch for `count` iterations."""
    return lambda number: TRUE if number < count else FALSE


def test_e7_node_is_ready_when_all_inputs_arrived(drawing, drive) -> None:
    a, b = drawing.source("a"), drawing.source("b")
    c = drawing.add("AddV2", "c", a, b)
    drawing.add("NoOp", "after", after=[c])
    run = drive(drawing).run()
    assert run.log.index("c") == 2
    assert run.log[-1] == "after"
    assert run.propagator.is_done


def test_e7_constants_are_available_from_the_start(drawing, drive) -> None:
    two = drawing.constant("two")
    drawing.add("AddV2", "sum", two, two)
    run = drive(drawing).run()
    assert run.log == ["sum"]


def test_e7_constant_with_control_input_is_executed(drawing, drive) -> None:
    a = drawing.source("a")
    op = drawing.graph.node("a")
    late = drawing.constant("late")
    drawing.graph.add_control_edge(op, late)
    drawing.add("Neg", "n", late)
    assert drive(drawing).run().log == ["a", "late", "n"]
    assert a is op


def test_e7_a_dead_output_makes_its_consumers_dead(drawing, drive) -> None:
    x, p = drawing.source("x"), drawing.source("p", "bool")
    switch = drawing.add("Switch", "switch", x, p)
    drawing.add("Neg", "no", (switch, 0))
    drawing.add("Neg", "yes", (switch, 1))
    run = drive(drawing).run({"switch": TRUE})
    assert run.dead == ["no"]
    assert run.propagator.is_done


def test_e7_a_merge_takes_the_first_live_input(drawing, drive) -> None:
    x, p = drawing.source("x"), drawing.source("p", "bool")
    switch = drawing.add("Switch", "switch", x, p)
    no, yes = drawing.add("Neg", "no", (switch, 0)), drawing.add("Neg", "yes", (switch, 1))
    merge = drawing.add("Merge", "merge", no, yes)
    drawing.add("Neg", "after", (merge, 0))
    run = drive(drawing).run({"switch": FALSE})
    assert run.dead == ["yes"]
    assert run.log.count("merge") == 1
    assert "after" in run.log


def test_e7_a_merge_is_dead_only_if_all_inputs_are(drawing, drive) -> None:
    x, p = drawing.source("x"), drawing.source("p", "bool")
    switch = drawing.add("Switch", "switch", x, p)
    a, b = drawing.add("Neg", "a", (switch, 0)), drawing.add("Abs", "b", (switch, 0))
    drawing.add("Merge", "merge", a, b)
    run = drive(drawing).run({"switch": TRUE})
    assert run.dead == ["a", "b", "merge"]
    assert run.propagator.is_done


def test_e7_a_merge_waits_for_its_control_edges(drawing, drive) -> None:
    x, late = drawing.source("x"), drawing.source("late")
    drawing.add("Merge", "merge", x, x, after=[late])
    for order in (0, -1):
        run = drive(drawing, order=lambda ready, pick=order: pick).run()
        assert run.log[-1] == "merge"
        assert run.log.count("merge") == 1


def test_e7_dead_control_edge_kills_all_but_control_trigger(drawing, drive) -> None:
    x, p = drawing.source("x"), drawing.source("p", "bool")
    switch = drawing.add("Switch", "switch", x, p)
    no = drawing.add("Neg", "no", (switch, 0))
    drawing.add("NoOp", "ordinary", after=[no])
    drawing.add("ControlTrigger", "trigger", after=[no])
    run = drive(drawing).run({"switch": TRUE})
    assert run.dead == ["no", "ordinary"]
    assert "trigger" in run.log


@pytest.mark.parametrize("count", [0, 1, 5])
@pytest.mark.parametrize("parallel", [1, 2, 10])
def test_e4_a_loop_runs_its_body_once_for_each_trip(drawing, drive, count, parallel) -> None:
    nodes = loop(drawing, "w", drawing.source("x"), parallel=parallel)
    drawing.add("Neg", "after", nodes["exit"])
    run = drive(drawing).run({"w/switch": trips(count)})
    live = [entry for entry in run.log if entry.startswith("w/body") and entry not in run.dead]
    assert live == [f"w/body@w:{number}" for number in range(count)]
    assert run.log.count("after") == 1
    assert "after" not in run.dead
    assert run.propagator.is_done
    assert not run.propagator.frames


def test_e7_parallel_iterations_bounds_the_iterations_at_once(drawing, drive) -> None:
    x = drawing.source("x")
    nodes = loop(drawing, "w", x, parallel=2)
    # Work that hangs behind each iteration and is done last, so that iterations pile up.
    drawing.add("Abs", "w/slow", (nodes["switch"], 1))

    def slow_last(ready):
        quick = [i for i, (item, *_) in enumerate(ready) if item.node.name != "w/slow"]
        return quick[0] if quick else 0

    run = drive(drawing, order=slow_last).run({"w/switch": trips(6)})
    assert run.most_iterations == 2
    assert run.propagator.is_done


def test_e4_iterations_are_deleted_as_soon_as_they_are_done(drawing, drive) -> None:
    loop(drawing, "w", drawing.source("x"), parallel=10)
    run = drive(drawing).run({"w/switch": trips(50)})
    assert run.most_iterations <= 2


def test_e7_a_constant_enter_reaches_every_iteration(drawing, drive) -> None:
    x, k = drawing.source("x"), drawing.source("k")
    nodes = loop(drawing, "w", x)
    enter = drawing.add("Enter", "w/k", k, frame_name="w", is_constant=True)
    drawing.add("Mul", "w/uses", enter, (nodes["switch"], 1))
    for order in (0, -1):
        run = drive(drawing, order=lambda ready, pick=order: pick).run({"w/switch": trips(3)})
        live = [e for e in run.log if e.startswith("w/uses") and e not in run.dead]
        assert sorted(live) == [f"w/uses@w:{number}" for number in range(3)]
        assert run.propagator.is_done


def test_e7_loop_in_untaken_branch_never_starts_and_exit_is_dead(drawing, drive) -> None:
    x, p = drawing.source("x"), drawing.source("p", "bool")
    switch = drawing.add("Switch", "switch", x, p)
    nodes = loop(drawing, "w", (switch, 0))
    after = drawing.add("Neg", "after", nodes["exit"])
    drawing.add("Merge", "merge", after, (switch, 1))
    run = drive(drawing).run({"switch": TRUE})
    assert "after" in run.dead
    assert "merge" in run.log
    assert "merge" not in run.dead
    assert not any(entry.startswith("w/body@w:1") for entry in run.log)
    assert run.propagator.is_done


def test_e4_frames_nest(drawing, drive) -> None:
    outer = loop(drawing, "outer", drawing.source("x"))
    enter = drawing.add("Enter", "inner/enter", (outer["switch"], 1), frame_name="inner")
    merge = drawing.add("Merge", "inner/merge", enter, enter)
    less = drawing.add("Less", "inner/less", (merge, 0), (merge, 0))
    cond = drawing.add("LoopCond", "inner/cond", less)
    switch = drawing.add("Switch", "inner/switch", (merge, 0), cond)
    body = drawing.add("Neg", "inner/body", (switch, 1))
    drawing.back_edge(drawing.add("NextIteration", "inner/next", body), merge)
    drawing.add("Exit", "inner/exit", (switch, 0))
    run = drive(drawing).run({"outer/switch": trips(2), "inner/switch": trips(3)})
    live = [e for e in run.log if e.startswith("inner/body") and e not in run.dead]
    assert sorted(live) == [f"inner/body@outer:{o}/inner:{i}" for o in range(2) for i in range(3)]
    assert run.propagator.is_done


def test_e4_every_legal_order_runs_the_same_nodes(drawing, drive) -> None:
    x, p = drawing.source("x"), drawing.source("p", "bool")
    nodes = loop(drawing, "w", x, parallel=3)
    branch = drawing.add("Switch", "w/branch", (nodes["switch"], 1), nodes["cond"])
    no, yes = drawing.add("Neg", "w/no", (branch, 0)), drawing.add("Abs", "w/yes", (branch, 1))
    drawing.add("Merge", "w/joined", no, yes)
    drawing.add("NoOp", "end", after=[nodes["exit"], p])
    outputs = {
        "w/switch": trips(7),
        "w/branch": lambda number: TRUE if number % 2 else FALSE,
    }
    expected = None
    for seed in range(50):
        rng = random.Random(seed)
        run = drive(drawing, order=lambda ready, r=rng: r.randrange(len(ready))).run(outputs)
        assert run.propagator.is_done
        found = sorted(run.log), sorted(run.dead)
        expected = expected or found
        assert found == expected, f"seed {seed}"


def test_e3_inputs_from_two_frames_are_refused(drawing) -> None:
    x = drawing.source("x")
    nodes = loop(drawing, "w", x)
    drawing.add("AddV2", "bad", x, (nodes["switch"], 1))
    with pytest.raises(InvalidArgumentError, match=r"different frames.*'x'.*<root>.*'w'") as caught:
        drawing.view()
    assert caught.value.node == "bad"


def test_e3_an_exit_outside_of_a_frame_is_refused(drawing) -> None:
    drawing.add("Exit", "bad", drawing.source("x"))
    with pytest.raises(InvalidArgumentError, match="outside of any frame"):
        drawing.view()


def test_e3_enters_of_a_frame_must_agree_on_parallel_iterations(drawing) -> None:
    x = drawing.source("x")
    drawing.add("Enter", "one", x, frame_name="w", parallel_iterations=2)
    drawing.add("Enter", "two", x, frame_name="w", parallel_iterations=3)
    with pytest.raises(InvalidArgumentError, match=r"parallel_iterations=3.*2"):
        drawing.view()


def test_e7_unread_enter_does_not_delay_the_frame(drawing, drive) -> None:
    x = drawing.source("x")
    drawing.add("Enter", "unread", x, frame_name="w")
    assert drive(drawing).run().propagator.is_done


def test_stalled_run_lists_waiting_nodes(drawing, drive) -> None:
    x = drawing.source("x")
    merge = drawing.add("Merge", "merge", x, x, after=[x])
    drawing.add("Neg", "after", (merge, 0))
    run = drive(drawing)
    run.ready.clear()  # as if x never came
    assert not run.propagator.is_done
    assert "after (Neg) waits for merge" in run.propagator.describe_pending()


def test_validate_detects_impossible_states(drawing, drive) -> None:
    loop(drawing, "w", drawing.source("x"), parallel=1)
    run = drive(drawing)
    for _ in range(3):
        run.step({})
    (frame,) = run.propagator.frames.values()
    frame.iterations[0].outstanding_ops = -1
    with pytest.raises(AssertionError, match="nodes or frames ended"):
        run.propagator.validate()


def test_e7_empty_graph_is_done_immediately(drawing, drive) -> None:
    drawing.constant("unread")
    propagator = Propagator(drawing.view())
    ready: list = []
    propagator.start(ready)
    assert ready == []
    assert propagator.is_done


def test_stall_report_of_plain_graph_names_missing_inputs(drawing, drive) -> None:
    drawing.add("Neg", "n", drawing.source("x"))
    run = drive(drawing)
    assert run.propagator.describe_pending() == "  n (Neg) waits for x"


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (
            lambda p, f: setattr(f, "num_pending_inputs", -1),
            "more Enters arrived",
        ),
        (
            lambda p, f: setattr(f.iterations[0], "outstanding_frames", -1),
            "nodes or frames ended",
        ),
        (
            lambda p, f: f.iterations.update({5: f.iterations[0]}),
            "2 iterations are active",
        ),
        (lambda p, f: setattr(f, "iteration_count", -1), "exceeds the latest one"),
        (lambda p, f: f.iterations[0].pending.__setitem__(0, 99), "waits for 99 edges of"),
        (
            lambda p, f: f.iterations[0].inputs.__setitem__(slice(None), [1] * 99),
            "inputs arrived over",
        ),
        (lambda p, f: setattr(p, "root", None), "the root frame is done, but not"),
    ],
)
def test_validate_detects_each_impossible_state(drawing, drive, spoil, words) -> None:
    loop(drawing, "w", drawing.source("x"), parallel=1)
    run = drive(drawing)
    for _ in range(2):
        run.step({})
    (frame,) = run.propagator.frames.values()
    spoil(run.propagator, frame)
    with pytest.raises(AssertionError, match=words):
        run.propagator.validate()


def test_frames_and_iterations_have_a_readable_repr(drawing, drive) -> None:
    loop(drawing, "w", drawing.source("x"))
    run = drive(drawing)
    for _ in range(2):
        run.step({})
    (frame,) = run.propagator.frames.values()
    assert [repr(frame), repr(frame.iterations[0])] == ["<Frame w>", "<Iteration w:0>"]
    assert repr(run.propagator.root) == "<Frame <root>>"


def test_e7_value_may_arrive_for_a_started_iteration(drawing, drive) -> None:
    """A value may arrive for an iteration that another `NextIteration` has started."""
    x, y = drawing.source("x"), drawing.source("y")
    nodes = loop(drawing, "w", x)
    enter = drawing.add("Enter", "w/enter_y", y, frame_name="w")
    merge = drawing.add("Merge", "w/merge_y", enter, enter)
    switch = drawing.add("Switch", "w/switch_y", (merge, 0), nodes["cond"])
    drawing.back_edge(drawing.add("NextIteration", "w/next_y", (switch, 1)), merge)
    drawing.add("Exit", "w/exit_y", (switch, 0))
    outputs = {"w/switch": trips(3), "w/switch_y": trips(3)}
    for order in (0, -1):
        run = drive(drawing, order=lambda ready, pick=order: pick).run(outputs)
        assert [e for e in run.log if e.startswith("w/exit") and e not in run.dead]
        assert run.propagator.is_done
