"""The executor with random orders (clause E5) repeats an order by seed and reaches all orders."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from graphmill.plugin.markers import hookimpl
from graphmill.runtime.checks.validation import VALIDATE_VARIABLE
from graphmill.session.session import Session
from graphmill.testing.proto_builders import graph_def, node_def
from graphmill_plugins.default_executor.seeded_executor import RandomQueue, SeededExecutorFactory
from graphmill_plugins.default_executor.validating_propagator import (
    ValidatingPropagator,
    ValidatingSimplePropagator,
)


def order(seed: int, count: int = 4) -> tuple[int, ...]:
    """Return the order in which a queue returns initially ready nodes."""
    queue = RandomQueue(seed)
    queue.extend((SimpleNamespace(id=number), None, False) for number in range(count))
    return tuple(queue.pop()[0].id for _ in range(count))


@pytest.mark.parametrize("seed", [0, 1])
def test_e5_a_seed_repeats_its_order(seed: int) -> None:
    assert order(seed) == order(seed)


@pytest.mark.parametrize("first", [0, 1], ids=["any", "by rank"])
def test_e5_every_order_is_drawn(first: int) -> None:
    assert len({order(seed) for seed in range(first, 1000, 2)}) == 24


def test_e5_node_rank_is_constant_within_a_run() -> None:
    queue = RandomQueue(1)
    for number in (0, 1, 0, 1):
        queue.append((SimpleNamespace(id=number), None, False))
    first, second, third, fourth = [queue.pop()[0].id for _ in range(4)]
    assert first == second
    assert third == fourth


class Plugin:
    @hookimpl
    def graphmill_register_executors(self, executors: Any) -> None:
        executors.add("SEEDED", SeededExecutorFactory(3))


X = node_def("x", "Placeholder", dtype="float32")
PLAIN = graph_def(X, node_def("y", "Neg", "x", T="float32"))
P = node_def("p", "Placeholder", dtype="bool")
DEADLY = graph_def(
    X, P, node_def("s", "Switch", "x", "p", T="float32"), node_def("y", "Neg", "s", T="float32")
)


def propagator_type(session: Session, fetch: str, feeds: dict[str, Any]) -> Any:
    session.run(fetch, feeds)
    key = (tuple(feeds), (fetch,), ())
    (item,) = session._impl.executors(key).executors.items
    return item.executor.propagator_type  # type: ignore[attr-defined]


def test_e7_seeded_executor_validates_state_after_each_node(make_host: Any) -> None:
    config = {"experimental": {"executor_type": "SEEDED"}}
    with Session(graph=PLAIN, config=config, host=make_host(Plugin())) as session:
        assert propagator_type(session, "y:0", {"x:0": 1}) is ValidatingSimplePropagator
    with Session(graph=DEADLY, config=config, host=make_host(Plugin())) as session:
        assert propagator_type(session, "y:0", {"x:0": 1, "p:0": False}) is ValidatingPropagator


@pytest.mark.parametrize("executor_type", ["DEFAULT", "INLINE"])
def test_e7_environment_variable_enables_validation_of_all_executors(
    executor_type: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VALIDATE_VARIABLE, "1")
    config = {"experimental": {"executor_type": executor_type}}
    with Session(graph=PLAIN, config=config) as session:
        assert propagator_type(session, "y:0", {"x:0": 1}) is ValidatingSimplePropagator
