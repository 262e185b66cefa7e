"""Datasets and readers of LMDB databases."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import graphmill
from graphmill import errors, ops
from graphmill_plugins.kernels.dataset.pipeline.files.lmdb_records import Database

if TYPE_CHECKING:
    from pathlib import Path

SPEC: dict[str, Any] = {"output_types": ["string", "string"], "output_shapes": [[], []]}
PAIRS = [(b"a", b"1"), (b"b", b"\x00\xff"), (b"c", b"")]


@pytest.fixture
def lmdb() -> Any:
    return pytest.importorskip("lmdb")


def make_database(lmdb: Any, path: Path, pairs: Any = PAIRS, **options: Any) -> str:
    with lmdb.open(str(path), **options) as environment, environment.begin(write=True) as writer:
        for key, value in reversed(pairs):
            writer.put(key, value)
    return str(path)


def texts(values: list[str]) -> Any:
    value = np.array([text.encode() for text in values], object)
    return ops.array.const(value=value, dtype=graphmill.as_dtype("string"))


def records(*paths: str) -> list[tuple[bytes, bytes]]:
    """Return all elements of a dataset."""
    graph = graphmill.Graph()
    with graph.as_default():
        dataset = ops.dataset.lmdb_dataset(texts(list(paths)), **SPEC)
        handle = ops.dataset.iterator_v2(shared_name="", container="", **SPEC)
        start = ops.dataset.make_iterator(dataset, handle)
        element = ops.dataset.iterator_get_next(handle, **SPEC)
    found = []
    with graphmill.Session(graph=graph) as session:
        session.run(start)
        while True:
            try:
                key, value = session.run(element)
            except errors.OutOfRangeError:
                return found
            found.append((bytes(key), bytes(value)))


def test_dataset_returns_keys_and_values_in_order(lmdb: Any, tmp_path: Path) -> None:
    folder = make_database(lmdb, tmp_path / "folder")
    file = make_database(lmdb, tmp_path / "file.mdb", [(b"z", b"9")], subdir=False)
    assert records(folder, file) == [*PAIRS, (b"z", b"9")]


def test_empty_database_has_no_elements(lmdb: Any, tmp_path: Path) -> None:
    empty = make_database(lmdb, tmp_path / "empty", [])
    full = make_database(lmdb, tmp_path / "full")
    assert records(empty, full, empty) == PAIRS


def test_two_iterators_read_a_database_at_the_same_time(lmdb: Any, tmp_path: Path) -> None:
    path = make_database(lmdb, tmp_path / "shared")
    first, second = Database(path), Database(path)
    assert [first.next(), second.next(), first.next()] == [PAIRS[0], PAIRS[0], PAIRS[1]]


def test_database_is_closed_after_its_last_reader(lmdb: Any, tmp_path: Path) -> None:
    path = make_database(lmdb, tmp_path / "closed")
    assert Database(path).next() == PAIRS[0]
    make_database(lmdb, tmp_path / "closed", [(b"0", b"")])  # LMDB opens a database once only
    assert Database(path).next() == (b"0", b"")


def test_missing_database_is_refused_by_path(lmdb: Any, tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="missing' cannot be read"):
        records(str(tmp_path / "missing"))


def test_other_file_is_refused(lmdb: Any, tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes(b"not a database" * 1000)
    with pytest.raises(errors.InvalidArgumentError, match="cannot be read"):
        records(str(path))


def test_matrix_of_paths_is_refused(bind_kernel: Any) -> None:
    paths = np.array([[b"a"]], object)
    kernel = bind_kernel("LMDBDataset", paths, **SPEC)
    with pytest.raises(errors.InvalidArgumentError, match="scalar or a vector"):
        kernel.compute(None, paths)


def test_package_is_named_if_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lmdb", None)
    with pytest.raises(errors.UnimplementedError, match=r"run: pip install 'graphmill\S*\[lmdb\]"):
        records("any")


def test_reader_reads_the_databases_of_a_queue(lmdb: Any, tmp_path: Path) -> None:
    path = make_database(lmdb, tmp_path / "read")
    graph = graphmill.Graph()
    with graph.as_default():
        reader = ops.io.lmdb_reader()
        names = ops.data_flow.fifo_queue(component_types=["string"], shapes=[[]], name="names")
        enqueue = ops.data_flow.queue_enqueue_many(names, [texts([path])])
        end = ops.data_flow.queue_close(names)
        pair = ops.io.reader_read(reader, names)
    with graphmill.Session(graph=graph) as session:
        session.run(enqueue)
        session.run(end)
        found = [tuple(map(bytes, session.run(list(pair)))) for _ in PAIRS]
        with pytest.raises(errors.OutOfRangeError):
            session.run(list(pair))
    assert found == PAIRS
