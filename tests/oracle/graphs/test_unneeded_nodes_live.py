"""Nodes that a step does not need are checked like in TensorFlow (clause P1)."""

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


def message_with(device="", add=lambda: tf.negative(tf.constant(2.0), name="unneeded")):
    graph = tf.Graph()
    with graph.as_default():
        tf.add(tf.constant(1.0), 1.0, name="y")
        with tf.device(device):
            add()
    return graph.as_graph_def()


def two_variables_on_two_devices():
    variables = []
    for device in (0, 1):
        with tf.device(f"/cpu:{device}"):
            variables.append(tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[]))
    one = tf.constant(1.0)
    tf.raw_ops.ResourceApplyAddSign(
        var=variables[0], m=variables[1], lr=one, alpha=one, sign_decay=one, beta=one, grad=one
    )


def colocated_on_another_device():
    with tf.device("/cpu:0"):
        tf.constant(1.0, name="first")
    with tf.device("/cpu:1"):
        second = tf.constant(2.0, name="second")
    names = tf.compat.v1.AttrValue.ListValue(s=[b"loc:@first"])
    second.op._set_attr("_class", tf.compat.v1.AttrValue(list=names))


def assignment_on_another_device():
    with tf.device("/cpu:0"):
        variable = tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[])
    value = tf.constant(1.0)
    with tf.device("/cpu:1"):
        tf.raw_ops.AssignVariableOp(resource=variable, value=value)


UNNEEDED = {
    "no kernel": tf.raw_ops.ConfigureDistributedTPU,
    "conflict": two_variables_on_two_devices,
    "colocated": colocated_on_another_device,
    "assignment": assignment_on_another_device,
}


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


def message_with_missing_function(op):
    message = message_with()
    node = message.node.add(name="call", op=op)
    for attr in ("f",) if op == "PartitionedCall" else ("then_branch", "else_branch"):
        node.attr[attr].func.name = "missing"
    node.attr["Tin"].list.SetInParent()
    node.attr["Tout"].list.type.append(tf.float32.as_datatype_enum)
    if op == "If":
        node.attr["Tcond"].type = tf.float32.as_datatype_enum
        node.input.append("y")
    return message


@pytest.mark.parametrize("settings", CONFIGS.values(), ids=list(CONFIGS))
@pytest.mark.parametrize("add", UNNEEDED.values(), ids=list(UNNEEDED))
def test_nodes_that_cannot_be_placed_fail_the_steps_that_tensorflows_fail(add, settings):
    if add is two_variables_on_two_devices and "allow_soft_placement" in settings:
        pytest.skip("only graphmill puts both variables on one device")
    message = message_with(add=add)
    settings = {"device_count": {"CPU": 2}, **settings}
    assert ours(message, settings) == theirs(message, settings)


@pytest.mark.parametrize("settings", CONFIGS.values(), ids=list(CONFIGS))
@pytest.mark.parametrize("op", ["PartitionedCall", "If"])
def test_calls_of_missing_functions_fail_the_steps_that_tensorflows_fail(op, settings):
    message = message_with_missing_function(op)
    assert ours(message, settings) == theirs(message, settings)
