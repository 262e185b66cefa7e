"""Variants cross between our tasks and TensorFlow's, in both directions and under both masters."""

from __future__ import annotations

import socket

import numpy as np
import pytest
from tests.oracle.variant_cases import CASES

import graphmill

pytestmark = pytest.mark.oracle


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


@pytest.fixture(scope="module", params=[0, 1], ids=["our master", "TensorFlow's master"])
def target(request, tf):
    """Yield the target of the first of two tasks, one of which is ours."""
    pytest.importorskip("grpc")
    cluster = {"worker": [f"127.0.0.1:{port}" for port in free_ports(2)]}
    with graphmill.Server(cluster, "worker", request.param) as ours:
        theirs = tf.distribute.Server(cluster, job_name="worker", task_index=1 - request.param)
        yield theirs.target if request.param else ours.target


@pytest.mark.parametrize("maker", [0, 1])
@pytest.mark.parametrize("case", CASES)
def test_variant_is_sent_to_another_task(tf, target, case, maker):
    make, use = CASES[case]
    v1 = tf.compat.v1

    def outputs(devices):
        with tf.Graph().as_default() as graph:
            with tf.device(devices[maker]):
                variant = make(tf)
            with tf.device(devices[1 - maker]):
                return graph, use(tf, variant)

    graph, fetches = outputs(("/cpu:0", "/cpu:0"))
    with v1.Session(graph=graph) as session:
        expected = session.run(fetches)
    graph, fetches = outputs(("/job:worker/task:0/cpu:0", "/job:worker/task:1/cpu:0"))
    config = v1.ConfigProto(operation_timeout_in_ms=60_000)
    config.graph_options.rewrite_options.constant_folding = 2  # off, so that the variant is sent
    with v1.Session(target, graph=graph, config=config) as session:
        found = session.run(fetches)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)
