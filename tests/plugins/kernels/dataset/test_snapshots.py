"""Snapshots that are incomplete, or whose files other processes write."""

from __future__ import annotations

from typing import Any

import pytest

import graphmill
from graphmill import errors
from graphmill.access.broker import UNRESTRICTED
from graphmill.testing.case import parse_cases
from graphmill.testing.case_graph import case_graph
from graphmill_plugins.kernels.dataset.pipeline.snapshot import Chunks
from graphmill_plugins.kernels.dataset.pipeline.snapshot_files import read_metadata

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


def elements(host: Any, path: Any, count: int, most: int = 9) -> list[int]:
    """Return the elements of the snapshot of a range, up to a number of them."""
    (case,) = parse_cases(NODES, "t")
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
