"""Optimizers update like TensorFlow's, with equal slot names; savers share files."""

from __future__ import annotations

import numpy as np
import pytest

import graphmill
from graphmill import ops
from graphmill.testing.oracle.tensorflow_oracle import session_config

pytestmark = pytest.mark.oracle

OPTIMIZERS = {
    "GradientDescent": lambda t: t.GradientDescentOptimizer(0.1),
    "Momentum": lambda t: t.MomentumOptimizer(0.05, 0.5),
    "Nesterov": lambda t: t.MomentumOptimizer(0.05, 0.5, use_nesterov=True),
    "Adagrad": lambda t: t.AdagradOptimizer(0.5),
    "Adadelta": lambda t: t.AdadeltaOptimizer(1.0),
    "RMSProp": lambda t: t.RMSPropOptimizer(0.1, momentum=0.3),
    "centered RMSProp": lambda t: t.RMSPropOptimizer(0.1, momentum=0.3, centered=True),
    "Ftrl": lambda t: t.FtrlOptimizer(0.5, l1_regularization_strength=0.01),
    "FtrlV2": lambda t: t.FtrlOptimizer(0.5, l2_shrinkage_regularization_strength=0.01),
    "Adam": lambda t: t.AdamOptimizer(0.2),
}
WHOLE = np.array([3, -2], np.float32)
TABLE = np.array([[3, 1], [1, 2], [7, 7]], np.float32)
ROWS = [0, 1, 1]
STEPS = 5


def theirs(tf, make, use_resource):
    v1 = tf.compat.v1
    graph = tf.Graph()
    with graph.as_default(), v1.Session(graph=graph, config=session_config()) as session:
        whole = v1.Variable(WHOLE, name="whole", use_resource=use_resource)
        table = v1.Variable(TABLE, name="table", use_resource=use_resource)
        loss = tf.nn.l2_loss(tf.gather(table, ROWS)) + tf.nn.l2_loss(whole)
        step = make(v1.train).minimize(loss, v1.train.get_or_create_global_step())
        session.run(v1.global_variables_initializer())
        for _ in range(STEPS):
            session.run(step)
        return {v.op.name: session.run(v) for v in v1.global_variables()}


def ours(make, use_resource):
    graph = graphmill.Graph()
    with graph.as_default(), graphmill.Session(graph=graph) as session:
        whole = graphmill.Variable(WHOLE, name="whole", use_resource=use_resource)
        table = graphmill.Variable(TABLE, name="table", use_resource=use_resource)
        if use_resource:
            rows = ops.state.resource_gather(table.handle, ROWS, dtype="float32")
        else:
            rows = ops.array.gather_v2(table.handle, ROWS, 0)
        loss = ops.nn.l2_loss(rows) + ops.nn.l2_loss(whole)
        count = graphmill.train.get_or_create_global_step()
        step = make(graphmill.train).minimize(loss, count)
        session.run(graphmill.global_variables_initializer())
        for _ in range(STEPS):
            session.run(step)
        return {v.variable_name: session.run(v) for v in graphmill.global_variables()}


@pytest.mark.parametrize("use_resource", [True, False])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_update_as_in_tensorflow(name, use_resource, tf):
    expected = theirs(tf, OPTIMIZERS[name], use_resource)
    found = ours(OPTIMIZERS[name], use_resource)
    assert set(found) == set(expected)
    for key, value in expected.items():
        np.testing.assert_allclose(found[key], value, 2e-5, 1e-6, err_msg=key)


def make_trained():
    """Return a graph with variables of both kinds, an optimizer, a saver and its initializer."""
    graph = graphmill.Graph()
    with graph.as_default():
        v = graphmill.Variable(TABLE, name="layer/v")
        r = graphmill.Variable(np.array([1, 2]), name="r", use_resource=False, trainable=False)
        step = graphmill.train.AdamOptimizer(0.1).minimize(ops.nn.l2_loss(v))
        saver = graphmill.train.Saver()
        start = graphmill.global_variables_initializer()
    return graph, saver, start, step, [v, r]


def test_tensorflow_continues_with_our_checkpoint(tf, tmp_path):
    v1 = tf.compat.v1
    graph, saver, start, step, variables = make_trained()
    with graphmill.Session(graph=graph) as session:
        session.run(start)
        session.run(step)
        saver.save(session, tmp_path / "ours", 1)
        expected = session.run(variables)
    latest = tf.train.latest_checkpoint(str(tmp_path))
    assert latest == str(tmp_path / "ours-1")
    with tf.Graph().as_default(), v1.Session() as session:
        theirs = v1.train.import_meta_graph(f"{latest}.meta")
        theirs.restore(session, latest)
        found = {v.op.name: session.run(v) for v in v1.global_variables()}
        assert [v.op.name for v in v1.trainable_variables()] == ["layer/v"]
        session.run("Adam")
        theirs.save(session, str(tmp_path / "theirs"), 2)
        further = {v.op.name: session.run(v) for v in v1.global_variables()}
    np.testing.assert_array_equal(found["layer/v"], expected[0])
    np.testing.assert_array_equal(found["r"], expected[1])

    with graphmill.Session(graph=graph) as session:
        saver.restore(session, graphmill.train.latest_checkpoint(tmp_path))
        back = session.run(list(graph.variables))
    for variable, value in zip(graph.variables, back, strict=True):
        np.testing.assert_array_equal(value, further[variable.variable_name])


def test_tensorflow_reads_our_checkpoint_of_the_first_format(tf, tmp_path):
    with graphmill.Graph().as_default() as graph, graphmill.Session(graph=graph) as session:
        graphmill.Variable(TABLE, name="table")
        graphmill.Variable(WHOLE, name="whole", use_resource=False)
        session.run(graphmill.global_variables_initializer())
        v1_format = graphmill.proto.SaverDef.V1
        path = graphmill.train.Saver(write_version=v1_format).save(session, tmp_path / "m", 3)
    reader = tf.train.load_checkpoint(path)
    assert np.array_equal(reader.get_tensor("table"), TABLE)
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        saver = v1.train.import_meta_graph(f"{path}.meta")
        saver.restore(session, tf.train.latest_checkpoint(str(tmp_path)))
        assert np.array_equal(session.run("whole:0"), WHOLE)
        again = saver.save(session, str(tmp_path / "theirs"))
    with graphmill.Session(graph=graph) as session:
        saver = graphmill.train.Saver(graph=graph, name="again")
        saver.restore(session, again)
        assert np.array_equal(session.run(graph.variables[0].read_value()), TABLE)


def test_tensorflow_continues_with_our_sharded_checkpoint(tf, tmp_path):
    v1 = tf.compat.v1
    with graphmill.Graph().as_default() as graph, graphmill.Session(graph=graph) as session:
        with graph.device("/cpu:0"):
            graphmill.Variable(TABLE, name="table")
        with graph.device("/job:localhost/task:0/cpu:0"):
            graphmill.Variable(WHOLE, name="whole")
        session.run(graphmill.global_variables_initializer())
        saver = graphmill.train.Saver(sharded=True)
        path = saver.save(session, tmp_path / "m", 3, strip_default_attrs=True)
    with tf.Graph().as_default(), v1.Session() as session:
        theirs = v1.train.import_meta_graph(f"{path}.meta")
        theirs.restore(session, path)
        table, whole = v1.global_variables()
        assert np.array_equal(session.run(table), TABLE)
        assert np.array_equal(session.run(whole), WHOLE)
        again = theirs.save(session, str(tmp_path / "theirs"))
    assert len(list(tmp_path.glob("theirs.data-*-of-00002"))) == 2
    with graphmill.Session(graph=graph) as session:
        saver.restore(session, again)
        assert np.array_equal(session.run(graph.variables[1].read_value()), WHOLE)


def test_the_same_values_make_the_same_bytes(tf, tmp_path):
    v1 = tf.compat.v1
    graph = graphmill.Graph()
    with graph.as_default(), graphmill.Session(graph=graph) as session:
        variables = [graphmill.Variable(TABLE, name="a"), graphmill.Variable(WHOLE, name="b/c")]
        saver = graphmill.train.Saver()
        session.run([v.initializer for v in variables])
        saver.save(session, tmp_path / "ours" / "m", write_meta_graph=False)
    with tf.Graph().as_default(), v1.Session() as session:
        v1.Variable(TABLE, name="a", use_resource=True)
        v1.Variable(WHOLE, name="b/c", use_resource=True)
        saver = v1.train.Saver()
        session.run(v1.global_variables_initializer())
        saver.save(session, str(tmp_path / "theirs" / "m"), write_meta_graph=False)
    for end in ("index", "data-00000-of-00001"):
        mine = (tmp_path / "ours" / f"m.{end}").read_bytes()
        assert mine == (tmp_path / "theirs" / f"m.{end}").read_bytes()
