"""Saved datasets: TensorFlow's files, damaged files, and datasets that are not read to the end."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import graphmill
from graphmill import errors
from graphmill.access.broker import UNRESTRICTED
from graphmill.testing.case import parse_cases
from graphmill.testing.case_graph import case_graph
from graphmill_plugins.kernels.dataset.pipeline.files.snappy import blocks, decompressed
from graphmill_plugins.kernels.dataset.pipeline.files.snapshot_files import (
    ElementReader,
    ElementWriter,
    Metadata,
    read_metadata,
    serialized_tensor,
    write_metadata,
)

GOLDEN = Path(__file__).parents[4] / "data" / "saved_datasets"
"""Four elements in two shards, written by TensorFlow 2.21."""
INT64, STRING, HALF = map(graphmill.as_dtype, ("int64", "string", "float16"))
TYPES = (INT64, STRING, HALF)
ELEMENTS = list(zip(range(4), [b"a", b"bc", b"", b"ab" * 20], np.eye(4).tolist(), strict=True))
COMPRESSIONS = {"plain": "", "gzip": "GZIP", "snappy": "SNAPPY"}


def data_files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.snapshot"))


@pytest.mark.parametrize(("name", "compression"), COMPRESSIONS.items())
def test_files_of_tensorflow_are_read(name, compression):
    found = [
        tuple(value.tolist() for value in element)
        for path in data_files(GOLDEN / name)
        for element in ElementReader(str(path), compression, TYPES, UNRESTRICTED)
    ]
    assert found == ELEMENTS[::2] + ELEMENTS[1::2]


def test_metadata_of_tensorflow_are_read_and_written(tmp_path):
    found = read_metadata(str(GOLDEN / "plain"), UNRESTRICTED)
    assert found is not None
    assert (found.run_id, found.is_finalized) == (data_files(GOLDEN / "plain")[0].parts[-3], True)
    assert (found.version, found.types, found.num_elements) == (2, (9, 7, 19), 4)
    write_metadata(str(tmp_path), found, UNRESTRICTED)
    written = tmp_path / "snapshot.metadata"
    assert written.read_bytes() == (GOLDEN / "plain" / "snapshot.metadata").read_bytes()


@pytest.mark.parametrize("compression", COMPRESSIONS.values())
def test_written_elements_are_read(tmp_path, compression):
    path = str(tmp_path / "elements")
    written = [(np.int64(1), b"x" * 200_000, np.ones((0, 2), np.float16))] * 3
    writer = ElementWriter(path, compression, TYPES, UNRESTRICTED)
    for element in written:
        writer.write(element)
    writer.close()
    found = list(ElementReader(path, compression, TYPES, UNRESTRICTED))
    assert [(int(n), bytes(s.item()), h.shape) for n, s, h in found] == [
        (1, b"x" * 200_000, (0, 2))
    ] * 3


def test_plain_files_are_those_of_tensorflow(tmp_path):
    path = data_files(GOLDEN / "plain")[0]
    writer = ElementWriter(str(tmp_path / "elements"), "", TYPES, UNRESTRICTED)
    for element in ElementReader(str(path), "", TYPES, UNRESTRICTED):
        writer.write(element)
    writer.close()
    assert (tmp_path / "elements").read_bytes() == path.read_bytes()


@pytest.mark.parametrize(("name", "compression"), COMPRESSIONS.items())
@pytest.mark.parametrize("cut", [1, 20, 60])
def test_a_truncated_file_is_data_loss(tmp_path, name, compression, cut):
    content = data_files(GOLDEN / name)[1].read_bytes()
    path = tmp_path / "cut"
    path.write_bytes(content[:-cut])
    with pytest.raises(errors.DataLossError):
        list(ElementReader(str(path), compression, TYPES, UNRESTRICTED))


@pytest.mark.parametrize(
    "block",
    [
        b"\x05\x08abc",  # fewer bytes than the header says
        b"\x03\x0cabc",  # a literal past the end
        b"\x04\x00a\x01\x09",  # a copy from before the start
        b"\x04\x00a\x02",  # a copy past the end
        b"\x04\x00a\x01\x00",  # a copy from the end
    ],
)
def test_a_damaged_snappy_block_is_data_loss(block):
    with pytest.raises(errors.DataLossError):
        decompressed(block)


def test_snappy_copies_may_overlap():
    assert decompressed(b"\x09\x04ab\x0d\x02") == b"ababababa"
    assert decompressed(b"\x06\x04ab\x0e\x02\x00") == b"ababab"
    assert decompressed(b"\x06\x04ab\x0f\x02\x00\x00\x00") == b"ababab"


@pytest.mark.parametrize("count", [0, 1, 60, 61, 70_000])
def test_snappy_blocks_are_decompressed(count):
    content = bytes(range(256)) * (count // 256 + 1)
    made = list(blocks(content[:count]))
    assert b"".join(decompressed(block[4:]) for block in made) == content[:count]


def test_a_variant_cannot_be_saved():
    with pytest.raises(errors.UnimplementedError, match="type variant cannot be written"):
        serialized_tensor(object(), graphmill.as_dtype("variant"))


NODES = """
[[SaveDatasetV2]]
feed = {{ p = "string: '{path}'" }}
functions = ["f(x: int64) -> (int64): y = Identity(x); return y"]
nodes = [
  "zero = Const(dtype=int64, value='int64: 0')",
  "one = Const(dtype=int64, value='int64: 1')",
  "three = Const(dtype=int64, value='int64: 3')",
  "r = RangeDataset(zero, three, one, output_types=[int64], output_shapes=[[]])",
  "d = OP(r, p, [], shard_func=f, Tshard_func_args=[], compression='{compression}', \
output_types=[int64], output_shapes=[[]])",
  "h = IteratorV2(shared_name='', container='', output_types=[int64], output_shapes=[[]])",
  "a = MakeIterator(d, h)",
  "x = IteratorGetNext(h, output_types=[int64], output_shapes=[[]])",
]
run = ["a"]
"""


def session_of(host, path, compression=""):
    (case,) = parse_cases(NODES.format(path=path, compression=compression), "t")
    graph = case_graph(case, host.ops)
    session = graphmill.Session(graph=graph.graph_def, host=host)
    (name,) = graph.feeds
    session.run([], {name: str(path).encode()}, targets=["a"])
    return session


def test_a_dataset_that_is_not_read_to_the_end_leaves_no_elements(graphmill_host, tmp_path):
    with session_of(graphmill_host, tmp_path) as session:
        assert session.run("x:0") == 0
    found = read_metadata(str(tmp_path), UNRESTRICTED)
    assert found is not None
    assert not found.is_finalized
    assert data_files(tmp_path) == []


def test_each_element_has_its_shard(graphmill_host, tmp_path):
    with session_of(graphmill_host, tmp_path) as session:
        assert [session.run("x:0") for _ in range(3)] == [0, 1, 2]
        with pytest.raises(errors.OutOfRangeError):
            session.run("x:0")
    names = [path.parent.name for path in data_files(tmp_path)]
    assert names == ["00000000.shard", "00000001.shard", "00000002.shard"]


def test_an_unknown_compression_is_refused(graphmill_host, tmp_path):
    with pytest.raises(errors.InvalidArgumentError, match="unknown compression type 'LZ4'"):
        session_of(graphmill_host, tmp_path, "LZ4")


def test_metadata_are_replaced(tmp_path):
    shutil.copy(GOLDEN / "plain" / "snapshot.metadata", tmp_path)
    write_metadata(str(tmp_path), Metadata("7", "8"), UNRESTRICTED)
    assert read_metadata(str(tmp_path), UNRESTRICTED) == Metadata("7", "8")
