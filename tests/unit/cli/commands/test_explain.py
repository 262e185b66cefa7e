"""`graphmill explain` gives the reasons for devices and kernels."""

from __future__ import annotations

import json

import pytest

import graphmill
from graphmill.cli import error_reporting
from graphmill.explain.step import explain
from graphmill.graph.formats.import_export import graph_to_graph_def
from graphmill.ops import math, string
from graphmill.testing.fakes import strict_device


def test_all_nodes_are_shown(graphmill_cli, digits) -> None:
    outcome = graphmill_cli("explain", str(digits / "saved_model_tf2"), "--json")
    assert outcome.code == 0, outcome.err
    nodes = json.loads(outcome.out)["nodes"]
    assert nodes
    kernels = [node for node in nodes if node["kernel"]]
    assert all(node["plugin"].startswith("plugin 'kernels'") for node in kernels)
    assert all(node["kernel_reason"] and node["tier_reason"] for node in nodes)
    assert all(node["device"].endswith("CPU:0") and node["placement"] for node in nodes)


def test_the_text_is_a_table_with_a_summary(graphmill_cli, digits) -> None:
    outcome = graphmill_cli("explain", str(digits / "saved_model_tf1"))
    assert "placement" in outcome.out
    lines = outcome.out.strip().splitlines()
    assert lines[0] == "placement of all nodes: the session has one device"
    assert outcome.out.count("the session has one device") == 1
    assert " nodes on CPU:0; not run yet; the graph is rebuilt for compilation" in lines[-1]
    assert lines[-3].startswith("The model may read files in ")


def test_generated_kernels_are_named_after_their_ops(graphmill_cli, digits) -> None:
    outcome = graphmill_cli("explain", str(digits / "saved_model_tf2"), "--json")
    kernels = {node["op"]: node["kernel"] for node in json.loads(outcome.out)["nodes"]}
    assert kernels["Conv2D"] == "graphmill_plugins.kernels.nn.conv.ops.Conv2D"
    assert kernels["MaxPool"] == "graphmill_plugins.kernels.nn.pool.ops.MaxPool"
    assert not [source for source in kernels.values() if "<locals>" in source]


def test_nodes_that_are_not_in_the_model_are_marked(graphmill_cli, digits) -> None:
    model = str(digits / "saved_model_tf2")
    outcome = graphmill_cli("explain", model, "--json")
    nodes = {node["node"]: node["is_added"] for node in json.loads(outcome.out)["nodes"]}
    inlined = "StatefulPartitionedCall/StatefulPartitionedCall"
    assert nodes[f"{inlined}/after"]
    assert not nodes[f"{inlined}/Conv2D"]
    assert not nodes["conv1/kernel"]
    assert " NoOp (added) " in graphmill_cli("explain", model).out


def test_explain_honours_device_and_executor_options(graphmill_cli, digits) -> None:
    options = ("--device", "BOXED", "--executor", "INLINE", "--json")
    host = graphmill.Host(plugins=[strict_device])
    outcome = graphmill_cli("explain", str(digits / "digits_frozen.pb"), *options, host=host)
    assert outcome.code == 0, outcome.err
    nodes = json.loads(outcome.out)["nodes"]
    assert any(node["device"].endswith("BOXED:0") for node in nodes)


def test_placement_and_rejected_kernels_are_shown() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [2, 2], name="x")
        with graph.device("/device:CPU:1"):
            y = math.mat_mul(x, x, name="y")
    config = graphmill.ConfigProto(device_count={"CPU": 2})
    with graphmill.Session(graph=graph, config=config) as session:
        records = {r.node: r for r in explain(session, fetches=[y.name], feeds=[x.name])}
    assert records["y"].device.endswith("CPU:1")
    assert records["y"].placement == "requested"
    assert records["y"].backend == "numpy"
    assert records["y"].tier == "interpreted"
    assert "y (MatMul)" in str(records["y"])


def test_a_node_that_no_step_runs_is_an_error(graphmill_cli, digits) -> None:
    outcome = graphmill_cli("explain", str(digits / "digits_frozen.pb"), "--node", "probabilites")
    assert outcome.code == error_reporting.INVALID
    assert "no node 'probabilites'" in outcome.err
    assert "probabilities" in outcome.err


def test_node_details_are_shown(graphmill_cli, digits) -> None:
    outcome = graphmill_cli("explain", str(digits / "digits_frozen.pb"), "--node", "probabilities")
    assert outcome.code == 0, outcome.err
    assert "probabilities (Softmax)" in outcome.out
    assert "softmax: it is the only matching kernel" in outcome.out
    assert "  tier     not run yet: the graph is rebuilt for compilation after 3" in outcome.out


@pytest.mark.parametrize("option", ["image=0", "--source", "--steps=3"])
def test_jit_options_without_jit_are_a_usage_error(graphmill_cli, digits, option) -> None:
    outcome = graphmill_cli("explain", str(digits / "digits_frozen.pb"), option)
    assert outcome.code == error_reporting.USAGE
    assert "--jit" in outcome.err


def test_jit_report_has_clusters_tiers_and_counts(graphmill_cli, digits) -> None:
    pytest.importorskip("jax")
    outcome = graphmill_cli("explain", str(digits / "saved_model_tf2"), "--jit", "--json")
    assert outcome.code == 0, outcome.err
    report = json.loads(outcome.out)
    jit = report["jit"]
    assert (jit["mode"], jit["reason"], jit["num_steps"]) == ("tiered", "", 20)
    (cluster,) = jit["clusters"]
    (signature,) = cluster["signatures"]
    assert signature["signature"].startswith("float32[1,8,8,1]")
    assert signature["num_straight"] + signature["num_compiled"] == 20 - jit["num_interpreted"]
    assert [compiled["outcome"] for compiled in signature["compiles"]] == ["compiled"]
    assert "source" not in cluster
    outside = {note["node"] for note in jit["outside"]}
    assert not outside & set(cluster["nodes"])
    assert {node["node"] for node in report["nodes"]} == outside | set(cluster["nodes"])


def test_zero_steps_show_the_clusters_and_run_nothing(graphmill_cli, digits) -> None:
    model = str(digits / "digits_frozen.pb")
    outcome = graphmill_cli("explain", model, "--jit", "--steps", "0", "--source")
    assert outcome.code == 0, outcome.err
    assert "0 steps, 0 interpreted" in outcome.out
    assert "not called" in outcome.out
    assert "def cluster(args, " in outcome.out
    assert "# probabilities: Softmax" in outcome.out


def test_an_unknown_input_is_an_error(graphmill_cli, digits) -> None:
    outcome = graphmill_cli("explain", str(digits / "saved_model_tf2"), "--jit", "picture=0")
    assert outcome.code == error_reporting.INVALID
    assert "has no input 'picture'" in outcome.err


def test_zeros_are_not_made_for_strings(graphmill_cli, tmp_path) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        text = graph.placeholder("string", [], name="text")
        string.string_lower(text, name="lower")
    path = tmp_path / "model.pb"
    path.write_bytes(graph_to_graph_def(graph).SerializeToString())
    outcome = graphmill_cli("explain", str(path), "--jit")
    assert outcome.code == error_reporting.INVALID
    assert "cannot make zeros for input 'text" in outcome.err
    assert "try: text" in outcome.err
    outcome = graphmill_cli("explain", str(path), "--jit", "--steps", "1", "text=ABC")
    assert outcome.code == 0, outcome.err


def test_a_step_that_fails_is_an_error_of_execution(graphmill_cli, tmp_path) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("int32", [2], name="x")
        math.floor_div(graph.constant([4, 6]), x, name="y")
    path = tmp_path / "model.pb"
    path.write_bytes(graph_to_graph_def(graph).SerializeToString())
    outcome = graphmill_cli("explain", str(path), "--jit")
    assert outcome.code == error_reporting.EXECUTION
    assert "inputs without a value are zeros" in outcome.err
    outcome = graphmill_cli("explain", str(path), "--jit", "--steps", "1", "x=[1, 2]")
    assert outcome.code == 0, outcome.err


@pytest.mark.jax
def test_json_keys_are_stable(graphmill_cli, digits) -> None:
    """The keys of the JSON output remain, because scripts read them; keys may be added."""
    outcome = graphmill_cli(
        "explain", str(digits / "digits_frozen.pb"), "--jit", "--source", "--steps", "9", "--json"
    )
    report = json.loads(outcome.out)
    jit = report["jit"]
    cluster = jit["clusters"][0]
    signature = cluster["signatures"][0]
    assert {"model", "nodes", "jit"} <= report.keys()
    assert report["nodes"][0].keys() >= {
        "node",
        "op",
        "device",
        "placement",
        "kernel",
        "kernel_reason",
        "plugin",
        "backend",
        "rejected",
        "tier",
        "tier_reason",
        "cluster",
    }
    assert jit.keys() >= {
        "mode",
        "reason",
        "num_steps",
        "num_interpreted",
        "clusters",
        "outside",
        "regions",
    }
    assert cluster.keys() >= {"device", "name", "nodes", "tier", "signatures", "source"}
    assert signature.keys() >= {
        "signature",
        "tier",
        "is_wanted",
        "reason",
        "seconds",
        "compiles",
        "straight_ns",
        "compiled_ns",
        "num_straight",
        "num_compiled",
        "num_checks_failed",
    }
    assert signature["compiles"][0].keys() >= {"seconds", "outcome", "cause", "reason", "cache"}
    assert jit["outside"][0].keys() >= {"device", "node", "op", "reason"}


def test_explain_node_shows_attrs_inputs_and_consumers(graphmill_cli, digits) -> None:
    model = str(digits / "digits_frozen.pb")
    outcome = graphmill_cli("explain", model, "--node", "probabilities", "--json")
    (node,) = json.loads(outcome.out)["nodes"]
    assert node["inputs"]
    assert node["attrs"]["T"]
    text = graphmill_cli("explain", model, "--node", "probabilities").out
    assert f"  input    {node['inputs'][0]}" in text


def test_explain_dot_writes_a_graph(graphmill_cli, digits) -> None:
    outcome = graphmill_cli("explain", str(digits / "saved_model_tf2"), "--dot")
    assert outcome.code == 0, outcome.err
    assert outcome.out.startswith("digraph graphmill {")
    assert 'fillcolor="#f2d2a5"' in outcome.out


def test_explain_dot_excludes_other_output(graphmill_cli, digits) -> None:
    outcome = graphmill_cli("explain", str(digits / "digits_frozen.pb"), "--dot", "--json")
    assert outcome.code == 2
    assert "--dot" in outcome.err


def test_explain_memory_forecasts_from_the_shapes_of_inputs(graphmill_cli, digits) -> None:
    model, image = str(digits / "saved_model_tf2"), f"image=@{digits / 'seven.png'}"
    outcome = graphmill_cli("explain", model, "--memory", image, "--json")
    assert outcome.code == 0, outcome.err
    memory = json.loads(outcome.out)["memory"]
    assert memory["measured"] is None
    (peak,) = memory["forecast"]["peaks"].values()
    assert peak["num_bytes"] >= peak["holders"][0]["num_bytes"] > 0
    text = graphmill_cli("explain", model, "--memory", image).out
    assert "forecast for CPU:0:" in text


def test_explain_memory_with_jit_measures(graphmill_cli, digits) -> None:
    model = str(digits / "digits_frozen.pb")
    image = "image=np.zeros((1, 8, 8, 1))"
    outcome = graphmill_cli("explain", model, "--memory", "--jit", "--steps", "1", image)
    assert outcome.code == 0, outcome.err
    assert "measured in a traced step on CPU:0:" in outcome.out
