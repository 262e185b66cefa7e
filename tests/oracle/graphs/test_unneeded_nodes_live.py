"""Requested devices of nodes outside of a step are checked like in TensorFlow (row P1)."""

from __future__ import annotations

import pytest

import graphmill
from graphmill import errors

pytestmark = pytest.mark.oracle
tf = pytest.importorskip("tensorflow")

DEVICES = [
    *("", "/device:CPU:0", "/cpu:0", "/device:CPU:1", "/device:GPU:7", "/device:FOO:0"),
    *("/job:localhost", "/job:localhost/task:1", "/job:ps/task:0", "/job:ps/device:CPU:0"),
    "/device:CPU:*",
]
CONFIGS = {
    "default": {},
    "soft": {"allow_soft_placement": True},
    "pruned": {"graph_options": {"place_pruned_graph": True}},
}


def message_with(device):
    graph = tf.Graph()
    with graph.as_default():
        tf.add(tf.constant(1.0), 1.0, name="y")
        with tf.device(device):
            tf.negative(tf.constant(2.0), name="unneeded")
    return graph.as_graph_def()


def theirs(message, settings):
    graph = tf.Graph()
    with graph.as_default():
        tf.import_graph_def(message, name="")
    config = tf.compat.v1.ConfigProto()
    graphmill_config = graphmill.ConfigProto(**settings)
    config.ParseFromString(graphmill_config.SerializeToString())
    with tf.compat.v1.Session(graph=graph, config=config) as session:
        try:
            return float(session.run("y:0"))
        except tf.errors.OpError as error:
            return error.error_code


def ours(message, settings):
    serialized = message.SerializeToString()
    with graphmill.Session(graph=serialized, config=graphmill.ConfigProto(**settings)) as session:
        try:
            return float(session.run("y:0"))
        except errors.OpError as error:
            return error.error_code


@pytest.mark.parametrize("settings", CONFIGS.values(), ids=list(CONFIGS))
@pytest.mark.parametrize("device", DEVICES)
def test_a_step_runs_where_tensorflows_does(device, settings):
    message = message_with(device)
    assert ours(message, settings) == theirs(message, settings)
