"""Kernels find out without a context whether their step was cancelled."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest

import graphmill
from graphmill import errors
from graphmill.runtime.steps.current_step import cancellable, check_cancelled
from graphmill.runtime.steps.step_runner import RUNNING, running
from graphmill.testing.case_graph import GraphMaker
from graphmill.testing.case_inputs import parse_input
from graphmill.testing.case_nodes import parse_node

GOES_ON = SimpleNamespace(is_cancelled=False)
CANCELLED = SimpleNamespace(is_cancelled=True)


def test_check_raises_within_a_cancelled_step_only() -> None:
    check_cancelled()
    with running(GOES_ON):
        check_cancelled()
        with running(CANCELLED), pytest.raises(errors.CancelledError, match="was running"):
            check_cancelled()
        check_cancelled()
    check_cancelled()
    assert threading.get_ident() not in RUNNING


def test_step_of_one_thread_is_not_that_of_another() -> None:
    failures: list[BaseException] = []

    def check() -> None:
        try:
            check_cancelled()
        except errors.CancelledError as error:
            failures.append(error)

    with running(CANCELLED):
        thread = threading.Thread(target=check)
        thread.start()
        thread.join()
    assert failures == []


def test_cancellable_ends_an_iteration_after_an_interval() -> None:
    step = SimpleNamespace(is_cancelled=False)
    taken: list[int] = []

    def take() -> None:
        for item in cancellable(range(100), 10):
            taken.append(item)
            step.is_cancelled = item >= 15

    with running(step), pytest.raises(errors.CancelledError):
        take()
    assert taken == list(range(20))
    assert list(cancellable("abc", 2)) == ["a", "b", "c"]


def test_kernel_sees_the_deadline_of_its_step() -> None:
    maker = GraphMaker(graphmill.default_host().ops)
    maker.placeholder("i", parse_input("int32: 1", {}, "i"))
    for text in (
        "s = Const(dtype=uint32, value='uint32: [1, 2, 3]')",
        "m = Const(dtype=int32, value='int32: 100')",
        "y = RandomIndexShuffle(i, s, m, rounds=100000000)",
    ):
        maker.node(parse_node(text))
    with (
        graphmill.Session(graph=maker.graph_def, config={"graphmill": {"jit": "off"}}) as session,
        pytest.raises(errors.DeadlineExceededError) as caught,
    ):
        session.run("y:0", {"i:0": 1}, options={"timeout_in_ms": 50})
    assert (caught.value.node, caught.value.op_type) == ("y", "RandomIndexShuffle")
    assert threading.get_ident() not in RUNNING


def test_folding_of_constants_does_not_take_long(monkeypatch: pytest.MonkeyPatch) -> None:
    from graphmill_plugins.passes import constant_folding

    monkeypatch.setattr(constant_folding, "_MAX_SECONDS", 0.0)
    maker = GraphMaker(graphmill.default_host().ops)
    for text in (
        "i = Const(dtype=int32, value='int32: 1')",
        "s = Const(dtype=uint32, value='uint32: [1, 2, 3]')",
        "m = Const(dtype=int32, value='int32: 100')",
        "y = RandomIndexShuffle(i, s, m, rounds=100000000)",
    ):
        maker.node(parse_node(text))
    with (
        graphmill.Session(graph=maker.graph_def, config={"graphmill": {"jit": "off"}}) as session,
        pytest.raises(errors.DeadlineExceededError),
    ):
        session.run("y:0", options={"timeout_in_ms": 50})
