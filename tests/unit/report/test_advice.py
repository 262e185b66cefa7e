"""The advice that a report gives."""

from __future__ import annotations

import pytest

import graphmill
from graphmill import ops, report
from graphmill.explain.compilation import ClusterRecord, Compilation, SignatureRecord
from graphmill.explain.step import StepRecord
from graphmill.report.advice import Advice, advice_for
from graphmill.report.traced_steps import TracedStep


@pytest.mark.jax
def test_a_slow_loop_that_is_not_compiled_is_named_with_the_reason() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("string", [], name="x")
        loop = graphmill.while_loop(
            lambda _, i: i < 300,
            lambda s, i: (ops.string.string_lower(s), i + 1),
            [x, graph.constant(0)],
            name="slow",
        )
        ops.array.identity(loop[0], name="y")
    with graphmill.Session(graph=graph) as session:
        data = report.collect(session, "y:0", {"x:0": b"A"}, steps=8)
    found = [one for one in data["advice"] if "which is not compiled" in one["title"]]
    assert len(found) == 1
    assert "some of its nodes cannot be traced: slow/StringLower (StringLower)" in found[0]["text"]
    assert found[0]["nodes"]


def test_calls_without_a_place_are_counted_with_the_cause() -> None:
    cause = "16 signatures are being counted: pad them"
    cluster = ClusterRecord("cluster/y/0", ("mul", "y"))
    others = SignatureRecord("others", reason=cause)
    others.state = "no slot"
    others.counts.num_straight = 22
    cluster.signatures += [SignatureRecord("float32[1]"), others]
    compilation = Compilation()
    compilation.clusters.append(cluster)
    record = StepRecord((), ("y:0",), (), 40, 1, "tiered", "", (), {"CPU:0": compilation})
    found = [one for one in advice_for(record, ()) if "signatures" in one.title]
    assert found == [
        Advice(
            "22 calls of cluster/y/0 had new signatures",
            f"They are not compiled: {cause}.",
            ("cluster/y/0",),
        )
    ]


@pytest.mark.parametrize(
    ("num_steps", "title"),
    [(0, "No step was run"), (39, "No step was traced, of 39 that were run")],
)
def test_advice_without_traced_steps_says_how_to_trace(num_steps: int, title: str) -> None:
    record = StepRecord((), ("y:0",), (), num_steps, 0, "tiered", "", (), {})
    (advice,) = advice_for(record, ())
    assert advice.title == title
    assert "pass steps= to report.collect" in advice.text


@pytest.mark.parametrize(
    ("num_steps", "title"), [(1, "Only 1 step was run"), (2, "Only 2 steps were run")]
)
def test_few_steps_are_counted(num_steps: int, title: str) -> None:
    record = StepRecord((), ("y:0",), (), num_steps, 0, "tiered", "", (), {})
    (advice,) = advice_for(record, [TracedStep("step", [])])
    assert advice.title == title
