"""The executor STEPPING: nodes on request, and ordinary steps without a driver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import graphmill
from graphmill import ops
from graphmill.runtime.stepping import StepDriver

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.errors import OpError
    from graphmill.runtime.stepping import NodeInstance, SteppableRun

CONFIG = {"experimental": {"executorType": "STEPPING"}}


class Script(StepDriver):
    """Compares the state of the propagator with its invariants after each node."""

    def __init__(self) -> None:
        self.run: Any = None
        self.num_done = 0

    def run_started(self, run: SteppableRun) -> None:
        self.run = run

    def node_done(self, run: SteppableRun, instance: NodeInstance, outputs: Sequence[Any]) -> None:
        self.num_done += 1

    def node_failed(self, run: SteppableRun, instance: NodeInstance, error: OpError) -> None:
        raise AssertionError(error)

    def run_ended(self, run: SteppableRun, error: OpError | None) -> None:
        assert error is None


@pytest.fixture
def nested_loop() -> graphmill.Graph:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [], name="x")

        def inner(value: Any) -> Any:
            step = graphmill.while_loop(
                lambda j, _: j < 2, lambda j, b: [j + 1, b + 1.0], [0, value]
            )
            return step[1]

        loop = graphmill.while_loop(lambda i, _: i < 2, lambda i, a: [i + 1, inner(a)], [0, x])
        ops.array.identity(loop[1], name="y")
    return graph


def test_a_step_without_a_driver_runs_as_usual(nested_loop: graphmill.Graph) -> None:
    with graphmill.Session(graph=nested_loop, config=CONFIG) as session:
        assert session.run("y:0", {"x:0": 1.0}) == 5.0
        with pytest.raises(graphmill.errors.OpError, match="'x'"):
            session.run("y:0")


def test_invariants_hold_after_each_node(nested_loop: graphmill.Graph) -> None:
    with graphmill.Session(graph=nested_loop) as session:
        script = Script()
        step, rebuild = session.debug_step(script, "y:0", {"x:0": 1.0})
        step.start()
        names = set()
        while not step.is_done:
            step.run_next(script.run)
            script.run._propagator.validate()
            names.update(frame.name for frame in script.run.frames())
        assert rebuild(step.results()) == 5.0
    frame, *_ = sorted(names)
    assert len([name for name in names if name.startswith(f"{frame}:1/")]) == 1


def test_a_step_with_a_dataset_is_driven() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        data = ops.dataset.range_dataset(
            graph.constant(np.int64(0)),
            graph.constant(np.int64(4)),
            graph.constant(np.int64(1)),
            output_types=["int64"],
            output_shapes=[[]],
        )
        ops.dataset.dataset_cardinality(data, name="count")
    with graphmill.Session(graph=graph) as session:
        script = Script()
        step, rebuild = session.debug_step(script, "count:0")
        step.start()
        while not step.is_done:
            step.run_next(script.run)
        assert rebuild(step.results()) == session.run("count:0") == 4
