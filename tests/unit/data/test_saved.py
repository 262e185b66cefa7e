"""`Dataset.save`, `load` and `snapshot` without TensorFlow."""

from __future__ import annotations

from collections import namedtuple
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import graphmill
from graphmill import errors
from graphmill import functions as F
from graphmill.data import Dataset, TensorSpec

if TYPE_CHECKING:
    from pathlib import Path

Point = namedtuple("Point", "x y")  # noqa: PYI024 - as programs write it


def ints(dataset: Dataset) -> list[int]:
    return [int(element) for element in dataset]


@pytest.mark.parametrize("compression", [None, "GZIP"])
def test_saved_elements_are_loaded(tmp_path: Path, compression: str | None) -> None:
    rows = Dataset.from_tensor_slices({"p": Point([1, 2], [0.5, 1.5]), "a": (["u", "v"],)})
    assert rows.save(tmp_path / "made", compression) is None
    loaded = Dataset.load(tmp_path / "made", compression=compression)
    assert str(loaded.element_spec) == str(
        {"a": rows.element_spec["a"], "p": rows.element_spec["p"]}
    )
    assert list(loaded) == [
        {"a": (b"u",), "p": (1, 0.5)},
        {"a": (b"v",), "p": (2, 1.5)},
    ]


def test_unknown_sizes_are_loaded(tmp_path: Path) -> None:
    batches = Dataset.range(3).batch(2)
    batches.save(tmp_path)
    assert Dataset.load(tmp_path).element_spec == TensorSpec([None], "int64")
    named = Dataset.load(tmp_path, TensorSpec(None, "int64"))
    assert [batch.tolist() for batch in named] == [[0, 1], [2]]


def test_shards_and_how_they_are_read(tmp_path: Path) -> None:
    Dataset.range(5).save(tmp_path, shard_func=lambda x: x % 2)
    assert len(list(tmp_path.rglob("*.snapshot"))) == 2
    loaded = Dataset.load(tmp_path, reader_func=lambda shards: shards.flat_map(lambda x: x))
    assert ints(loaded) == [0, 2, 4, 1, 3]


def test_save_in_a_graph_is_a_node(tmp_path: Path) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        count = graph.placeholder("int64", [])
        write = Dataset.range(count).save(tmp_path)
    with graphmill.Session(graph=graph) as session:
        session.run(write, {count: 3})
    assert ints(Dataset.load(tmp_path)) == [0, 1, 2]


def test_snapshot_is_computed_once(tmp_path: Path) -> None:
    numbers = Dataset.range(4).map(lambda x: F.random_uniform([])).snapshot(tmp_path)
    first = [float(number) for number in numbers]
    assert sorted(float(number) for number in numbers) == sorted(first)
    assert len(set(first)) == 4


def test_snapshot_with_one_shard_keeps_the_order(tmp_path: Path) -> None:
    numbers = Dataset.range(4).snapshot(tmp_path, "GZIP", shard_func=lambda x: np.int64(0))
    assert ints(numbers) == ints(numbers) == [0, 1, 2, 3]


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    numbers = Dataset.range(2)
    with pytest.raises(errors.NotFoundError, match=r"dataset_spec\.pb"):
        Dataset.load(tmp_path / "none")
    with pytest.raises(errors.UnimplementedError, match="wait=True is not supported"):
        Dataset.load(tmp_path, wait=True)
    with pytest.raises(errors.UnimplementedError, match="checkpoint_args is not supported"):
        numbers.save(tmp_path, checkpoint_args={})
    with pytest.raises(errors.InvalidValueError, match="`shard_func` must return the number"):
        numbers.save(tmp_path, shard_func=lambda x: 0.5)
    with pytest.raises(errors.InvalidValueError, match="flatten them with flat_map"):
        numbers.window(2).save(tmp_path)
    with pytest.raises(errors.InvalidValueError, match="`reader_func` must return a Dataset"):
        numbers.snapshot(tmp_path, reader_func=lambda shards: shards)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("content", "error"), [(b"\xff", errors.DataLossError), (b"", errors.InvalidValueError)]
)
def test_a_damaged_spec_is_refused(tmp_path: Path, content: bytes, error: Any) -> None:
    (tmp_path / "dataset_spec.pb").write_bytes(content)
    with pytest.raises(error, match="load: "):
        Dataset.load(tmp_path)
