"""Random pipelines return TensorFlow's elements, also after an iterator has been restored.

`GRAPHMILL_PIPELINES=1000` compares 1,000 pipelines, `GRAPHMILL_PIPELINES=700:800` those of the
seeds 700 to 799.
"""

from __future__ import annotations

import os

import numpy as np
import pytest
from tests.oracle.datasets.random_pipelines import random_pipeline
from tests.oracle.modes import configs

import graphmill

pytestmark = pytest.mark.oracle


def seeds() -> range:
    first, _, end = os.environ.get("GRAPHMILL_PIPELINES", "60").rpartition(":")
    return range(int(first or 0), int(end))


@pytest.mark.parametrize("seed", seeds())
def test_a_pipeline_returns_tensorflows_elements(seed, tf, tmp_path):
    compare(tf, seed, str(tmp_path))


class Program:
    """A graph with an iterator of some kind, and the names of the nodes to run."""

    def __init__(self, tf, seed):
        v1 = tf.compat.v1
        self.graph = tf.Graph()
        with self.graph.as_default():
            dataset, draw = random_pipeline(tf, seed)
            self.kind = draw.choice(["initializable", "one_shot", "structure", "feedable"])
            self.starts = []
            self.handle = self.feed = ""
            if self.kind == "structure":
                types = v1.data.get_output_types(dataset)
                iterator = v1.data.Iterator.from_structure(
                    types, v1.data.get_output_shapes(dataset)
                )
                self.starts = [iterator.make_initializer(dataset).name]
            elif self.kind == "one_shot":
                iterator = v1.data.make_one_shot_iterator(dataset)
            else:
                iterator = v1.data.make_initializable_iterator(dataset)
                self.starts = [iterator.initializer.name]
            source = iterator
            if self.kind == "feedable":
                feed = v1.placeholder(tf.string, [], name="handle")
                self.feed, self.handle = feed.name, iterator.string_handle().name
                iterator = v1.data.Iterator.from_string_handle(
                    feed, v1.data.get_output_types(dataset), v1.data.get_output_shapes(dataset)
                )
            element = iterator.get_next()
            self.fetches = [element["number"].name, element["row"].name]
            self.saver = None
            if self.kind == "initializable" and not reduces(self.graph):
                saveable = tf.data.experimental.make_saveable_from_iterator(source)
                self.saver = v1.train.Saver([saveable]).saver_def
            self.before = draw.randrange(4)

    def elements(self, session, out_of_range, errors, folder):
        """Return all elements, and those after the iterator was restored."""
        for start in self.starts:
            try:
                session.run(start)
            except errors as error:
                return [type(error).__name__]
        feeds = {self.feed: session.run(self.handle)} if self.feed else {}
        found = self.taken(session, feeds, out_of_range, errors, self.before)
        if self.saver is None:
            return found + self.taken(session, feeds, out_of_range, errors, 99)
        where = {self.saver.filename_tensor_name: folder}
        session.run(self.saver.save_tensor_name, where)
        found += self.taken(session, feeds, out_of_range, errors, 99)
        session.run(self.saver.restore_op_name, where)
        return [*found, "restored", *self.taken(session, feeds, out_of_range, errors, 99)]

    def taken(self, session, feeds, out_of_range, errors, count):
        found = []
        for _ in range(count):
            try:
                values = session.run(self.fetches, feeds)
            except out_of_range:
                return found
            except errors as error:
                return [*found, type(error).__name__]
            found.append([np.asarray(value).tolist() for value in values])
        return found


def reduces(graph):
    """Return whether a function reduces a dataset; TensorFlow saves no such iterator."""
    functions = graph.as_graph_def().library.function
    return any(node.op == "ReduceDataset" for one in functions for node in one.node_def)


def compare(tf, seed, folder):
    """Fail where the elements of a pipeline differ."""
    program = Program(tf, seed)
    with tf.compat.v1.Session(graph=program.graph) as session:
        found = tf.errors
        expected = program.elements(
            session, found.OutOfRangeError, found.OpError, folder + "/theirs"
        )
    for mode, config in configs(seed).items():
        message = program.graph.as_graph_def().SerializeToString()
        with graphmill.Session(graph=message, config=config) as session:
            found = graphmill.errors
            elements = program.elements(
                session, found.OutOfRangeError, found.OpError, folder + f"/ours-{mode}"
            )
        assert elements == expected, f"{mode}, {program.kind}"
