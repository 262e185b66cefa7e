"""The executor passes the suite; kernels wait for memory and fail only as a last resort."""

from __future__ import annotations

import threading
from typing import ClassVar

import numpy as np
import pytest
from graphmill_memorybudget.budget import Budget, Waiter

import graphmill
from graphmill import errors
from graphmill.ops import math
from graphmill.testing.conformance import ExecutorTests, TierTests

MIB = 1 << 20


class TestMemoryBudget(ExecutorTests):
    executor_type = "MEMORY_BUDGET"


class TestMemoryBudgetTiers(TierTests):
    settings: ClassVar = {"experimental": {"executor_type": "MEMORY_BUDGET"}}
    is_compiled = False  # the executor must see each call of a kernel


def config(limit: int) -> graphmill.ConfigProto:
    made = graphmill.ConfigProto()
    made.experimental.executor_type = "MEMORY_BUDGET"
    settings = made.graph_options.rewrite_options.custom_optimizers.add(name="memory_budget")
    settings.parameter_map["bytes"].i = limit
    return made


def doubling() -> graphmill.Graph:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [None], name="x")
        y = math.mul(x, 2.0, name="y")
        math.sum(math.mul(y, y), [0], name="sum")
    return graph


def waiter(log: list[str], name: str, need: int, step: int = 1, measured: bool = True) -> Waiter:
    return Waiter(
        step, need, measured, lambda: log.append(f"start {name}"), lambda: log.append(f"no {name}")
    )


def test_an_op_waits_until_memory_is_freed() -> None:
    budget, log = Budget(100), []
    for step in (1, 2):
        budget.begin(step)
    a, b = waiter(log, "a", 80), waiter(log, "b", 80, step=2)
    assert budget.admit(a)
    result = np.zeros(80, np.uint8)
    budget.finish(a, result)
    assert not budget.admit(b)
    budget.stall(2)
    assert log == []
    del result
    budget.end(1)
    assert log == ["start b"]


def test_views_are_counted_once() -> None:
    budget = Budget(100)
    budget.begin(1)
    a = waiter([], "a", 10)
    budget.admit(a)
    whole = np.zeros(40, np.uint8)
    assert budget.finish(a, (whole, whole[:10])) == 40
    assert budget.held == 40


def test_when_every_step_waits_the_youngest_fails() -> None:
    budget, log = Budget(100), []
    for step in (1, 2):
        budget.begin(step)
        budget.admit(first := waiter(log, f"first {step}", 45, step))
        budget.finish(first, None)
    held = [np.zeros(50, np.uint8) for _ in range(2)]
    for step, array in zip((1, 2), held, strict=True):
        budget.admit(one := waiter(log, "x", 0, step))
        budget.finish(one, array)
    for step in (1, 2):
        assert not budget.admit(waiter(log, f"second {step}", 45, step))
        budget.stall(step)
    assert log == ["no second 2"]


def test_budget_is_reserved_for_the_oldest_step() -> None:
    budget, log = Budget(100), []
    budget.begin(0)
    budget.admit(known := waiter(log, "known", 50, step=0))
    budget.finish(known, np.zeros(50, np.uint8))  # the peak of a step is 50
    budget.end(0)
    budget.begin(2)
    budget.begin(1)
    assert not budget.admit(waiter(log, "later", 60, step=1))
    assert budget.admit(waiter(log, "first", 60, step=2))


def test_a_guess_is_tried_before_anything_fails() -> None:
    budget, log = Budget(100), []
    budget.begin(1)
    assert not budget.admit(waiter(log, "guess", 1000, measured=False))
    budget.stall(1)
    assert log == ["start guess"]


def test_concurrent_steps_stay_within_the_budget() -> None:
    x = np.ones(MIB // 4, np.float32)
    wrong: list[float] = []
    with graphmill.Session(graph=doubling(), config=config(4 * MIB)) as session:
        call = session.make_callable("sum:0", ["x:0"])
        call(x)

        def steps() -> None:
            wrong.extend(got for got in (call(x) for _ in range(10)) if got != MIB)

        threads = [threading.Thread(target=steps) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        (device,) = session._impl.devices
        from graphmill_memorybudget.executor import budget_of

        budget = budget_of(device, 0)
        assert 0 < budget.peak <= 4 * MIB
        assert budget.held == 0
    assert not wrong


def test_step_larger_than_the_budget_is_an_error_with_advice() -> None:
    x = np.ones(MIB // 4, np.float32)
    with graphmill.Session(graph=doubling(), config=config(MIB // 2)) as session:
        session.run("y:0", {"x:0": x})  # the first estimate is a guess
        with pytest.raises(
            errors.ResourceExhaustedError, match="give memory_budget more"
        ) as caught:
            session.run("y:0", {"x:0": x})
        assert caught.value.node == "y"
        assert session.run("y:0", {"x:0": x[:2]}).tolist() == [2.0, 2.0]


def test_a_budget_is_a_positive_number() -> None:
    with (
        graphmill.Session(graph=doubling(), config=config(-5)) as session,
        pytest.raises(errors.InvalidArgumentError, match="bytes must be above 0"),
    ):
        session.run("y:0", {"x:0": [1.0]})
