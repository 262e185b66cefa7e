"""Random programs with tensor arrays in loops agree with TensorFlow, errors and gradients included.

`GRAPHMILL_TENSOR_ARRAYS=500` compares 500 programs, `GRAPHMILL_TENSOR_ARRAYS=2000:2100` those of
the seeds 2,000 to 2,099. Each runs interpreted, as straight-line code and compiled.
"""

from __future__ import annotations

import os
import random

import numpy as np
import pytest
from tests.oracle.modes import configs

import graphmill
from graphmill import proto

pytestmark = pytest.mark.oracle


def seeds() -> range:
    first, _, end = os.environ.get("GRAPHMILL_TENSOR_ARRAYS", "20").rpartition(":")
    return range(int(first or 0), int(end))


class Drawing:
    """Draws a graph of one seed with TensorFlow.

    An array is written in one of four ways, a loop reads it at drawn indices and writes another
    array, which is then read. Many of the indices come twice, or are never written.
    """

    def __init__(self, tf, seed):
        self.tf = tf
        self.draw = random.Random(seed)
        self.size = self.draw.randint(1, 5)

    def index(self):
        """Return a function from the number of an iteration to an index."""
        tf, size = self.tf, self.size
        choices = [lambda i: i, lambda i: size - 1 - i, lambda i: i // 2, lambda i: 2 * i % size]
        return self.draw.choice([*choices, lambda i: tf.minimum(i + 1, size - 1)])

    def array(self, **options):
        """Return a new array with drawn options."""
        shape = self.draw.choice([None, [2], [None]])
        clears, infers = self.draw.random() < 0.6, self.draw.random() < 0.5
        return self.tf.TensorArray(
            self.tf.float32,
            self.size,
            clear_after_read=clears,
            element_shape=shape,
            infer_shape=infers,
            **options,
        )

    def filled(self, array, rows, count):
        """Return an array after some or all of its elements were written."""
        tf, draw = self.tf, self.draw
        way = draw.randrange(4)
        if way == 0:
            return array.unstack(rows)
        if way == 1:
            return array.scatter(draw.sample(range(self.size), self.size), rows)
        if way == 2:
            for index in range(draw.randint(0, self.size)):
                array = array.write(index, rows[index])
            return array
        stop = draw.choice([self.size, count])
        return tf.while_loop(
            lambda i, _: i < stop, lambda i, one: (i + 1, one.write(i, rows[i])), [0, array]
        )[1]

    def reader(self):
        """Return a function from an array and the number of an iteration to an element."""
        tf, index, way = self.tf, self.index(), self.draw.randrange(3)

        def read(array, i):
            if way == 0:
                return array.read(index(i))
            if way == 1:
                return tf.reduce_sum(array.gather([index(i)]), 0)
            at = index(i)
            return tf.cond(i % 2 < 1, lambda: array.read(at), lambda: tf.zeros([2]))

        return read

    def results(self, source, target):
        """Return results that read one of the arrays after the loop."""
        tf, way = self.tf, self.draw.randrange(4)
        if way == 0:
            return [target.stack()]
        if way == 1:
            return [target.gather([0, self.draw.randrange(self.size)])]
        if way == 2:
            return [tf.reshape(source.stack(), [-1])]
        stacked = target.stack()
        with tf.control_dependencies([stacked]):
            return [stacked, target.read(0)]

    def graph(self):
        """Return a graph, the names of its results, and the feeds."""
        tf, v1 = self.tf, self.tf.compat.v1
        with tf.Graph().as_default() as graph:
            rows = v1.placeholder(tf.float32, [self.size, 2], "rows")
            count = v1.placeholder(tf.int32, [], "count")
            array = self.array(dynamic_size=self.draw.random() < 0.25)
            array = self.filled(array, rows, count)
            read, written = self.reader(), self.index() if self.draw.random() < 0.4 else None
            stop = self.draw.choice([self.size, self.size, count])

            def body(i, source, target, total):
                value = tf.reshape(read(source, i), [2])
                at = i if written is None else written(i)
                return i + 1, source, target.write(at, 2 * value), total + value

            loop = [0, array, self.array(), tf.zeros([2])]
            _, source, target, total = tf.while_loop(
                lambda i, *_: i < stop, body, loop, parallel_iterations=1
            )
            with tf.control_dependencies([total]):
                results = [total, *self.results(source, target)]
            if self.draw.random() < 0.5:
                results += tf.gradients(results[:2], rows)
            names = [tf.identity(one).name for one in results if one is not None]
        values = np.arange(2 * self.size, dtype=np.float32).reshape(self.size, 2) + 1
        feeds = {"rows:0": values, "count:0": np.int32(self.draw.randint(0, self.size))}
        return graph, names, feeds


def outcome(session, names, feeds):
    """Return the values of a step, or the name of the class of its error."""
    try:
        return [np.array(value) for value in session.run(names, feeds)]
    except Exception as error:  # noqa: BLE001 - which exception it is gets compared
        return type(error).__name__


@pytest.mark.parametrize("primitives", [True, False])
@pytest.mark.parametrize("seed", seeds())
def test_tensor_arrays_in_loops(seed, primitives, tf):
    v1 = tf.compat.v1
    switch = v1.disable_control_flow_v2 if primitives else v1.enable_control_flow_v2
    was_enabled = v1.control_flow_v2_enabled()
    switch()
    try:
        graph, names, feeds = Drawing(tf, seed).graph()
    finally:
        (v1.enable_control_flow_v2 if was_enabled else v1.disable_control_flow_v2)()
    with v1.Session(graph=graph) as session:
        expected = outcome(session, names, feeds)
    message = proto.GraphDef.FromString(graph.as_graph_def().SerializeToString())
    for mode, config in configs(seed).items():
        ours = graphmill.Graph.from_graph_def(message)
        with graphmill.Session("", ours, config) as session:
            for _ in range(2):
                found = outcome(session, names, feeds)
                if isinstance(expected, str) or isinstance(found, str):
                    assert found == expected, mode
                    continue
                for value, other in zip(expected, found, strict=True):
                    np.testing.assert_allclose(other, value, rtol=1e-5, atol=1e-6, err_msg=mode)
