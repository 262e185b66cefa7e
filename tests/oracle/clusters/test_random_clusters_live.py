"""Random control flow whose nodes lie on two tasks: our cluster, and our task under TensorFlow's.

The expected values are those of the reference evaluator. `GRAPHMILL_CLUSTER_GRAPHS=1000` runs
1,000 graphs (default 20), `GRAPHMILL_CLUSTER_GRAPHS=700:800` those of the seeds 700 to 799.
"""

from __future__ import annotations

import os
import random
import socket

import pytest

import graphmill
from graphmill.graph.formats.import_export import graph_to_graph_def
from graphmill.runtime.dead import DEAD
from graphmill.testing.differential.executors import reference_values
from graphmill.testing.generators.control_flow_graphs import structured_graph

pytestmark = pytest.mark.oracle
DEVICES = [f"/job:worker/task:{task}/device:CPU:0" for task in range(2)]

ENDLESS = {9}
"""Seeds whose graphs never end under TensorFlow's masters, on TensorFlow's own tasks either."""


def seeds():
    first, _, end = os.environ.get("GRAPHMILL_CLUSTER_GRAPHS", "20").rpartition(":")
    return range(int(first or 0), int(end))


def free_addresses(count):
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [f"127.0.0.1:{one.getsockname()[1]}" for one in sockets]
    finally:
        for one in sockets:
            one.close()


@pytest.fixture(scope="module")
def targets(tf):
    """The targets of a cluster of ours, and of one whose master is TensorFlow's server."""
    pytest.importorskip("grpc")
    own, mixed = ({"worker": free_addresses(2)} for _ in range(2))
    with (
        graphmill.Server(own, "worker", 1),
        graphmill.Server(own, "worker", 0) as first,
        graphmill.Server(mixed, "worker", 1),
    ):
        theirs = tf.distribute.Server(mixed, job_name="worker", task_index=0)
        yield {"ours": first.target, "mixed": theirs.target}


def spread(made, seed):
    """Return the GraphDef of a random graph with each node on a random task."""
    content = graph_to_graph_def(made.graph)
    choose = random.Random(seed)
    for node in content.node:
        node.device = choose.choice(DEVICES)
    return content


@pytest.mark.parametrize("system", ["ours", "mixed"])
@pytest.mark.parametrize("seed", seeds())
def test_values_and_dead_ends_agree_with_the_reference(seed, system, tf, targets, graphmill_host):
    if system == "mixed" and seed in ENDLESS:
        pytest.skip("TensorFlow's own cluster does not end this graph either")
    made = structured_graph(seed, graphmill_host.ops)
    expected = reference_values(made, graphmill_host)
    with tf.Graph().as_default() as graph:
        content = spread(made, seed).SerializeToString()
        tf.import_graph_def(tf.compat.v1.GraphDef.FromString(content), name="")
    alive = {name: value for name, value in expected.items() if value is not DEAD}
    dead = [name for name in expected if name not in alive]
    # TensorFlow's workers report a dead fetch as INTERNAL, its local sessions as INVALID_ARGUMENT.
    refused = (tf.errors.InvalidArgumentError, tf.errors.InternalError)[: 1 + (system == "mixed")]
    options = tf.compat.v1.RunOptions(timeout_in_ms=60_000)
    with tf.compat.v1.Session(targets[system], graph=graph) as session:
        if made.start:
            session.run(made.start, options=options)
        found = session.run(list(alive), made.feeds, options=options)
        for (name, value), actual in zip(alive.items(), found, strict=True):
            assert (actual, actual.dtype) == (value, value.dtype), f"{made.name}, {name}"
        for name in dead[:2]:
            with pytest.raises(refused):
                session.run(name, made.feeds, options=options)
