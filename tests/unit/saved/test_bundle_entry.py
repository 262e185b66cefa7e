"""Entries that are read together have the values and errors of entries that are read alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from graphmill import dtypes, errors
from graphmill.memory import freeze, is_frozen
from graphmill.saved import checkpoint
from graphmill.saved.bundle_entry import BundleEntry, adjacent_runs
from graphmill.saved.bundle_reader import BundleReader
from graphmill.saved.bundle_writer import BundleWriter
from graphmill.saved.tensor_slice import TensorSlice

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("google_crc32c")

TENSORS: dict[str, Any] = {
    "a": np.arange(12, dtype=np.float32).reshape(3, 4),
    "b": np.zeros((0, 3), np.int64),
    "c": np.array([b"one", b"", "\u00e9".encode()], object),
    "d": np.int64(7),
    "e": np.array([np.nan, np.inf, -0.0], np.float16),
    "f": np.arange(100_000, dtype=np.int32),
    "g": np.array([True, False]),
    "h": np.array([1 + 2j], np.complex64),
    "i": np.arange(2000, dtype=np.float64),
}
DATA = ".data-00000-of-00001"


def entry(offset: int, size: int = 4, shard: int = 0, **fields: Any) -> BundleEntry:
    entry = BundleEntry("x", dtypes.float32, (size // 4,), shard, offset, size, 0, ())
    return entry._replace(**fields)


def assert_equal(actual: Any, expected: Any) -> None:
    assert actual.dtype == np.asarray(expected).dtype
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("num_shards", [1, 3])
def test_tensors_read_together_have_their_values(num_shards: int, tmp_path: Path) -> None:
    checkpoint.save_checkpoint(tmp_path / "x", TENSORS, num_shards)
    names = [*reversed(TENSORS), "a", "a"]
    with BundleReader(tmp_path / "x") as reader:
        values = reader.read_entries([reader.entry(name) for name in names])
    for name, value in zip(names, values, strict=True):
        assert_equal(value, TENSORS[name])
    assert len({id(value) for value in values}) == len(names)


def test_tensors_read_together_are_aligned_or_own_their_memory(tmp_path: Path) -> None:
    """A view of what was read for all would keep it alive, and could not be stored as it is."""
    checkpoint.save_checkpoint(tmp_path / "x", TENSORS)
    with BundleReader(tmp_path / "x") as reader:
        values = dict(zip(TENSORS, reader.read_entries([*map(reader.entry, TENSORS)]), strict=True))
    assert values["f"].ctypes.data % 64 == values["i"].ctypes.data % 64 == 0
    assert all(values[name].base is None for name in "abdegh")
    assert all(is_frozen(freeze(value)) for value in values.values())


def test_stored_slices_are_assembled_beside_small_tensors(tmp_path: Path) -> None:
    with BundleWriter(str(tmp_path / "x")) as writer:
        writer.add("a", np.arange(3))
        writer.add_slice("p", (4,), TensorSlice.parse("0,2"), np.zeros(2))
        writer.add_slice("p", (4,), TensorSlice.parse("2,2"), np.ones(2))
        writer.add("z", np.arange(2))
    with BundleReader(tmp_path / "x") as reader:
        values = reader.read_entries([reader.entry(name) for name in "apz"])
    assert [value.tolist() for value in values] == [[0, 1, 2], [0, 0, 1, 1], [0, 1]]


def test_damaged_tensor_of_a_run_is_named(tmp_path: Path) -> None:
    checkpoint.save_checkpoint(tmp_path / "x", TENSORS)
    with BundleReader(tmp_path / "x") as reader:
        position = reader.entry("d").offset
    content = bytearray((tmp_path / f"x{DATA}").read_bytes())
    content[position] ^= 1
    (tmp_path / f"x{DATA}").write_bytes(content)
    with BundleReader(tmp_path / "x") as reader:
        entries = [reader.entry(name) for name in TENSORS]
        with pytest.raises(errors.DataLossError, match="Checksum does not match for tensor d"):
            reader.read_entries(entries)


def test_truncated_file_names_the_first_tensor_that_is_missing(tmp_path: Path) -> None:
    small = {name: TENSORS[name] for name in "adeh"}
    checkpoint.save_checkpoint(tmp_path / "x", small)
    with BundleReader(tmp_path / "x") as reader:
        entries = [reader.entry(name) for name in small]
    (tmp_path / f"x{DATA}").write_bytes((tmp_path / f"x{DATA}").read_bytes()[: entries[2].offset])
    expected = pytest.raises(errors.DataLossError, match="truncated: tensor e")
    with BundleReader(tmp_path / "x") as reader, expected:
        reader.read_entries(entries)


def test_runs_end_at_gaps_and_shards() -> None:
    near, far = [entry(0), entry(4), entry(100)], [entry(9000), entry(9004)]
    other = [entry(0, shard=1), entry(8, shard=1)]
    assert [list(run) for run in adjacent_runs([*far, *other, *near])] == [near, far, other]


def test_runs_have_small_whole_tensors_only() -> None:
    pieces = (TensorSlice.parse("0,1"),)
    entries = [entry(0), entry(4, size=1 << 20), entry(8, slices=pieces), entry(12, size=-1)]
    assert list(adjacent_runs(entries)) == []


def test_runs_are_of_bounded_size() -> None:
    entries = [entry(index << 16, size=1 << 16) for index in range(40)]
    assert [len(run) for run in adjacent_runs(entries)] == [16, 16, 8]
