"""TensorFlow's checkpoints are read, and equal bytes are written (clause G2).

`tools/make_checkpoints.py` made the files and says what they hold.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphmill import dtypes, proto
from graphmill.saved import checkpoint
from graphmill.saved.bundle_merge import merge_bundles
from graphmill.saved.bundle_reader import BundleReader
from graphmill.saved.bundle_writer import BundleWriter
from graphmill.saved.tensor_slice import TensorSlice, parse_shape_and_slice
from graphmill.saved.v1_checkpoint import V1Reader, V1Writer

pytest.importorskip("google_crc32c")
pytest.importorskip("ml_dtypes")

FOLDER = Path(__file__).parents[2] / "data" / "checkpoints"
CONTENTS: dict[str, list[Any]] = json.loads((FOLDER / "contents.json").read_text("utf-8"))

Array = np.ndarray[Any, Any]


def array(dtype: str, shape: list[int], values: list[Any]) -> Array:
    """Return the array that a row of contents.json describes."""
    if dtype == "string":
        strings = np.empty(len(values), object)
        strings[:] = [value.encode("latin-1") for value in values]
        return strings.reshape(shape)
    kind = dtypes.as_dtype(dtype).as_numpy_dtype
    return np.array(values, np.float64).astype(kind).reshape(shape)


def assert_same(actual: Array, expected: Array) -> None:
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    if expected.dtype.hasobject:
        assert actual.tolist() == expected.tolist()
    else:
        assert actual.tobytes() == expected.tobytes()


def whole(rows: list[Any]) -> dict[str, Array]:
    """Return the tensors that rows describe, with slices assembled."""
    found: dict[str, Array] = {}
    for name, dtype, shape, values, *spec in rows:
        part = array(dtype, shape, values)
        if not spec:
            found[name] = part
            continue
        full_shape, piece = parse_shape_and_slice(spec[0])
        found.setdefault(name, np.empty(full_shape, part.dtype))[piece.indices(full_shape)] = part
    return found


def assert_same_files(actual: Path, expected: str) -> None:
    names = [path.name for path in FOLDER.glob(f"{expected}.*")]
    assert len(names) >= 2
    for name in names:
        written = actual.parent / name.replace(expected, actual.name, 1)
        assert written.read_bytes() == (FOLDER / name).read_bytes(), name
    assert len(list(actual.parent.glob(f"{actual.name}.*"))) == len(names)


def write(prefix: Path, rows: list[Any]) -> None:
    with BundleWriter(prefix) as writer:
        for name, dtype, shape, values, *spec in rows:
            kind, part = dtypes.as_dtype(dtype), array(dtype, shape, values)
            if spec:
                writer.add_slice(name, *parse_shape_and_slice(spec[0]), part, kind)
            else:
                writer.add(name, part, kind)


BUNDLES = ["dtypes", "many", "partitioned"]


@pytest.mark.parametrize("name", BUNDLES)
def test_bundles_are_read(name: str) -> None:
    expected = whole(CONTENTS[name])
    with checkpoint.load_checkpoint(FOLDER / name) as reader:
        assert reader.names() == sorted(expected)
        for key, values in expected.items():
            assert_same(reader.get_tensor(key), values)


@pytest.mark.parametrize("name", ["dtypes", "many"])
def test_the_same_bundles_are_written(name: str, tmp_path: Path) -> None:
    write(tmp_path / "x", CONTENTS[name])
    assert_same_files(tmp_path / "x", name)


def test_merge_gives_the_same_bundle(tmp_path: Path) -> None:
    shards: list[list[Any]] = []
    for row in CONTENTS["partitioned"]:
        if row[0] == "matrix":  # the first row of each shard
            shards.append([])
        shards[-1].append(row)
    prefixes = [tmp_path / "parts" / str(number) for number in range(len(shards))]
    for prefix, rows in zip(prefixes, shards, strict=True):
        write(prefix, rows)
    merge_bundles(map(str, prefixes), str(tmp_path / "x"))
    assert_same_files(tmp_path / "x", "partitioned")
    assert not list((tmp_path / "parts").iterdir())


def test_element_types_and_shapes_are_read() -> None:
    with BundleReader(FOLDER / "dtypes") as reader:
        for name, dtype, shape, _ in CONTENTS["dtypes"]:
            entry = reader.entry(name)
            assert (entry.dtype.name, entry.shape) == (dtype, tuple(shape))


@pytest.mark.parametrize("spec", ["2,2:1,3", "3,1:-", "-:5,1", "-:-", "4,1:0,1"])
def test_slices_across_pieces_are_read(spec: str) -> None:
    matrix = whole(CONTENTS["partitioned"])["matrix"]
    expected = TensorSlice.parse(spec)
    with BundleReader(FOLDER / "partitioned") as reader:
        assert_same(reader.read_slice("matrix", expected), matrix[expected.indices(matrix.shape)])


def test_a_slice_of_a_whole_tensor_is_read() -> None:
    with BundleReader(FOLDER / "dtypes") as reader:
        values = reader.read_slice("long", TensorSlice.parse("-:-:10,5"))
    assert values.tolist() == [[[10, 11, 12, 13, 14]]]


def test_mapped_values_are_views_where_aligned() -> None:
    with BundleReader(FOLDER / "dtypes", mapped=True) as reader:
        for key, values in whole(CONTENTS["dtypes"]).items():
            assert_same(reader.read_tensor(key), values)
        first = reader.read_tensor("t/float16")
    assert not first.flags.owndata
    assert not first.flags.writeable
    assert_same(first, whole(CONTENTS["dtypes"])["t/float16"])  # outlives the reader


def test_copied_values_are_aligned() -> None:
    with BundleReader(FOLDER / "dtypes") as reader:
        assert reader.read_tensor("long").ctypes.data % 64 == 0


def test_objects_of_tensorflow_2_are_read() -> None:
    latest = checkpoint.latest_checkpoint(FOLDER / "objects")
    assert latest == str(FOLDER / "objects" / "ckpt-2")
    with checkpoint.load_checkpoint(FOLDER / "objects") as reader:
        kernel = reader.get_tensor("model/kernel/.ATTRIBUTES/VARIABLE_VALUE")
        graph = proto.TrackableObjectGraph.FromString(
            reader.get_tensor("_CHECKPOINTABLE_OBJECT_GRAPH").item()
        )
    assert kernel.tolist() == [[1, 2], [3, 4]]
    assert {child.local_name for child in graph.nodes[0].children} >= {"model"}


def test_v1_is_read() -> None:
    expected = whole(CONTENTS["v1"])
    with checkpoint.load_checkpoint(FOLDER / "v1") as reader:
        assert reader.names() == sorted(expected)
        for key, values in expected.items():
            assert_same(reader.get_tensor(key), values)
            assert reader.shape(key) == values.shape


def test_v1_shards_are_read() -> None:
    rows = [row for number in range(3) for row in CONTENTS[f"v1_shards-{number:05d}-of-00003"]]
    with V1Reader(f"{FOLDER}/v1_shards-?????-of-00003") as reader:
        for key, values in whole(rows).items():
            assert_same(reader.read_tensor(key), values)
        assert reader.dtype("own_0") is dtypes.float16


def test_v1_preferred_shard_is_opened_first() -> None:
    with V1Reader(f"{FOLDER}/v1_shards-?????-of-00003", preferred_shard=1) as reader:
        assert reader.read_tensor("own_1").tolist() == [1, 1, 2]
        assert reader.read_tensor("own_0").tolist() == [0, 1, 2]  # opens the others


@pytest.mark.parametrize("name", ["v1", "v1_shards-00001-of-00003", "v1_shards-00002-of-00003"])
def test_the_same_v1_files_are_written(name: str, tmp_path: Path) -> None:
    writer = V1Writer(str(tmp_path / "x"))
    # TensorFlow's op sorts what it saves in this format (not in the other).
    for key, dtype, shape, values, *spec in sorted(CONTENTS[name], key=lambda row: row[0]):
        piece = parse_shape_and_slice(spec[0]) if spec else (None, None)
        writer.add(key, array(dtype, shape, values), dtypes.as_dtype(dtype), *piece)
    writer.finish()
    assert (tmp_path / "x").read_bytes() == (FOLDER / name).read_bytes()


def test_variables_are_listed() -> None:
    listed = checkpoint.list_variables(FOLDER / "partitioned")
    assert ("matrix", (5, 6)) in listed
    assert [name for name, _ in listed] == sorted(whole(CONTENTS["partitioned"]))
