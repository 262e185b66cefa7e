"""Datasets written as graphs: TensorFlow and graphmill write the same nodes, and read them."""

from __future__ import annotations

import numpy as np
import pytest

import graphmill

pytestmark = pytest.mark.oracle
tf = pytest.importorskip("tensorflow")
gen_dataset_ops = pytest.importorskip("tensorflow.python.ops.gen_dataset_ops")
experimental = pytest.importorskip("tensorflow.python.ops.gen_experimental_dataset_ops")


def shuffled():
    numbers = tf.data.Dataset.range(10).map(lambda x: x * 2).batch(3)
    return numbers.shuffle(5, seed=3).with_options(tf.data.Options())


def interleaved():
    def inner(x):
        return tf.data.Dataset.from_tensors(x).repeat(x % 4)

    return tf.data.Dataset.range(12).interleave(inner, 3, 2, num_parallel_calls=2)


def cached():
    slices = tf.data.Dataset.from_tensor_slices((["a", "b"], np.eye(2, dtype=np.float16)))
    return slices.cache().prefetch(2).repeat(2)


def joined():
    def pair(count):
        # Not one dataset twice, which TensorFlow writes twice and graphmill once.
        filtered = tf.data.Dataset.range(count).filter(lambda x: x > 0)
        return tf.data.Dataset.zip((tf.data.Dataset.range(count), filtered))

    return pair(3).concatenate(pair(2))


def elements(run, error):
    found = []
    while True:
        try:
            found.append([np.asarray(value).tolist() for value in run()])
        except error:
            return found


def names(text):
    """Return the nodes of a serialized graph."""
    graph = tf.compat.v1.GraphDef.FromString(text)
    return [(node.name, node.op, list(node.input)) for node in graph.node]


@pytest.mark.parametrize("build", [shuffled, interleaved, cached, joined])
def test_graphs_are_those_of_tensorflow(build):
    v1 = tf.compat.v1
    with tf.Graph().as_default() as graph:
        dataset = build()
        text = gen_dataset_ops.dataset_to_graph_v2(dataset._variant_tensor)
        iterator = v1.data.make_initializable_iterator(dataset)
        values = tf.nest.flatten(iterator.get_next())
        with v1.Session() as session:
            theirs = session.run(text)
            session.run(iterator.initializer)
            expected = elements(lambda: session.run(values), tf.errors.OutOfRangeError)
    with graphmill.Session(graph=graph.as_graph_def().SerializeToString()) as session:
        ours = session.run(text.name)
    assert names(ours) == names(theirs)
    with tf.Graph().as_default() as graph:
        placeholder = v1.placeholder(tf.string, ())
        variant = experimental.dataset_from_graph(placeholder)
        again = tf.data.experimental.from_variant(variant, dataset.element_spec)
        iterator = v1.data.make_initializable_iterator(again)
        values = tf.nest.flatten(iterator.get_next())
        with v1.Session() as session:
            session.run(iterator.initializer, {placeholder: ours})
            found = elements(lambda: session.run(values), tf.errors.OutOfRangeError)
    assert found == expected
    with graphmill.Session(graph=graph.as_graph_def().SerializeToString()) as session:
        feeds = {placeholder.name: np.array(theirs, object)}
        session.run([], feeds, targets=[iterator.initializer.name])
        fetches = [value.name for value in values]
        assert elements(lambda: session.run(fetches), graphmill.errors.OutOfRangeError) == expected
