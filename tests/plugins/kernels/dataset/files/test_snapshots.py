"""Snapshots that are incomplete, or whose files other processes write."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import graphmill
from graphmill import dtypes, errors
from graphmill.access.broker import UNRESTRICTED
from graphmill.testing.case import parse_cases
from graphmill.testing.case_graph import case_graph
from graphmill_plugins.kernels.dataset.pipeline.files.snapshot import Chunks
from graphmill_plugins.kernels.dataset.pipeline.files.snapshot_files import (
    number_field,
    read_metadata,
    write_metadata,
)
from graphmill_plugins.kernels.dataset.pipeline.files.snapshot_v1 import _field, _snappy_tensors

NODES = """
[[SnapshotDatasetV2]]
feed = { p = "string: ''", n = "int64: 3" }
functions = [
  "f(x: int64) -> (int64): y = Identity(x); return y",
  "same(d: variant) -> (variant): e = Identity(d); return e",
  "read(d: variant) -> (variant): c = Const(dtype=int64, value='int64: 1'); \
e = InterleaveDataset(d, [], c, c, f=same, Targuments=[], output_types=[int64], \
output_shapes=[[]]); return e",
]
nodes = [
  "zero = Const(dtype=int64, value='int64: 0')",
  "one = Const(dtype=int64, value='int64: 1')",
  "r = RangeDataset(zero, n, one, output_types=[int64], output_shapes=[[]])",
  "d = OP(r, p, [], [], reader_func=read, shard_func=f, Treader_func_args=[], \
Tshard_func_args=[], output_types=[int64], output_shapes=[[]])",
  "h = IteratorV2(shared_name='', container='', output_types=[int64], output_shapes=[[]])",
  "a = MakeIterator(d, h)",
  "x = IteratorGetNext(h, output_types=[int64], output_shapes=[[]])",
]
run = ["a"]
"""


def elements(host: Any, path: Any, count: int, most: int = 9, nodes: str = NODES) -> list[int]:
    """Return the elements of the snapshot of a range, up to a number of them."""
    (case,) = parse_cases(nodes, "t")
    graph = case_graph(case, host.ops)
    path_feed, count_feed = graph.feeds
    found: list[int] = []
    with graphmill.Session(graph=graph.graph_def, host=host) as session:
        feeds = {path_feed: str(path).encode(), count_feed: count}
        session.run([], feeds, targets=["a"])
        while len(found) < most:
            try:
                found.append(int(session.run("x:0")))
            except errors.OutOfRangeError:
                break
    return found


def test_a_snapshot_that_is_not_finished_is_written_again(graphmill_host, tmp_path):
    assert elements(graphmill_host, tmp_path, 3, most=1) == [0]
    (folder,) = tmp_path.iterdir()
    first = read_metadata(str(folder), UNRESTRICTED)
    assert elements(graphmill_host, tmp_path, 3) == [0, 1, 2]
    second = read_metadata(str(folder), UNRESTRICTED)
    assert first is not None
    assert second is not None
    assert (first.is_finalized, second.is_finalized) == (False, True)
    assert elements(graphmill_host, tmp_path, 3) == [0, 1, 2]
    assert read_metadata(str(folder), UNRESTRICTED) == second


def test_snapshots_of_different_datasets_share_a_folder(graphmill_host, tmp_path):
    assert elements(graphmill_host, tmp_path, 2) == [0, 1]
    assert elements(graphmill_host, tmp_path, 3) == [0, 1, 2]
    assert len(list(tmp_path.iterdir())) == 2


class FakeScope:
    """A scope whose pauses let another writer continue."""

    def __init__(self, *steps: Any) -> None:
        self.steps = list(steps)

    def sleep(self, seconds: float) -> None:
        del seconds
        self.steps.pop(0)()


def test_a_list_of_files_waits_until_the_snapshot_is_complete(tmp_path):
    (tmp_path / "chunks").mkdir()

    def write(name):
        (tmp_path / "chunks" / name).write_bytes(b"")

    write("chunk_0_0_3")
    done = tmp_path / "DONE"
    scope: Any = FakeScope(lambda: write("chunk_1_0_3"), done.touch)
    found = [
        element[0].item().decode() for element in Chunks(str(tmp_path), UNRESTRICTED).iterate(scope)
    ]
    names = [path.rpartition("/")[2] for path in found]
    assert names == ["chunk_0_0_3", "chunk_1_0_3"]
    assert not scope.steps


def test_a_snapshot_that_failed_is_an_error(tmp_path):
    (tmp_path / "ERROR").write_text("code: 3")
    scope: Any = FakeScope()
    with pytest.raises(errors.InternalError, match="code: 3"):
        next(Chunks(str(tmp_path), UNRESTRICTED).iterate(scope))


def test_another_file_among_the_chunks_is_refused(tmp_path):
    (tmp_path / "chunks").mkdir()
    (tmp_path / "chunks" / "notes.txt").touch()
    with pytest.raises(errors.InvalidArgumentError, match="chunk_<stream>_<index>_<elements>"):
        Chunks(str(tmp_path), UNRESTRICTED).paths()


FIRST = """
[[SnapshotDataset]]
feed = {{ p = "string: ''", n = "int64: 3" }}
nodes = [
  "zero = Const(dtype=int64, value='int64: 0')",
  "one = Const(dtype=int64, value='int64: 1')",
  "r = RangeDataset(zero, n, one, output_types=[int64], output_shapes=[[]])",
  "d = OP(r, p, {attrs}, output_types=[int64], output_shapes=[[]])",
  "h = IteratorV2(shared_name='', container='', output_types=[int64], output_shapes=[[]])",
  "a = MakeIterator(d, h)",
  "x = IteratorGetNext(h, output_types=[int64], output_shapes=[[]])",
]
run = ["a"]
"""
DAY = 86_400_000_000


def first_elements(host: Any, path: Any, count: int, most: int = 9, **attrs: Any) -> list[int]:
    text = ", ".join(
        f"{name}={value!r}" for name, value in {"shard_size_bytes": 99, **attrs}.items()
    )
    return elements(host, path, count, most, FIRST.format(attrs=text))


def test_unfinished_first_version_is_left_alone_until_it_expires(graphmill_host, tmp_path):
    """Another process may be writing it."""
    assert first_elements(graphmill_host, tmp_path, 3, most=1, snapshot_name="s") == [0]
    folder = tmp_path / "custom-s"
    first = read_metadata(str(folder), UNRESTRICTED)
    assert first_elements(graphmill_host, tmp_path, 3, snapshot_name="s") == [0, 1, 2]
    assert read_metadata(str(folder), UNRESTRICTED) == first
    assert first is not None
    write_metadata(str(folder), replace(first, created=first.created - DAY), UNRESTRICTED)
    assert first_elements(graphmill_host, tmp_path, 3, snapshot_name="s") == [0, 1, 2]
    second = read_metadata(str(folder), UNRESTRICTED)
    assert second is not None
    assert second.is_finalized
    assert first_elements(graphmill_host, tmp_path, 7, snapshot_name="s") == [0, 1, 2]


def test_files_of_the_first_version_have_a_largest_size(graphmill_host, tmp_path):
    attrs = {"snapshot_name": "s", "seed": 3, "shuffle_on_read": True}
    assert first_elements(graphmill_host, tmp_path, 9, 99, **attrs) == list(range(9))
    files = sorted((tmp_path / "custom-s" / "custom").iterdir())
    assert [(file.name, file.stat().st_size) for file in files] == [
        ("00000000.snapshot", 96),
        ("00000001.snapshot", 96),
        ("00000002.snapshot", 24),
    ]
    mixed = first_elements(graphmill_host, tmp_path, 9, 99, **attrs)
    assert sorted(mixed) == list(range(9))
    assert mixed == first_elements(graphmill_host, tmp_path, 9, 99, **attrs)


@pytest.mark.parametrize("compression", ["", "SNAPPY"])
def test_damaged_file_of_the_first_version_is_data_loss(graphmill_host, tmp_path, compression):
    attrs = {"snapshot_name": "s", "compression": compression}
    first_elements(graphmill_host, tmp_path, 2, **attrs)
    (file,) = (tmp_path / "custom-s" / "custom").iterdir()
    whole = file.read_bytes()
    for size in range(1, len(whole)):
        if size not in (24, 34):  # an element ends there
            file.write_bytes(whole[:size])
            with pytest.raises(errors.DataLossError):
                first_elements(graphmill_host, tmp_path, 2, **attrs)


@pytest.mark.parametrize("compression", ["", "SNAPPY"])
def test_length_beyond_the_end_of_the_file_is_a_typed_error(graphmill_host, tmp_path, compression):
    attrs = {"snapshot_name": "s", "compression": compression}
    first_elements(graphmill_host, tmp_path, 2, **attrs)
    (file,) = (tmp_path / "custom-s" / "custom").iterdir()
    whole = file.read_bytes()
    for length in (2**20, 2**40, 2**63, 2**64 - 1):
        file.write_bytes(length.to_bytes(8, "little") + whole[8:])
        with pytest.raises((errors.DataLossError, errors.ResourceExhaustedError)):
            first_elements(graphmill_host, tmp_path, 2, **attrs)


@pytest.mark.parametrize("shape", [[0], [3, 0], [0, 2**40], [2**32, 2**32]])
def test_shapes_of_compressed_tensors_are_checked(shape):
    """A product that does not fit 64 bits, or a size that NumPy refuses, is damage."""
    header = b"".join(_snappy_header(shape))
    try:
        (tensor,) = _snappy_tensors(header, b"", [dtypes.int64])
    except errors.DataLossError:
        assert max(shape) > 2**31
    else:
        assert tensor.shape == tuple(shape)


def _snappy_header(shape):
    dims = b"".join(_field(2, number_field(1, size)) for size in shape)
    yield _field(1, _field(2, dims))


def test_prefixes_of_the_first_version_are_joined_to_the_path(graphmill_host, tmp_path):
    attrs = {"snapshot_name": "s", "writer_path_prefix": f"{tmp_path}/w", "mode": "write"}
    assert first_elements(graphmill_host, "/in", 2, **attrs) == [0, 1]
    assert (tmp_path / "w" / "in" / "custom-s" / "snapshot.metadata").exists()
    attrs = {"snapshot_name": "s", "reader_path_prefix": f"{tmp_path}/w", "mode": "read"}
    assert first_elements(graphmill_host, "/in", 9, **attrs) == [0, 1]


def test_snapshot_of_another_version_is_refused(graphmill_host, tmp_path):
    first_elements(graphmill_host, tmp_path, 2, snapshot_name="s")
    folder = str(tmp_path / "custom-s")
    metadata = read_metadata(folder, UNRESTRICTED)
    assert metadata is not None
    write_metadata(folder, replace(metadata, version=2), UNRESTRICTED)
    with pytest.raises(errors.InvalidArgumentError, match="version 2 of the format; expected 1"):
        first_elements(graphmill_host, tmp_path, 2, snapshot_name="s")
