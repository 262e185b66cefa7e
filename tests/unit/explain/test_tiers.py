"""`Session.explain` reports each node's tier, the reason, and call counts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import graphmill
from graphmill import ops
from graphmill.errors import CancelledError, NotFoundError, OpError
from graphmill.explain import explain_all
from graphmill.explain.compilation import compilation_of, find_compilation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphmill.plugin.host import Host

pytestmark = pytest.mark.jax


@pytest.fixture
def graph() -> Iterator[graphmill.Graph]:
    made = graphmill.Graph()
    with made.as_default():
        yield made


def tanh_graph(graph: graphmill.Graph, size: int | None = 3) -> tuple[Any, Any]:
    x = graph.placeholder("float32", [size], name="x")
    return x, ops.math.tanh(x * 2.0 + 1.0, name="y")


def config(**keys: Any) -> dict[str, Any]:
    return {"graphmill": keys}


def run(session: Any, host: Host, fetches: Any, feeds: Any, steps: int) -> None:
    for _ in range(steps):
        session.run(fetches, feeds)
        host.background.wait_idle()


def the_signatures(record: Any) -> list[Any]:
    (compilation,) = record.compilations.values()
    return [signature for cluster in compilation.clusters for signature in cluster.signatures]


def test_explain_before_first_step_says_when_compilation_starts(
    graph: graphmill.Graph, graphmill_host: Host
) -> None:
    x, y = tanh_graph(graph)
    with graphmill.Session("", graph, None, graphmill_host) as session:
        record = session.explain(y, [x])
        assert (record.num_steps, record.compilations) == (0, {})
        assert record.reason.endswith("after 3 steps")
        assert {node.tier for node in record.nodes} == {"interpreted"}
        assert {node.tier_reason for node in record.nodes} == {record.reason}


def test_each_call_is_counted_in_its_tier(graph: graphmill.Graph, graphmill_host: Host) -> None:
    x, y = tanh_graph(graph)
    with graphmill.Session("", graph, None, graphmill_host) as session:
        run(session, graphmill_host, y, {x: [1, 2, 3]}, 20)
        record = session.explain(y, [x])
    assert (record.num_steps, record.num_interpreted, record.reason) == (20, 3, "")
    (signature,) = the_signatures(record)
    assert signature.signature == "float32[3]"
    assert signature.num_straight + signature.num_compiled == 17
    assert signature.num_straight >= 1
    assert signature.num_compiled >= 8  # of which the shortest decided
    assert signature.straight_ns > 0
    assert signature.compiled_ns > 0
    (compiled,) = signature.compiles
    assert (compiled.outcome, compiled.cause) == ("compiled", "a new signature")
    assert 0 < compiled.seconds == signature.seconds


def test_nodes_name_their_cluster_or_the_reason(
    graph: graphmill.Graph, graphmill_host: Host
) -> None:
    x, y = tanh_graph(graph)
    text = ops.string.as_string(y, name="text")
    with graphmill.Session("", graph, config(jit="eager"), graphmill_host) as session:
        session.run(text, {x: [1, 2, 3]})
        record = session.explain(text, [x])
    nodes = {node.node: node for node in record.nodes}
    assert nodes["y"].tier == "compiled"
    assert nodes["y"].tier_reason.startswith("compiled in ")
    (compilation,) = record.compilations.values()
    assert nodes["y"].cluster == compilation.clusters[0].name
    assert (nodes["text"].tier, nodes["text"].cluster) == ("interpreted", "")
    assert nodes["text"].tier_reason == "it has tensors of string"
    assert {note.node for note in compilation.outside} >= {"text"}


def test_text_of_a_record_has_the_tier_of_each_node_with_its_reason(
    graph: graphmill.Graph, graphmill_host: Host
) -> None:
    x, y = tanh_graph(graph)
    with graphmill.Session("", graph, config(jit="off"), graphmill_host) as session:
        session.run(y, {x: [1.0, 2.0, 3.0]})
        record = session.explain(y, [x])
    head, *lines = str(record).splitlines()
    assert head.startswith(f"mode off: {record.reason}; 1 steps, 1 interpreted")
    assert len(lines) == len(record.nodes)
    (line,) = (line for line in lines if line.startswith("y (Tanh): "))
    assert line.endswith(f"; interpreted ({record.reason})")


def test_loop_is_reported_with_its_lowering(graph: graphmill.Graph, graphmill_host: Host) -> None:
    x = graph.placeholder("int32", [], name="x")
    y = graphmill.while_loop(lambda i: i < 10, lambda i: i + 1, [x])
    with graphmill.Session("", graph, config(jit="eager"), graphmill_host) as session:
        session.run(y, {x: 1})
        record = session.explain(y, [x])
    (compilation,) = record.compilations.values()
    (region,) = compilation.regions
    assert (region.kind, region.is_functional, region.reason) == ("while", True, "")
    tiers = {node.node: node.tier for node in record.nodes if node.node in region.nodes}
    assert set(tiers.values()) == {"compiled"}


def test_a_loop_that_cannot_be_traced_is_straight_line_code(
    graph: graphmill.Graph, graphmill_host: Host
) -> None:
    x = graph.placeholder("string", [], name="x")
    y, _ = graphmill.while_loop(
        lambda _, i: i < 2,
        lambda s, i: (ops.string.string_lower(s), i + 1),
        [x, graph.constant(0)],
    )
    with graphmill.Session("", graph, config(jit="eager"), graphmill_host) as session:
        assert session.run(y, {x: "A"}) == b"a"
        record = session.explain(y, [x])
    nodes = {node.node: node for node in record.nodes}
    assert nodes["while/StringLower"].tier == "straight-line"
    reason = nodes["while/StringLower"].tier_reason
    assert reason.startswith("some of its nodes cannot be traced: while/StringLower (StringLower)")


def test_loop_that_is_not_rewritten_has_a_reason(
    graph: graphmill.Graph, graphmill_host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRAPHMILL_DISABLE_PASSES", "jit_gather")  # would put it on one device
    x = graph.placeholder("float32", [], name="x")

    def body(value: Any) -> Any:
        with graph.device("/device:CPU:1"):
            return ops.math.tanh(value) + 1.0

    y = graphmill.while_loop(lambda value: value < 1.5, body, [x])
    options = {**config(jit="eager"), "device_count": {"CPU": 2}}
    with graphmill.Session("", graph, options, graphmill_host) as session:
        session.run(y, {x: 0.0})
        record = session.explain(y, [x])
    first, second = record.compilations.values()
    assert not any(region.is_functional for region in (*first.regions, *second.regions))
    nodes = {node.node: node for node in record.nodes}
    assert nodes["while/Identity"].tier == "interpreted"
    assert "while while/while_context remains: " in nodes["while/Identity"].tier_reason
    assert "(_Send) reads the condition" in nodes["while/Identity"].tier_reason


def test_failed_checks_are_counted(graph: graphmill.Graph, graphmill_host: Host) -> None:
    x = graph.placeholder("int32", [2], name="x")
    y = ops.math.floor_div(graph.constant([4, 6]), x) + x * 2
    with graphmill.Session("", graph, config(jit="eager"), graphmill_host) as session:
        session.run(y, {x: [1, 2]})
        for _ in range(2):
            with pytest.raises(OpError, match="by zero"):
                session.run(y, {x: [1, 0]})
        (signature,) = the_signatures(session.explain(y, [x]))
    assert (signature.num_compiled, signature.num_checks_failed) == (1, 2)


def test_required_static_values_are_reported(graph: graphmill.Graph, graphmill_host: Host) -> None:
    x = graph.placeholder("float32", [6], name="x")
    shape = graph.placeholder("int32", [2], name="shape")
    y = ops.math.tanh(ops.array.reshape(x * 2.0, shape + 0))
    with graphmill.Session("", graph, config(jit="eager"), graphmill_host) as session:
        session.run(y, {x: np.ones(6), shape: [2, 3]})
        (signature,) = the_signatures(session.explain(y, [x, shape]))
    assert "int32[2]=[2 3]" in signature.signature
    first, second = signature.compiles
    assert (first.outcome, second.outcome) == ("refused", "compiled")
    assert second.cause.startswith("recompiled with more constant inputs: ")


def test_many_signatures_are_reported_in_one_record(
    graph: graphmill.Graph, graphmill_host: Host
) -> None:
    x, y = tanh_graph(graph, None)
    with graphmill.Session("", graph, config(jit_after_steps=1), graphmill_host) as session:
        run(session, graphmill_host, y, {x: [0.0]}, 2)
        for size in range(1, 200):
            session.run(y, {x: np.zeros(size)})
        record = session.explain(y, [x])
    signatures = the_signatures(record)
    assert len(signatures) == 17
    assert signatures[-1].signature == "others"
    assert "signatures are being counted" in signatures[-1].reason
    assert sum(s.num_straight + s.num_compiled for s in signatures) == record.num_steps - 1


def test_one_reason_of_all_nodes_is_that_of_the_record(
    graph: graphmill.Graph, graphmill_host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y = tanh_graph(graph)
    clusters = "graphmill_plugins.jit.clustering.clusters"
    monkeypatch.setattr(f"{clusters}.can_compile_for", lambda _: False)
    with graphmill.Session("", graph, config(jit="eager"), graphmill_host) as session:
        record = session.explain(y, [x])
    assert record.reason == "compilation is not supported on its device"
    assert {node.tier_reason for node in record.nodes} == {record.reason}


def test_a_step_that_is_traced_runs_what_other_steps_run(
    graph: graphmill.Graph, graphmill_host: Host
) -> None:
    x, y = tanh_graph(graph)
    with graphmill.Session("", graph, config(jit="eager"), graphmill_host) as session:
        for level in ("NO_TRACE", "FULL_TRACE", "NO_TRACE"):
            metadata = graphmill.RunMetadata()
            options = {"trace_level": level}
            session.run(y, {x: [1, 2, 3]}, options=options, run_metadata=metadata)
        record = session.explain(y, [x])
    assert (record.num_steps, record.num_interpreted) == (3, 0)


def test_off_is_reported(graph: graphmill.Graph, graphmill_host: Host) -> None:
    x, y = tanh_graph(graph)
    for options in (
        config(jit="off"),
        {"graph_options": {"optimizer_options": {"global_jit_level": "OFF"}}},
    ):
        with graphmill.Session("", graph, options, graphmill_host) as session:
            run(session, graphmill_host, y, {x: [1, 2, 3]}, 5)
            record = session.explain(y, [x])
        assert (record.num_steps, record.num_interpreted) == (5, 5)
        assert record.reason.startswith("compilation is off")
        assert record.mode == "off"


def test_building_on_demand_runs_nothing(graph: graphmill.Graph, graphmill_host: Host) -> None:
    x, y = tanh_graph(graph)
    with graphmill.Session("", graph, None, graphmill_host) as session:
        record = session.explain(y, [x], build=True)
        again = session.explain(y, [x], build=True)
    (compilation,) = record.compilations.values()
    (cluster,) = compilation.clusters
    assert (record.num_steps, record.reason, cluster.signatures) == (0, "", [])
    assert {node.tier_reason for node in record.nodes if node.node in cluster.nodes} == {
        "the cluster has not been called yet"
    }
    assert again.compilations == record.compilations


def test_building_on_demand_does_nothing_where_compilation_is_off(
    graph: graphmill.Graph, graphmill_host: Host
) -> None:
    x, y = tanh_graph(graph)
    with graphmill.Session("", graph, config(jit="off"), graphmill_host) as session:
        assert session.explain(y, [x], build=True).compilations == {}


def test_a_record_is_ready_for_json(graph: graphmill.Graph, graphmill_host: Host) -> None:
    x, y = tanh_graph(graph)
    with graphmill.Session("", graph, config(jit="eager"), graphmill_host) as session:
        session.run(y, {x: [1, 2, 3]})
        content = json.loads(json.dumps(session.explain(y, [x]).as_dict()))
    assert content["fetches"] == ["y:0"]
    ((cluster,),) = [found["clusters"] for found in content["compilations"].values()]
    assert cluster["source"].startswith("def cluster(args, a0):")


def test_all_signatures_are_reported(graph: graphmill.Graph, graphmill_host: Host) -> None:
    x, y = tanh_graph(graph)
    z = ops.math.exp(x, name="z")
    with graphmill.Session("", graph, None, graphmill_host) as session:
        session.run(y, {x: [1, 2, 3]})
        session.run(z, {x: [1, 2, 3]})
        session.run([z, y], {x: [1, 2, 3]})
        records = explain_all(session)
    assert [record.fetches for record in records] == [("y:0",), ("z:0",), ("y:0", "z:0")]
    assert [record.num_steps for record in records] == [1, 1, 1]


def test_a_name_that_is_none_is_an_error(graph: graphmill.Graph, graphmill_host: Host) -> None:
    tanh_graph(graph)
    with (
        graphmill.Session("", graph, None, graphmill_host) as session,
        pytest.raises(NotFoundError),
    ):
        session.explain("nothing:0")
    with pytest.raises(CancelledError):
        session.explain("y:0")


def test_a_graph_has_no_compilation_until_one_is_noted() -> None:
    graph = graphmill.Graph()
    assert find_compilation(graph) is None
    noted = compilation_of(graph)
    assert find_compilation(graph) is noted is compilation_of(graph)
