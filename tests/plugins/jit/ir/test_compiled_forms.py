"""`explain` shows whether a lowering, a kernel or a function's body is compiled for a node."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import graphmill
from graphmill.ops import math
from graphmill.runtime.kernels.kernel import kernel
from graphmill.testing.fakes.third_party_plugin import ThirdPartyPlugin, float_op

pytest.importorskip("jax")
pytestmark = pytest.mark.jax


def traced_copy(trace: Any, x: Any) -> Any:
    return x


@pytest.fixture
def host() -> graphmill.Host:
    @kernel("Foreign>Copy", backend="numpy", lowering=traced_copy)
    def copy(x: Any) -> Any:
        return np.copy(x)

    return graphmill.Host(plugins=[ThirdPartyPlugin([float_op("Foreign>Copy")], [copy])])


def foreign_copy(graph: graphmill.Graph, x: Any, name: str = "") -> Any:
    return graph.outputs_of(graph.create_op("Foreign>Copy", [x], name=name or None))[0]


def explained(graph: graphmill.Graph, host: graphmill.Host, y: Any, mode: str) -> Any:
    config = {"graphmill": {"jit": mode, "jit_min_cluster_size": 1}}
    with graphmill.Session(graph=graph, host=host, config=config) as session:
        session.run(y, {"x:0": np.ones(2, np.float32)})
        return session.explain(y, ["x:0"])


def test_lowering_is_distinguished_from_the_kernel(host: graphmill.Host) -> None:
    graph = graphmill.Graph(ops=host.ops)
    with graph.as_default():
        x = graph.placeholder("float32", [2], name="x")
        y = math.tanh(foreign_copy(graph, math.mul(x, graph.constant(2.0)), "copied"), name="y")
    record = explained(graph, host, y, "eager")
    nodes = {node.node: node for node in record.nodes}
    assert nodes["copied"].form == f"lowering {__name__}.traced_copy"
    assert nodes["copied"].kernel.endswith(".copy")
    assert nodes["y"].form == f"kernel {nodes['y'].kernel}"
    assert f"; compiled form: lowering {__name__}.traced_copy" in str(nodes["copied"])
    plain = json.loads(json.dumps(record.as_dict()))
    (compilation,) = plain["compilations"].values()
    (cluster,) = compilation["clusters"]
    assert cluster["forms"]["copied"] == nodes["copied"].form
    assert "constant" in cluster["forms"].values()


def test_nodes_of_a_loop_have_their_own_forms(host: graphmill.Host) -> None:
    graph = graphmill.Graph(ops=host.ops)
    with graph.as_default():
        x = graph.placeholder("float32", [2], name="x")
        y, _ = graphmill.while_loop(
            lambda _, i: i < 3, lambda x, i: (foreign_copy(graph, x) + x, i + 1), [x, 0]
        )
    record = explained(graph, host, y, "eager")
    (copy,) = (node for node in record.nodes if node.op == "Foreign>Copy")
    assert copy.form == f"lowering {__name__}.traced_copy"
    (compilation,) = record.compilations.values()
    (cluster,) = compilation.clusters
    assert any(form.startswith("body of ") for form in cluster.forms.values())


def test_uncompiled_node_has_no_form(host: graphmill.Host) -> None:
    graph = graphmill.Graph(ops=host.ops)
    with graph.as_default():
        x = graph.placeholder("float32", [2], name="x")
        y = math.tanh(x, name="y")
    record = explained(graph, host, y, "off")
    assert {node.form for node in record.nodes} == {""}
