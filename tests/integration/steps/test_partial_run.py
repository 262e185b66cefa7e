"""Partial runs (clause S8): a step that is fed and fetched piece by piece."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import graphmill
from graphmill import errors, ops
from graphmill.session.steps import partial_run


@pytest.fixture
def graph():
    graph = graphmill.Graph()
    with graph.as_default():
        a = graph.placeholder("float32", [], name="a")
        b = graph.placeholder("float32", [], name="b")
        c = graph.placeholder("float32", [], name="c")
        r1 = ops.math.add_v2(a, b, name="r1")
        ops.math.mul(r1, c, name="r2")
        ops.math.neg(c, name="only_c")
        v = ops.state.variable_v2(shape=[], dtype="float32", name="v")
        ops.state.assign(v, r1, name="keep")
        ops.array.identity(v, name="read")
    return graph


@pytest.fixture
def session(graph):
    with graphmill.Session(graph=graph) as session:
        yield session


def test_s8_fetches_are_returned_once_their_feeds_are_given(session) -> None:
    handle = session.partial_run_setup(["r1:0", "r2:0"], ["a:0", "b:0", "c:0"])
    assert session.partial_run(handle, "r1:0", {"a:0": 1, "b:0": 2}) == 3
    assert session.partial_run(handle, {"product": "r2:0"}, {"c:0": 17}) == {"product": 51}


def test_s8_feeds_may_be_given_one_at_a_time_without_fetches(session) -> None:
    handle = session.partial_run_setup(["r1:0"], ["a:0", "b:0"])
    assert session.partial_run(handle, [], {"a:0": 1}) == []
    assert session.partial_run(handle, "r1:0", {"b:0": 2}) == 3


def test_s8_handles_are_unique_and_runs_do_not_mix(session) -> None:
    one, two = (session.partial_run_setup("r1:0", ["a:0", "b:0"]) for _ in range(2))
    assert one != two
    session.partial_run(one, [], {"a:0": 1})
    session.partial_run(two, [], {"a:0": 10})
    assert session.partial_run(two, "r1:0", {"b:0": 10}) == 20
    assert session.partial_run(one, "r1:0", {"b:0": 1}) == 2


def test_s8_targets_run_as_soon_as_they_can(session) -> None:
    handle = session.partial_run_setup("r2:0", ["a:0", "b:0", "c:0"], targets=["keep"])
    session.partial_run(handle, [], {"a:0": 1, "b:0": 2})
    assert session.run("read:0") == 3
    session.partial_run(handle, "r2:0", {"c:0": 1})


@pytest.mark.parametrize(
    ("fetches", "feeds", "match"),
    [
        ("r1:0", {}, "also needs b:0"),
        ("r1:0", {"b:0": 1, "c:0": 1}, r"feed 'c:0' was not declared"),
        ("r2:0", {"b:0": 1}, r"fetch 'r2:0' was not declared"),
        ("r1:0", {"a:0": 1, "b:0": 1}, r"'a:0' has already been fed"),
        ("r1:0", {"b:0": "text"}, r"'b:0'"),
    ],
)
def test_s8_invalid_call_is_reported_before_any_effect(session, fetches, feeds, match) -> None:
    handle = session.partial_run_setup("r1:0", ["a:0", "b:0"])
    session.partial_run(handle, [], {"a:0": 1})
    with pytest.raises(errors.InvalidArgumentError, match=match):
        session.partial_run(handle, fetches, feeds)
    assert session.partial_run(handle, "r1:0", {"b:0": 2}) == 3


def test_s8_a_tensor_is_fetched_once(session) -> None:
    handle = session.partial_run_setup(["r1:0", "r2:0"], ["a:0", "b:0", "c:0"])
    session.partial_run(handle, "r1:0", {"a:0": 1, "b:0": 2})
    with pytest.raises(errors.InvalidArgumentError, match="already been fetched"):
        session.partial_run(handle, "r1:0")


def test_s8_a_finished_handle_is_unknown(session) -> None:
    handle = session.partial_run_setup("r1:0", ["a:0", "b:0"])
    session.partial_run(handle, "r1:0", {"a:0": 1, "b:0": 2})
    with pytest.raises(errors.InvalidArgumentError, match="finished"):
        session.partial_run(handle, "r1:0")
    with pytest.raises(errors.InvalidArgumentError, match="unknown"):
        session.partial_run("no such handle", "r1:0")


def test_call_without_feeds_and_fetches_does_nothing(session) -> None:
    handle = session.partial_run_setup("r1:0", ["a:0", "b:0"])
    session.partial_run(handle, "r1:0", {"a:0": 1, "b:0": 2})
    assert session.partial_run(handle, {"nothing": []}) == {"nothing": []}
    session.close()
    with pytest.raises(errors.CancelledError):
        session.partial_run(handle, [])


def test_s8_an_unfinished_run_can_be_released(session) -> None:
    handle = session.partial_run_setup("r1:0", ["a:0", "b:0"])
    session.partial_run(handle, [], {"a:0": 1})
    session.partial_run_release(handle)
    with pytest.raises(errors.InvalidArgumentError, match="finished"):
        session.partial_run(handle, "r1:0", {"b:0": 1})
    assert session.run("r1:0", {"a:0": 1, "b:0": 1}) == 2


def test_s8_a_client_that_never_finishes_leaks_nothing(session, monkeypatch) -> None:
    monkeypatch.setattr(partial_run, "MAX_UNFINISHED", 3)
    handles = [session.partial_run_setup("r1:0", ["a:0", "b:0"]) for _ in range(3)]
    with pytest.warns(ResourceWarning, match="the oldest"):
        session.partial_run_setup("r1:0", ["a:0", "b:0"])
    with pytest.raises(errors.InvalidArgumentError, match="unknown"):
        session.partial_run(handles[0], [], {"a:0": 1})
    assert session.partial_run(handles[1], "r1:0", {"a:0": 1, "b:0": 1}) == 2


def test_s8_first_error_ends_the_run_but_not_the_session() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("int32", [], name="x")
        y = graph.placeholder("int32", [], name="y")
        ops.math.floor_div(x, y, name="ratio")
        ops.math.neg(y, name="minus")
    with graphmill.Session(graph=graph) as session:
        handle = session.partial_run_setup(["ratio:0", "minus:0"], ["x:0", "y:0"])
        session.partial_run(handle, [], {"x:0": 1})
        with pytest.raises(errors.InvalidArgumentError, match="ratio"):
            session.partial_run(handle, "minus:0", {"y:0": 0})
        with pytest.raises(errors.InvalidArgumentError, match="finished"):
            session.partial_run(handle, "ratio:0")
        assert session.run("ratio:0", {"x:0": 4, "y:0": 2}) == 2


def test_s8_closing_the_session_ends_partial_runs(graph) -> None:
    session = graphmill.Session(graph=graph)
    handle = session.partial_run_setup("r1:0", ["a:0", "b:0"])
    session.close()
    with pytest.raises(errors.CancelledError, match="closed"):
        session.partial_run(handle, "r1:0", {"a:0": 1, "b:0": 1})


def test_s8_inner_tensor_may_be_fed(session) -> None:
    handle = session.partial_run_setup(["r2:0"], ["r1:0", "c:0"])
    assert session.partial_run(handle, [], {"r1:0": 5}) == []
    assert session.partial_run(handle, "r2:0", {"c:0": 2}) == 10


def test_s8_fetch_in_untaken_branch_is_reported(session) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        p = graph.placeholder("bool", [], name="p")
        x = graph.placeholder("float32", [], name="x")
        untaken, _ = ops.control_flow.switch(x, p, name="switch")
        ops.math.neg(untaken, name="y")
    with graphmill.Session(graph=graph) as session:
        handle = session.partial_run_setup("y:0", ["p:0", "x:0"])
        with pytest.raises(errors.InvalidArgumentError, match="dead"):
            session.partial_run(handle, "y:0", {"p:0": True, "x:0": 1})


def test_s8_a_partial_run_has_statistics(session) -> None:
    options = graphmill.RunOptions(trace_level=graphmill.RunOptions.FULL_TRACE)
    handle = session.partial_run_setup(["r1:0", "r2:0"], ["a:0", "b:0", "c:0"], options=options)
    metadata = graphmill.RunMetadata()
    session.partial_run(handle, "r1:0", {"a:0": 1, "b:0": 1}, run_metadata=metadata)
    names = [node.node_name for node in metadata.step_stats.dev_stats[0].node_stats]
    assert "r1" in names
    assert "r2" not in names
    session.partial_run(handle, "r2:0", {"c:0": 1}, run_metadata=metadata)
    names = [node.node_name for node in metadata.step_stats.dev_stats[0].node_stats]
    assert "r2" in names


def test_s8_threads_may_drive_their_own_partial_runs_at_once(session) -> None:
    results = {}

    def work(number: int) -> None:
        handle = session.partial_run_setup("r2:0", ["a:0", "b:0", "c:0"])
        session.partial_run(handle, [], {"a:0": number})
        session.partial_run(handle, [], {"b:0": number})
        results[number] = session.partial_run(handle, "r2:0", {"c:0": number})

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {k: float(np.asarray(v)) for k, v in results.items()} == {
        number: 2.0 * number * number for number in range(8)
    }


def test_s8_error_of_an_earlier_node_names_it(session) -> None:
    handle = session.partial_run_setup(["r2:0"], ["a:0", "b:0"])  # c is not declared
    with pytest.raises(errors.InvalidArgumentError, match="must feed a value") as caught:
        session.partial_run(handle, "r2:0", {"a:0": 1, "b:0": 2})
    assert (caught.value.node, caught.value.op_type) == ("c", "Placeholder")


@pytest.mark.parametrize(
    ("fetches", "feeds", "message"),
    [("r1:0", ["a:0", "a:0"], "'a:0' fed more than once"), (["r1:0", "a:0"], ["a:0"], "both fed")],
)
def test_s8_tensors_are_declared_once(session, fetches, feeds, message) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=message):
        session.partial_run_setup(fetches, feeds)


@pytest.mark.parametrize("option", ["timeout_in_ms", "inter_op_thread_pool"])
def test_s8_options_without_effect_are_refused(session, option) -> None:
    with pytest.raises(errors.UnimplementedError, match=option):
        session.partial_run_setup("r1:0", ["a:0"], options=graphmill.RunOptions(**{option: 1}))
