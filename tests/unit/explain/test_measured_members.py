"""The nodes in clusters with measured times."""

from __future__ import annotations

import pytest

from graphmill.explain.cluster_members import Member
from graphmill.explain.measured_members import measured_times
from graphmill.runtime.steps.step_stats import MeasuredTime, NodeStats

START = 1_700_000_000_000_000_000
WHOLE = NodeStats("cluster", "_Cluster", 7, START, START, START + 1000, ())
STEP = Member("step", "Tanh", "step = Tanh()")
LESS = Member("less", "Less", "less = Less()")
MEMBERS = (
    Member("a", "Neg", "a = Neg()"),
    Member("loop", "While", "loop = While()", "body", (STEP, LESS)),
    Member("b", "Neg", "b = Neg()"),
)
TIMES = {
    ("a",): MeasuredTime(10.0),
    ("loop", "step"): MeasuredTime(300.0, 2),
    ("loop", "less"): MeasuredTime(50.0, 3),
}


@pytest.fixture
def found() -> dict[str, NodeStats]:
    stats = measured_times(WHOLE, MEMBERS, "in cluster, compiled", {"body": 4.0}, TIMES)
    return {one.node_name: one for one in stats}


def test_each_node_has_its_time_after_the_one_before(found: dict[str, NodeStats]) -> None:
    times = {name: (one.started - START, one.ended - START) for name, one in found.items()}
    assert times == {
        "a": (0, 10), "loop": (10, 360), "step": (10, 310), "less": (310, 360), "b": (360, 360)
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "note"),
    [
        ("a", "measured by XLA's profiler: in cluster, compiled"),
        (
            "loop",
            "measured by XLA's profiler: in cluster, compiled; 4 iterations, mean 87.5 ns",
        ),
        ("step", "measured by XLA's profiler together with 1 other node: in cluster, compiled"),
        ("less", "measured by XLA's profiler together with 2 other nodes: in cluster, compiled"),
        ("b", "no time measured, as XLA removed it or ran it before: in cluster, compiled"),
    ],
)
def test_labels_say_how_a_time_was_measured(
    found: dict[str, NodeStats], name: str, note: str
) -> None:
    assert found[name].label.endswith(f" ({note})")
