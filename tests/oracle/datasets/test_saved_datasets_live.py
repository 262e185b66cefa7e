"""Saved datasets and snapshots: TensorFlow reads graphmill's files, and graphmill TensorFlow's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import graphmill
from graphmill.data import Dataset

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.oracle
tf = pytest.importorskip("tensorflow")
save_op = pytest.importorskip("tensorflow.python.data.ops.save_op")


def elements(run, error):
    found = []
    while True:
        try:
            found.append([np.asarray(value).tolist() for value in run()])
        except error:
            return found


def graph_of(build):
    """Return a graph with the iterator of a dataset: the graph, its initializer and values."""
    with tf.Graph().as_default() as graph:
        iterator = tf.compat.v1.data.make_initializable_iterator(build())
        values = tf.nest.flatten(iterator.get_next())
    return graph, iterator.initializer.name, [value.name for value in values]


def run_in_tensorflow(build):
    graph, start, values = graph_of(build)
    with tf.compat.v1.Session(graph=graph) as session:
        session.run(graph.get_operation_by_name(start))
        return elements(lambda: session.run(values), tf.errors.OutOfRangeError)


def run_in_graphmill(build):
    graph, start, values = graph_of(build)
    with graphmill.Session(graph=graph.as_graph_def().SerializeToString()) as session:
        session.run([], targets=[start])
        return elements(lambda: session.run(values), graphmill.errors.OutOfRangeError)


RUNS = {"tensorflow": run_in_tensorflow, "graphmill": run_in_graphmill}


def source():
    components = (
        np.arange(6, dtype=np.int64),
        [b"a", b"bc", b"", b"def" * 9999, b"e", b"f"],
        np.eye(6, dtype=np.float16),
        np.array([True, False] * 3),
        np.zeros((6, 0), np.int32),
    )
    return tf.data.Dataset.from_tensor_slices(components)


def halves(number, *others):
    del others
    return number % 2


def contents(folder: Path) -> dict[str, bytes]:
    """Return the files of the elements, by shard."""
    return {"/".join(path.parts[-2:]): path.read_bytes() for path in folder.rglob("*.snapshot")}


@pytest.mark.parametrize("compression", ["", "GZIP", "SNAPPY"])
@pytest.mark.parametrize("shards", [None, halves])
@pytest.mark.parametrize("writer", RUNS)
def test_a_saved_dataset_is_loaded(tmp_path, compression, shards, writer):
    def save():
        return save_op._SaveDataset(source(), str(tmp_path / "made"), shards, compression)

    def load():
        return tf.data.Dataset.load(str(tmp_path / "made"), compression=compression)

    written = RUNS[writer](save)
    assert written == run_in_tensorflow(source)
    loaded = {name: run(load) for name, run in RUNS.items()}
    assert loaded["graphmill"] == loaded["tensorflow"]
    assert sorted(loaded["graphmill"]) == sorted(written)


def test_files_are_those_of_tensorflow(tmp_path):
    for name, run in RUNS.items():
        run(lambda: save_op._SaveDataset(source(), str(tmp_path / name), halves, ""))  # noqa: B023
    assert contents(tmp_path / "graphmill") == contents(tmp_path / "tensorflow")


def rows(m):
    return m.from_tensor_slices(
        {"x": X, "pair": (np.arange(6), [b"a", b"", b"c", b"d", b"e", b"f"])}
    )


X = np.arange(12, dtype=np.float32).reshape(6, 2)


@pytest.mark.parametrize("compression", [None, "GZIP", "SNAPPY"])
@pytest.mark.parametrize("shards", [None, lambda row: row["pair"][0] % 2])
def test_saved_datasets_are_read_by_the_other_system(tmp_path, compression, shards):
    """Each writes a dataset that the other reads, with the spec of its elements."""
    rows(tf.data.Dataset).save(str(tmp_path / "theirs"), compression, shards)
    rows(Dataset).save(tmp_path / "ours", compression, shards)
    expected, actual = contents(tmp_path / "theirs"), contents(tmp_path / "ours")
    assert sorted(expected) == sorted(actual)
    assert compression or expected == actual  # two compressors may differ
    for name in ("ours", "theirs"):
        expected = tf.data.Dataset.load(str(tmp_path / name), compression=compression)
        actual = Dataset.load(tmp_path / name, compression=compression)
        assert structure_of(expected) == structure_of(actual)
        for one, other in zip(expected.as_numpy_iterator(), actual, strict=True):
            tf.nest.map_structure(np.testing.assert_array_equal, one, other)


def structure_of(dataset):
    describe = lambda spec: f"{spec.dtype.name} {spec.shape}"  # noqa: E731
    return tf.nest.map_structure(describe, dataset.element_spec)


@pytest.mark.parametrize("compression", ["AUTO", None, "GZIP"])
def test_the_method_snapshot_gives_equal_elements(tmp_path, compression):
    expected = rows(tf.data.Dataset).snapshot(str(tmp_path / "theirs"), compression or "")
    actual = rows(Dataset).snapshot(tmp_path / "ours", compression)
    assert structure_of(expected) == structure_of(actual)
    for _ in range(2):
        found = list(actual)
        for one, other in zip(expected.as_numpy_iterator(), found, strict=True):
            tf.nest.map_structure(np.testing.assert_array_equal, one, other)


def hash_of(folder):
    """Return the name of the snapshot in a folder."""
    (found,) = [path.name for path in folder.iterdir()]
    return int(found)


@pytest.mark.parametrize("compression", ["", "GZIP", "SNAPPY"])
def test_a_snapshot_is_written_and_read(tmp_path, compression):
    def build():
        folder = str(tmp_path / "made")
        return source().snapshot(folder, compression, shard_func=halves).repeat(2)

    first = run_in_graphmill(build)
    assert first[:6] == run_in_tensorflow(source)
    assert sorted(first[6:]) == sorted(first[:6])
    assert run_in_graphmill(build) == first[6:] * 2


@pytest.mark.parametrize("writer", RUNS)
def test_snapshots_are_exchanged_by_hash(tmp_path, writer):
    def snapshot(dataset):
        return tf.data.Dataset.snapshot(dataset, str(tmp_path), "GZIP", shard_func=halves)

    def with_hash(number):
        original = experimental.snapshot_dataset_v2

        def patched(*args, **options):
            return original(*args, **{**options, "hash_valid": True, "hash": number})

        return patched

    experimental = pytest.importorskip("tensorflow.python.ops.gen_experimental_dataset_ops")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(experimental, "snapshot_dataset_v2", with_hash(77))
        written = RUNS[writer](lambda: snapshot(source()))
        (reader,) = set(RUNS) - {writer}
        found = RUNS[reader](lambda: snapshot(source().map(fail)))
    assert hash_of(tmp_path) == 77
    assert sorted(found) == sorted(written)


def fail(number, *others):
    with tf.control_dependencies([tf.debugging.Assert(False, ["computed again"])]):
        return (tf.identity(number), *others)
