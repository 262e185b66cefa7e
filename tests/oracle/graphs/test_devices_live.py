"""Random loops and conditionals on three CPU devices equal TensorFlow's (clauses P1, P3, E7)."""

from __future__ import annotations

import random

import numpy as np
import pytest

import graphmill
from graphmill import proto

pytestmark = pytest.mark.oracle

DEVICES = 3
SEEDS = range(40)


class Drawer:
    """Draws random nested `while_loop`s and `cond`s, each node on a random device."""

    def __init__(self, tf, seed):
        self.tf = tf
        self.tf1 = tf.compat.v1
        self.random = random.Random(seed)

    def device(self):
        return self.tf1.device(
            self.random.choice([None, *(f"/device:CPU:{n}" for n in range(DEVICES))])
        )

    def block(self, values, depth):
        values = list(values)
        for _ in range(self.random.randrange(1, 4)):
            kind = self.random.random()
            if depth and kind < 0.35:
                values.append(self.cond(values, depth - 1))
            elif depth and kind < 0.7:
                values += self.loop(values, depth - 1)
            else:
                values.append(self.plain(values))
        return values

    def plain(self, values):
        tf = self.tf
        a, b = self.random.choice(values), self.random.choice(values)

        def after():
            with tf.control_dependencies([b.op]):
                return tf.identity(a)

        makers = [
            lambda: a + b,
            lambda: a * 0.5 - b * 0.25,
            lambda: tf.tanh(a),
            lambda: tf.maximum(a, b),
            after,
        ]
        with self.device():
            return self.random.choice(makers)()

    def cond(self, values, depth):
        with self.device():
            threshold = self.random.choice(values) + self.random.uniform(-0.3, 0.3)
            predicate = self.random.choice(values) < threshold
        with self.device():
            return self.tf1.cond(
                predicate,
                lambda: self.block(values, depth)[-1] + 0.125,
                lambda: self.block(values, depth)[-1] - 0.125,
            )

    def loop(self, values, depth):
        limit = self.random.randrange(4)
        start = [self.tf.identity(self.random.choice(values)) for _ in range(2)]

        def cond(i, *_):
            with self.device():
                return i < limit

        def body(i, *own):
            made = self.block([*values, *own], depth)
            results = [self.tf.tanh(self.random.choice(made[-3:])) for _ in own]
            with self.device():
                return [i + 1, *results]

        parallel = self.random.choice([1, 2, 10])
        with self.device():
            return self.tf1.while_loop(
                cond, body, [self.tf.constant(0), *start], parallel_iterations=parallel
            )[1:]


def draw(tf, seed):
    """Return a GraphDef and the names of results computed from x0 and x1."""
    tf1 = tf.compat.v1
    tf1.disable_control_flow_v2()
    with tf1.Graph().as_default() as graph:
        drawer = Drawer(tf, seed)
        inputs = [tf1.placeholder(tf.float32, [], name=f"x{n}") for n in range(2)]
        made = drawer.block(inputs, drawer.random.choice([1, 2, 2, 3]))[2:]
        names = [tf.identity(value, name=f"y{n}").name for n, value in enumerate(made)]
    return graph.as_graph_def(), names


def ask_tensorflow(tf, graph_def, names, feeds):
    """Run on one device without optimization, because Grappler miscompiles some of these."""
    tf1 = tf.compat.v1
    plain = tf1.GraphDef.FromString(graph_def.SerializeToString())
    for node in plain.node:
        node.device = ""
    config = tf1.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    with tf1.Graph().as_default():
        tf1.import_graph_def(plain, name="")
        with tf1.Session(config=config) as session:
            return session.run(names, feeds)


@pytest.mark.parametrize("scatter", [False, True], ids=["as asked", "every node anywhere"])
@pytest.mark.parametrize("seed", SEEDS)
def test_loops_and_branches_across_devices_match_tensorflow_p3(tf, seed, scatter):
    graph_def, names = draw(tf, seed)
    feeds = {"x0:0": 0.25, "x1:0": -0.75}
    expected = ask_tensorflow(tf, graph_def, names, feeds)
    ours = proto.GraphDef.FromString(graph_def.SerializeToString())
    if scatter:
        chance = random.Random(seed)
        for node in ours.node:
            node.device = f"/device:CPU:{chance.randrange(DEVICES)}"
            node.attr.pop("_class", None)
    with graphmill.Session(graph=ours, config={"device_count": {"CPU": DEVICES}}) as session:
        got = session.run(names, feeds, options={"timeout_in_ms": 30_000})
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("asked", ["/cpu:1", ""])
@pytest.mark.parametrize("kind", ["resource", "reference"])
def test_consumer_of_variable_is_colocated_with_it_p1(tf, kind, asked, soft):
    tf1, raw = tf.compat.v1, tf.raw_ops
    with tf1.Graph().as_default() as graph:
        with tf1.device(asked or None):
            if kind == "resource":
                v = raw.VarHandleOp(dtype=tf.float32, shape=[], shared_name="v", name="v")
            else:
                v = raw.VariableV2(shape=[], dtype=tf.float32, shared_name="v", name="v")
        with tf1.device("/cpu:0"):
            if kind == "resource":
                write = raw.AssignVariableOp(resource=v, value=tf.constant(1.0), name="write")
            else:
                write = raw.Assign(ref=v, value=tf.constant(1.0), name="write").op
    found = []
    for system in (tf1, graphmill):
        config = system.ConfigProto(device_count={"CPU": 2}, allow_soft_placement=soft)
        config.graph_options.rewrite_options.disable_meta_optimizer = True
        metadata, options = system.RunMetadata(), system.RunOptions(output_partition_graphs=True)
        if system is tf1:
            session, expected = tf1.Session(graph=graph, config=config), {"fetches": write}
        else:
            ours = proto.GraphDef.FromString(graph.as_graph_def().SerializeToString())
            session = graphmill.Session(graph=ours, config=config)
            expected = {"fetches": [], "targets": ["write"]}
        with session:
            session.run(**expected, options=options, run_metadata=metadata)
        nodes = [node for part in metadata.partition_graphs for node in part.node]
        found.append({node.name: node.device for node in nodes if node.name in ("v", "write")})
    assert found[0] == found[1]
