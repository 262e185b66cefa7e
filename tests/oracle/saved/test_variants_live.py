"""Variants in checkpoints: TensorFlow reads ours, we read TensorFlow's."""

from __future__ import annotations

import numpy as np
import pytest
from tests.oracle.variant_cases import CASES

import graphmill

pytestmark = pytest.mark.oracle


def saving(tf, case, prefix):
    """Return a graph that saves a variant, and an array of two."""
    with tf.Graph().as_default() as graph:
        variant = CASES[case][0](tf)
        tf.raw_ops.SaveV2(
            prefix=prefix,
            tensor_names=["x", "one", "two"],
            shape_and_slices=["", "", ""],
            tensors=[tf.constant(3.0), variant, tf.stack([variant] * 2)],
            name="save",
        )
    return graph


def reading(tf, case, prefix):
    """Return a graph that restores the variants, and the names of the tensors to read."""
    with tf.Graph().as_default() as graph:
        one, two = tf.raw_ops.RestoreV2(
            prefix=prefix,
            tensor_names=["one", "two"],
            shape_and_slices=["", ""],
            dtypes=[tf.variant] * 2,
        )
        fetches = [*CASES[case][1](tf, one), *CASES[case][1](tf, two[1])]
    return graph, [fetch.name for fetch in fetches]


def run_ours(graph, fetches):
    with graphmill.Session(graph=graph.as_graph_def().SerializeToString()) as session:
        return session.run(fetches)


def run_theirs(tf, graph, fetches):
    with tf.compat.v1.Session(graph=graph) as session:
        return session.run(fetches)


@pytest.mark.parametrize("case", CASES)
def test_a_saved_variant_is_read_by_the_other(tf, case, tmp_path):
    if case == "CSR matrix":
        pytest.skip("TensorFlow refuses a graph that reads a matrix whose shape it does not know")
    theirs, ours = str(tmp_path / "theirs"), str(tmp_path / "ours")
    run_theirs(tf, saving(tf, case, theirs), "save")
    run_ours(saving(tf, case, ours), ["save"])
    graph, fetches = reading(tf, case, theirs)
    expected = run_theirs(tf, graph, fetches)
    found = [run_ours(graph, fetches)]
    graph, fetches = reading(tf, case, ours)
    found += [run_theirs(tf, graph, fetches), run_ours(graph, fetches)]
    for results in found:
        for one, other in zip(results, expected, strict=True):
            np.testing.assert_array_equal(one, other)


def cached(tf, path):
    """Return a graph that takes ragged elements through a cache in files, and the nodes to run."""
    with tf.Graph().as_default() as graph:
        rows = tf.ragged.constant([[1, 2], [3], [], [4, 5, 6]])
        dataset = tf.data.Dataset.from_tensor_slices(rows).cache(path)
        iterator = tf.compat.v1.data.make_initializable_iterator(dataset)
        row = iterator.get_next()
    return graph, iterator.initializer.name, row.name


def rows_of(session, start, row, end):
    """Return all rows; `end` is the error after the last one."""
    session.run(start)
    found = [session.run(row).tolist() for _ in range(4)]
    with pytest.raises(end):
        session.run(row)
    return found


def test_cached_variants_are_read_by_the_other(tf, tmp_path):
    def theirs(path):
        graph, start, row = cached(tf, path)
        with tf.compat.v1.Session(graph=graph) as session:
            return rows_of(session, start, row, tf.errors.OutOfRangeError)

    def ours(path):
        graph, start, row = cached(tf, path)
        with graphmill.Session(graph=graph.as_graph_def().SerializeToString()) as session:
            return rows_of(session, [start], row, graphmill.errors.OutOfRangeError)

    for name, writes, reads in (("a", ours, theirs), ("b", theirs, ours)):
        path = str(tmp_path / name)
        assert writes(path) == reads(path) == [[1, 2], [3], [], [4, 5, 6]]
