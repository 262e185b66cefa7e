"""Run metadata of a traced step on a cluster."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphmill
from graphmill import ops, proto

pytest.importorskip("grpc")

from tests.plugins.distributed.server.test_cluster import free_addresses

NEAR, FAR = (f"/job:worker/replica:0/task:{number}/device:CPU:0" for number in range(2))


@pytest.fixture(scope="module")
def servers() -> Any:
    addresses = free_addresses(2)
    made = [graphmill.Server({"worker": addresses}, "worker", number) for number in range(2)]
    yield made
    for server in made:
        server.stop()


def test_trace_has_nodes_and_receives_of_all_tasks(servers: Any) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [2], name="x")
        with graph.device(NEAR):
            a = ops.math.add_v2(x, np.float32(1), name="a")
        with graph.device(FAR):
            b = ops.math.neg(a, name="b")
        with graph.device(NEAR):
            ops.math.neg(b, name="c")
    config = {"graph_options": {"build_cost_model": 1}}
    options = proto.RunOptions(
        trace_level=proto.RunOptions.FULL_TRACE, output_partition_graphs=True
    )
    metadata = proto.RunMetadata()
    with graphmill.Session(servers[0].target, graph=graph, config=config) as session:
        session.run("c:0", {"x:0": [1.0, 2.0]})
        found = session.run("c:0", {"x:0": [1.0, 2.0]}, options=options, run_metadata=metadata)
    assert list(found) == [2, 3]
    stats = {d.device: {n.node_name for n in d.node_stats} for d in metadata.step_stats.dev_stats}
    assert len(stats) == len(metadata.step_stats.dev_stats) == 2
    assert {"a", "c", f"RecvTensor:edge_2_b from {FAR}"} <= stats[NEAR]
    assert {"b", f"RecvTensor:edge_1_a from {NEAR}"} <= stats[FAR]
    assert {node.device for node in metadata.cost_graph.node} == {NEAR, FAR}
    assert len(metadata.partition_graphs) == 2
