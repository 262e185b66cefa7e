"""Scopes, gates, sums and variables of a graph give the nodes that `tf.compat.v1` gives."""

from __future__ import annotations

import numpy as np
import pytest

import graphmill
from graphmill import functions, ops, train

pytestmark = pytest.mark.oracle


class TensorFlow:
    """The calls of a program, in TensorFlow."""

    def __init__(self, tf):
        self.v1 = tf.compat.v1
        self.graph = self.v1.Graph()
        self.square, self.mul, self.exp = self.v1.square, self.v1.multiply, self.v1.exp
        self.gather, self.gradients = self.v1.gather, self.v1.gradients
        self.aggregation, self.optimizer = (
            tf.AggregationMethod,
            self.v1.train.GradientDescentOptimizer,
        )
        self.session = self.v1.Session

    def variable(self, *args, **kwargs):
        kwargs.setdefault("use_resource", True)
        return self.v1.Variable(*args, **kwargs)

    def initializer(self):
        return self.v1.global_variables_initializer()

    def handle(self, variable):
        return variable.handle

    def attr(self, op, name):
        return op.node_def.attr[name].s if name in op.node_def.attr else None


class Graphmill:
    """The same calls, in graphmill."""

    def __init__(self):
        self.graph = graphmill.Graph()
        self.square, self.mul, self.exp = ops.math.square, ops.math.mul, ops.math.exp
        self.gather, self.gradients = functions.gather, graphmill.gradients
        self.aggregation = graphmill.AggregationMethod
        self.optimizer, self.session = train.GradientDescentOptimizer, graphmill.Session
        self.variable, self.initializer = graphmill.Variable, graphmill.global_variables_initializer

    def handle(self, variable):
        return variable.handle

    def attr(self, op, name):
        return op.attrs.get(name)


def constant(api, value, name):
    with api.graph.as_default():
        return (
            api.graph.constant(value, name=name)
            if api.__class__ is Graphmill
            else api.v1.constant(value, name=name)
        )


def gates(api):
    """Return the gates of gradients and the nodes that wait for them."""
    a, b = constant(api, 2.0, "a"), constant(api, 3.0, "b")
    api.gradients(api.mul(api.mul(a, b, name="y"), a, name="z"), [a, b], gate_gradients=True)
    nodes = [node for node in api.graph.get_operations() if "/tuple/" in node.name]
    return sorted((n.name, n.type, len(n.control_inputs)) for n in nodes)


def sums(api):
    """Return the sums of gradients of a tensor that is read several times."""
    x = constant(api, [2.0, 1.0], "x")
    y = api.mul(x, 3.0) + api.mul(x, 4.0) + api.mul(x, x)
    (grad,) = api.gradients(y, x, aggregation_method=api.aggregation.EXPERIMENTAL_TREE)
    nodes = [node for node in api.graph.get_operations() if "_gradient_sum" in node.name]
    with api.session(graph=api.graph) as session:
        return [(n.name, n.type, len(n.inputs)) for n in nodes], session.run(grad).tolist()


def containers(api):
    """Return the containers of variables in nested scopes."""
    found = []
    with api.graph.container("outer"):
        found.append(api.variable(1.0))
        with api.graph.container("inner"):
            found.append(api.variable(1.0))
        with api.graph.container(""):
            found.append(api.variable(1.0))
    found.append(api.variable(1.0))
    return [api.attr(api.handle(v).op, "container") or b"" for v in found]


def overrides(api):
    """Return the values of overridden gradients, and the attr that names them."""
    x = constant(api, 3.0, "x")
    with api.graph.gradient_override_map({"Square": "Neg", "Exp": "Identity"}):
        inner = [api.square(x), api.exp(x)]
    grads = [api.gradients(y, x)[0] for y in (*inner, api.square(x))]
    with api.session(graph=api.graph) as session:
        values = session.run(grads)
    return [api.attr(y.op, "_gradient_op_type") for y in inner], [float(v) for v in values]


def protected(api):
    """Return what a session refuses to feed and to fetch."""
    x, z = constant(api, 1.0, "x"), constant(api, 2.0, "z")
    y = api.mul(x, z, name="y")
    api.graph.prevent_feeding(x)
    api.graph.prevent_fetching(z.op)
    answers = [
        api.graph.is_feedable(x), api.graph.is_feedable(z), api.graph.is_fetchable(x),
        api.graph.is_fetchable(z), api.graph.is_fetchable(z.op),
    ]  # fmt: skip
    with api.session(graph=api.graph) as session:
        for fetch, feeds in ((y, {x: 4.0}), (y, {z: 4.0}), (z, {}), (z.op, {}), ([y, z], {})):
            try:
                answers.append(session.run(fetch, feeds))
            except ValueError:
                answers.append("ValueError")
    return answers


def constraints(api):
    """Return variables after updates, and in which collections they are."""
    v = api.variable([1.0, -3.0], constraint=api.square, name="v")
    hidden = api.variable(2.0, collections=["mine"], name="hidden")
    loss = api.mul(v, v) * hidden
    step = api.optimizer(0.25).minimize(loss, None, None, 1, 1)
    with api.session(graph=api.graph) as session:
        session.run([v.initializer, hidden.initializer])
        session.run(step)
        values = session.run([v, hidden])
    keys = ("variables", "trainable_variables", "mine")
    listed = [[one.name for one in api.graph.get_collection(key)] for key in keys]
    return [np.asarray(value).tolist() for value in values], listed


def gated_steps(api):
    """Return the names of the gates of each value of `gate_gradients`."""
    v, w = api.variable(2.0, name="v"), api.variable(3.0, name="w")
    loss = api.mul(v, w, name="loss")
    names = []
    for gate in (0, 1, 2):
        before = len(api.graph.get_operations())
        api.optimizer(0.5).compute_gradients(loss, gate_gradients=gate)
        added = api.graph.get_operations()[before:]
        names.append(sorted(node.name for node in added if "tuple" in node.name))
    return names


def cached(api):
    """Return the devices of a variable and of the value that steps read."""
    with api.graph.device("/job:ps/task:1"):
        v = api.variable(2.0, caching_device="/job:worker/task:0", name="v")
    read = v.op if api.__class__ is Graphmill else v.value().op
    return [api.handle(v).op.device, read.device, read.type]


def colocations(api):
    """Return the groups of nodes in colocation scopes that are left again."""
    x, y = constant(api, 1.0, "x"), constant(api, 1.0, "y")
    found = []
    with api.graph.device("/cpu:0"), api.graph.colocate_with(x.op):
        found.append(api.square(y))
        with api.graph.colocate_with(None, ignore_existing=True):
            found.append(api.square(y))
            with api.graph.device("/gpu:1"):
                found.append(api.square(y))
        with api.graph.control_dependencies([x.op]), api.graph.control_dependencies(None):
            found.append(api.square(y))
    return [
        (one.op.device, sorted(c.name for c in one.op.control_inputs), groups(one.op))
        for one in found
    ]


def groups(op):
    if hasattr(op, "attrs"):
        return list(op.attrs.get("_class", ()))
    return list(op.node_def.attr["_class"].list.s) if "_class" in op.node_def.attr else []


PROGRAMS = [
    gates, sums, containers, overrides, protected, constraints, gated_steps, cached, colocations,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda one: one.__name__)
def test_program_does_what_tensorflow_does(program, tf):
    theirs, ours = TensorFlow(tf), Graphmill()
    with theirs.graph.as_default():
        expected = program(theirs)
    with ours.graph.as_default():
        assert program(ours) == expected
