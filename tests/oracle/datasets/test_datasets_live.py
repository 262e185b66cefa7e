"""Pipelines built by tf.data return equal elements in equal order."""

from __future__ import annotations

import numpy as np
import pytest

import graphmill

pytestmark = pytest.mark.oracle
tf = pytest.importorskip("tensorflow")


def shuffled():
    numbers = tf.data.Dataset.range(50).shuffle(16, seed=7)
    return numbers.map(lambda x: x * x + 1, num_parallel_calls=4).batch(8).repeat(2).prefetch(2)


def interleaved():
    def inner(x):
        return tf.data.Dataset.from_tensors(x).repeat(x % 4)

    return tf.data.Dataset.range(12).interleave(inner, 3, 2, num_parallel_calls=2)


def windows():
    made = tf.data.Dataset.range(20).window(4, shift=3, stride=2, drop_remainder=True)
    return made.flat_map(lambda w: w.batch(4)).padded_batch(2)


def parsed():
    examples = []
    for number in range(9):
        example = tf.train.Example()
        example.features.feature["x"].float_list.value.extend([number, 0.5])
        example.features.feature["s"].bytes_list.value.extend([b"a"] * (number % 3))
        examples.append(example.SerializeToString())
    spec = {"x": tf.io.FixedLenFeature([2], tf.float32), "s": tf.io.VarLenFeature(tf.string)}

    def parse(batch):
        found = tf.io.parse_example(batch, spec)
        return found["x"], tf.sparse.to_dense(found["s"])

    return tf.data.Dataset.from_tensor_slices(examples).batch(4).map(parse)


def chosen():
    numbers = tf.data.Dataset.range(30).filter(lambda x: x % 3 != 0)
    zipped = tf.data.Dataset.zip((numbers.skip(2), numbers.enumerate().take(8)))
    return zipped.concatenate(zipped.take(1)).cache().repeat(2)


def running():
    sums = tf.data.Dataset.range(9).scan(np.int64(0), lambda s, x: (s + x, s + x))
    return sums.take_while(lambda x: x < 30)


def elements(session, values, error):
    found = []
    while True:
        try:
            found.append([np.asarray(value).tolist() for value in session.run(values)])
        except error:
            return found


@pytest.mark.parametrize("build", [shuffled, interleaved, windows, parsed, chosen, running])
def test_elements_are_those_of_tensorflow(build):
    v1 = tf.compat.v1
    with tf.Graph().as_default() as graph:
        iterator = v1.data.make_initializable_iterator(build())
        values = tf.nest.flatten(iterator.get_next())
        start = iterator.initializer
    with v1.Session(graph=graph) as session:
        session.run(start)
        expected = elements(session, values, tf.errors.OutOfRangeError)
    with graphmill.Session(graph=graph.as_graph_def().SerializeToString()) as session:
        session.run([], targets=[start.name])
        names = [value.name for value in values]
        assert elements(session, names, graphmill.errors.OutOfRangeError) == expected
    assert expected
