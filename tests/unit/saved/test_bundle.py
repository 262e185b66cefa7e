"""Tensor bundles round-trip; every kind of damage is a typed error (clause G2)."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphmill import dtypes, errors, files, proto
from graphmill.registry import Provenance
from graphmill.runtime.variants.variant_codec import VariantCodec, VariantData, VariantRegistry
from graphmill.saved import bundle_format, bundle_merge, checkpoint, crc
from graphmill.saved.bundle_merge import merge_bundles
from graphmill.saved.bundle_reader import BundleReader
from graphmill.saved.bundle_writer import BundleWriter, write_index
from graphmill.saved.table import TableReader, TableWriter
from graphmill.saved.tensor_slice import TensorSlice

pytest.importorskip("google_crc32c")

TENSORS: dict[str, Any] = {
    "dense/kernel": np.arange(12, dtype=np.float32).reshape(3, 4),
    "dense/bias": np.zeros(4, np.float32),
    "names": np.array([b"one", b"", b"three"], object),
    "step": np.int64(7),
    "odd": np.array([True, False, True]),
}


@pytest.fixture
def prefix(tmp_path: Path) -> str:
    path = str(tmp_path / "model")
    checkpoint.save_checkpoint(path, TENSORS)
    return path


def damage(prefix: str, suffix: str, position: int, byte: int = 0xAA) -> None:
    path = Path(prefix + suffix)
    content = bytearray(path.read_bytes())
    content[position] = byte
    path.write_bytes(content)


DATA = ".data-00000-of-00001"


@pytest.mark.parametrize("num_shards", [1, 2, 7])
def test_tensors_are_read_back_from_shards(num_shards: int, tmp_path: Path) -> None:
    checkpoint.save_checkpoint(tmp_path / "x", TENSORS, num_shards)
    assert len(list(tmp_path.glob("x.data-*"))) == num_shards
    with BundleReader(tmp_path / "x") as reader:
        assert reader.num_shards == num_shards
        assert sorted(reader.names()) == sorted(TENSORS)
        for name, values in TENSORS.items():
            np.testing.assert_array_equal(reader.read_tensor(name), values)


def test_values_of_python_and_text_are_saved(tmp_path: Path) -> None:
    checkpoint.save_checkpoint(tmp_path / "x", {"a": [1.5, 2.0], "s": ["é", "b"], "t": "text"})
    with BundleReader(tmp_path / "x") as reader:
        assert reader.read_tensor("a").tolist() == [1.5, 2.0]
        assert reader.read_tensor("s").tolist() == ["é".encode(), b"b"]
        assert reader.read_tensor("t").item() == b"text"


def test_strided_and_big_endian_arrays_are_saved(tmp_path: Path) -> None:
    values = np.arange(24, dtype=">f4").reshape(4, 6)[::2, ::-1]
    checkpoint.save_checkpoint(tmp_path / "x", {"a": values})
    with BundleReader(tmp_path / "x") as reader:
        np.testing.assert_array_equal(reader.read_tensor("a"), values)


def test_entries_of_equal_and_of_different_kinds_are_told_apart(tmp_path: Path) -> None:
    values = {
        "a": np.zeros((2, 3), np.float32),
        "b": np.ones((2, 3), np.float32),
        "c": np.ones((2, 3), np.int32),
        "d": np.ones((3, 2), np.float32),
    }
    checkpoint.save_checkpoint(tmp_path / "x", values)
    with BundleReader(tmp_path / "x") as reader:
        for _ in range(2):
            entries = {name: reader.entry(name) for name in values}
            for name, array in values.items():
                assert entries[name].shape == array.shape
                assert entries[name].dtype is dtypes.as_dtype(array.dtype)
                np.testing.assert_array_equal(reader.read_entry(entries[name]), array)


@pytest.mark.parametrize("sizes", [[-1], [2, -3], [1 << 40, 1 << 40]])
def test_each_tensor_of_a_damaged_shape_is_named(sizes: list[int], tmp_path: Path) -> None:
    entries = {}
    for name in (b"first", b"second"):
        entries[name] = entry = proto.BundleEntryProto(dtype=dtypes.float32.enum)  # type: ignore[arg-type]
        for size in sizes:
            entry.shape.dim.add(size=size)
    write_index(str(tmp_path / "x"), proto.BundleHeaderProto(num_shards=1), entries)
    with BundleReader(tmp_path / "x") as reader:
        for name in ("first", "second"):
            with pytest.raises(errors.DataLossError, match=f"shape of tensor {name} "):
                reader.entry(name)


def test_checkpoints_may_be_at_urls() -> None:
    pytest.importorskip("fsspec")
    prefix = "memory://graphmill_bundles/ckpt"
    checkpoint.save_checkpoint(prefix, TENSORS, 2)
    with checkpoint.load_checkpoint(prefix) as reader:
        np.testing.assert_array_equal(reader.get_tensor("dense/kernel"), TENSORS["dense/kernel"])


def test_a_checkpoint_of_a_big_endian_machine_is_read(tmp_path: Path) -> None:
    values = {
        "a": np.array([[1.5, -2], [3, 4]], np.float64),
        "c": np.array([1 + 2j, 3 - 4j], np.complex64),
        "b": np.array([1, 2, 3], np.int8),
    }
    content, entries = b"", {}
    for name, array in values.items():
        swapped = array.astype(array.dtype.newbyteorder(">")).tobytes()
        entry = proto.BundleEntryProto(dtype=dtypes.as_dtype(array.dtype).enum)  # type: ignore[arg-type]
        for size in array.shape:
            entry.shape.dim.add(size=size)
        entry.offset, entry.size = len(content), len(swapped)
        entry.crc32c = crc.mask(crc.value(swapped))
        content += swapped
        entries[name.encode()] = entry
    header = proto.BundleHeaderProto(num_shards=1, endianness=proto.BundleHeaderProto.BIG)
    files.write(str(tmp_path / "x.data-00000-of-00001"), content)
    write_index(str(tmp_path / "x"), header, entries)
    for mapped in (False, True):
        with BundleReader(tmp_path / "x", mapped=mapped) as reader:
            for name, array in values.items():
                np.testing.assert_array_equal(reader.read_tensor(name), array)


def test_threads_share_a_reader(prefix: str) -> None:
    failures: list[BaseException] = []

    def work(reader: BundleReader) -> None:
        try:
            for _ in range(20):
                for name, values in TENSORS.items():
                    np.testing.assert_array_equal(reader.read_tensor(name), values)
        except BaseException as error:  # noqa: BLE001 - shown by the main thread
            failures.append(error)

    with BundleReader(prefix) as reader:
        threads = [threading.Thread(target=work, args=(reader,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not failures


# Writing


def test_names_are_used_once(tmp_path: Path) -> None:
    writer = BundleWriter(tmp_path / "x")
    writer.add("a", 1)
    with pytest.raises(errors.InvalidArgumentError, match="Adding duplicate key: a"):
        writer.add("a", 2)
    with pytest.raises(errors.InvalidArgumentError, match="must have a name"):
        writer.add("", 2)
    writer.abandon()
    assert not list(tmp_path.iterdir())


def test_nothing_appears_before_the_end(tmp_path: Path) -> None:
    with BundleWriter(tmp_path / "x") as writer:
        writer.add("a", 1)
        assert not list(tmp_path.glob("x.index"))
        assert not list(tmp_path.glob("*-of-00001"))
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "x.data-00000-of-00001",
        "x.index",
    ]


def test_a_failed_save_keeps_the_old_checkpoint(prefix: str) -> None:
    before = {path: path.read_bytes() for path in Path(prefix).parent.iterdir()}
    writer = BundleWriter(prefix)
    writer.add("a", np.ones(1000))
    with pytest.raises(errors.InvalidArgumentError), writer:
        writer.add("a", 1)
    assert {path: path.read_bytes() for path in Path(prefix).parent.iterdir()} == before


def test_handles_have_no_encoding(tmp_path: Path) -> None:
    handle = np.array([object()], dtypes.resource.as_numpy_dtype)
    writer = BundleWriter(tmp_path / "x")
    with pytest.raises(errors.UnimplementedError, match="resource"):
        writer.add("a", handle)
    writer.abandon()


class Point:
    """A value of a variant type."""

    def __init__(self, x: int) -> None:
        self.x = x


def a_registry() -> VariantRegistry:
    variants = VariantRegistry("variant")
    codec = VariantCodec(
        Point, lambda point: VariantData(bytes([point.x])), lambda data: Point(data.metadata[0])
    )
    variants.add("Mine>Point", codec, owner=Provenance("mine"))
    return variants


def save_points(prefix: Path, *values: int) -> None:
    points = np.array([Point(value) for value in values], object)
    with BundleWriter(prefix, variants=a_registry()) as writer:
        writer.add("many", points, dtypes.variant)
        writer.add("one", Point(values[0]), dtypes.variant)
        writer.add("none", None, dtypes.variant)
        writer.add("empty", points[:0], dtypes.variant)
        writer.add_slice("part", (4,), TensorSlice.parse("1,2"), points[:2], dtypes.variant)


def test_variants_round_trip_with_their_codecs(tmp_path: Path) -> None:
    save_points(tmp_path / "x", 7, 200)
    with BundleReader(tmp_path / "x", variants=a_registry()) as reader:
        assert reader.entry("many").dtype is dtypes.variant
        assert [point.x for point in reader.read_tensor("many")] == [7, 200]
        assert reader.read_tensor("one").item().x == 7
        assert reader.read_tensor("none").item() is None
        assert reader.read_tensor("empty").shape == (0,)
        assert [p.x for p in reader.read_slice("part", TensorSlice.parse("1,2"))] == [7, 200]
        assert [p.x for p in reader.read_slice("many", TensorSlice.parse("1,1"))] == [200]


def test_variants_are_written_as_tensorflow_does(tmp_path: Path) -> None:
    # The length, the message, and the masked checksum of all before; see tensor_bundle.cc.
    content, total = bundle_format.encode_messages([b"ab", b""])
    first = crc.value(b"\2" + bytes(7) + b"ab")
    stored = crc.mask(first).to_bytes(4, "little")
    second = crc.extend(crc.extend(first, stored), bytes(8))
    stored_too = crc.mask(second).to_bytes(4, "little")
    assert content == b"\2ab" + stored + b"\0" + stored_too
    assert total == crc.extend(second, stored_too)


def test_variants_need_codecs(tmp_path: Path) -> None:
    save_points(tmp_path / "x", 7, 8)
    with BundleReader(tmp_path / "x") as reader:
        with pytest.raises(errors.UnimplementedError, match=r"many .* variant"):
            reader.read_tensor("many")
        assert reader.names() == ["empty", "many", "none", "one", "part"]
    with (
        pytest.raises(errors.UnimplementedError, match="register a codec"),
        BundleWriter(tmp_path / "y", variants=a_registry()) as writer,
    ):
        writer.add("a", object(), dtypes.variant)


def test_damage_of_variants_is_found_at_each_byte(tmp_path: Path) -> None:
    prefix = str(tmp_path / "x")
    with BundleWriter(prefix, variants=a_registry()) as writer:
        writer.add("many", np.array([Point(1), Point(2)], object), dtypes.variant)
    for position in range(Path(prefix + DATA).stat().st_size):
        shutil.copy(prefix + DATA, tmp_path / "whole")
        damage(prefix, DATA, position)
        with (
            BundleReader(prefix, variants=a_registry()) as reader,
            pytest.raises(errors.DataLossError, match="many"),
        ):
            reader.read_tensor("many")
        shutil.copy(tmp_path / "whole", prefix + DATA)


@given(st.binary(max_size=40), st.integers(0, 5), st.booleans())
def test_any_bytes_for_variants_are_damage_or_messages(
    content: bytes, count: int, swapped: bool
) -> None:
    with contextlib.suppress(errors.DataLossError):
        found, _ = bundle_format.decode_messages(content, count, swapped=swapped, check=False)
        assert bundle_format.encode_messages(found)[0][:1] == content[:1]


def test_slices_must_agree(tmp_path: Path) -> None:
    writer = BundleWriter(tmp_path / "x")
    first = TensorSlice.parse("0,2")
    writer.add("whole", 1)
    writer.add_slice("v", (4,), first, np.zeros(2))
    for name, shape, piece, values in [
        ("v", (5,), TensorSlice.parse("2,2"), np.zeros(2)),
        ("v", (4,), TensorSlice.parse("2,2"), np.zeros(2, np.int32)),
        ("v", (4,), first, np.zeros(2)),
        ("v", (4,), TensorSlice.parse("2,2"), np.zeros(3)),
        ("whole", (4,), first, np.zeros(2)),
    ]:
        with pytest.raises(errors.InvalidArgumentError):
            writer.add_slice(name, shape, piece, values)
    writer.abandon()


def test_no_folder_can_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises((errors.FailedPreconditionError, errors.AlreadyExistsError)):
        BundleWriter(tmp_path / "file" / "x")


# Merging


def test_merge_refuses_a_tensor_in_two_places(tmp_path: Path) -> None:
    for name in "ab":
        checkpoint.save_checkpoint(tmp_path / name, {"t": 1})
    with pytest.raises(errors.InvalidArgumentError, match="Duplicate tensor keyed by t"):
        merge_bundles([str(tmp_path / "a"), str(tmp_path / "b")], str(tmp_path / "m"))
    assert checkpoint.load_checkpoint(tmp_path / "a").get_tensor("t") == 1  # nothing was moved


def test_missing_sources_of_a_merge_are_refused_or_skipped(tmp_path: Path) -> None:
    checkpoint.save_checkpoint(tmp_path / "a", {"t": 1})
    sources = [str(tmp_path / "none"), str(tmp_path / "a")]
    with pytest.raises(errors.InvalidArgumentError, match="none did not exist"):
        merge_bundles(sources, str(tmp_path / "m"))
    merge_bundles(sources, str(tmp_path / "m"), allow_missing_files=True)
    assert checkpoint.list_variables(tmp_path / "m") == [("t", ())]


def test_a_merge_that_fails_leaves_its_sources(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("a", 1), ("b", 2)):
        checkpoint.save_checkpoint(tmp_path / name, {name: value})
    sources = [str(tmp_path / "a"), str(tmp_path / "b")]

    def full(*_: Any) -> None:
        raise errors.ResourceExhaustedError("no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(bundle_merge, "write_index", full)
        with pytest.raises(errors.ResourceExhaustedError, match="no space"):
            merge_bundles(sources, str(tmp_path / "m"))
    for name, value in (("a", 1), ("b", 2)):
        assert checkpoint.load_checkpoint(tmp_path / name).get_tensor(name) == value
    merge_bundles(sources, str(tmp_path / "m"))
    assert checkpoint.list_variables(tmp_path / "m") == [("a", ()), ("b", ())]


@pytest.mark.parametrize("suffix", [DATA, ".index"])
@pytest.mark.parametrize("method", ["write", "flush"])
def test_full_disk_keeps_the_old_checkpoint(
    prefix: str, suffix: str, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: files.LocalWriter, *_: Any) -> None:
        if self.path.endswith(suffix):
            raise errors.ResourceExhaustedError("no space left on device")

    folder = Path(prefix).parent
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with monkeypatch.context() as patch:
        original = getattr(files.LocalWriter, method)
        patch.setattr(files.LocalWriter, method, lambda *a: full(*a) or original(*a))
        with pytest.raises(errors.ResourceExhaustedError, match="no space"):
            checkpoint.save_checkpoint(prefix, {"new": np.zeros(100)})
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


# Bad input


def test_missing_checkpoint_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(errors.NotFoundError, match=r"none\.index is missing"):
        checkpoint.load_checkpoint(tmp_path / "none")
    with pytest.raises(errors.NotFoundError, match="pass the prefix"):
        BundleReader(tmp_path / "none.index")


def test_a_folder_without_a_state_file_has_no_checkpoint(tmp_path: Path) -> None:
    assert checkpoint.latest_checkpoint(tmp_path) is None
    with pytest.raises(errors.NotFoundError, match="no file 'checkpoint'"):
        checkpoint.load_checkpoint(tmp_path)


def test_damaged_state_file_is_data_loss(tmp_path: Path) -> None:
    (tmp_path / "checkpoint").write_bytes(b"model_checkpoint: 3 \xff")
    with pytest.raises(errors.DataLossError, match="is damaged"):
        checkpoint.latest_checkpoint(tmp_path)


def test_state_file_that_names_a_lost_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "gone"')
    assert checkpoint.latest_checkpoint(tmp_path) is None


def test_unknown_tensor_has_near_matches(prefix: str) -> None:
    with (
        BundleReader(prefix) as reader,
        pytest.raises(errors.NotFoundError, match="did you mean 'dense/kernel'"),
    ):
        reader.read_tensor("dense/kernal")


def test_missing_shard_is_named_with_the_tensor(prefix: str) -> None:
    os.remove(prefix + DATA)  # noqa: PTH107
    with BundleReader(prefix) as reader, pytest.raises(errors.NotFoundError) as caught:
        reader.read_tensor("step")
    assert "data-00000-of-00001 is missing" in caught.value.message
    assert "contains tensor step" in caught.value.message


def test_truncated_shard_is_data_loss(prefix: str) -> None:
    os.truncate(prefix + DATA, 30)
    words = "truncated: tensor dense/kernel occupies"
    with BundleReader(prefix) as reader, pytest.raises(errors.DataLossError, match=words):
        reader.read_tensor("dense/kernel")


def test_wrong_checksum_of_values_is_found(prefix: str) -> None:
    damage(prefix, DATA, 5)
    with BundleReader(prefix) as reader:
        with pytest.raises(
            errors.DataLossError, match="Checksum does not match for tensor dense/k"
        ):
            reader.read_tensor("dense/kernel")
        np.testing.assert_array_equal(reader.read_tensor("dense/bias"), TENSORS["dense/bias"])
    with BundleReader(prefix, mapped=True) as reader, pytest.raises(errors.DataLossError):
        reader.read_tensor("dense/kernel")
    with BundleReader(prefix, check=False) as reader:
        assert reader.read_tensor("dense/kernel").shape == (3, 4)


@pytest.mark.parametrize("position", [64, 67, 71])  # a length, its checksum, a string
def test_wrong_checksum_of_strings_is_found(position: int, prefix: str) -> None:
    damage(prefix, DATA, position)
    with BundleReader(prefix) as reader, pytest.raises(errors.DataLossError, match="names"):
        reader.read_tensor("names")


@pytest.mark.parametrize("size", [0, 20, 47, 100])
def test_truncated_index_is_data_loss(size: int, prefix: str) -> None:
    os.truncate(prefix + ".index", size)
    with pytest.raises(errors.DataLossError, match="not a table, or damaged"):
        BundleReader(prefix)


def test_index_without_a_header_is_data_loss(prefix: str) -> None:
    with files.open_writer(prefix + ".index") as writer:
        TableWriter(writer.write).finish()
    with pytest.raises(errors.DataLossError, match="no header"):
        BundleReader(prefix)


def test_newer_format_is_refused(prefix: str) -> None:
    header = proto.BundleHeaderProto(num_shards=1)
    header.version.min_consumer = 99
    write_index(prefix, header, {})
    with pytest.raises(errors.InvalidArgumentError, match="needs a reader of version 99"):
        BundleReader(prefix)


def entry_of(prefix: str, name: bytes, change: Any) -> None:
    """Change one entry of a checkpoint's index, with correct checksums."""
    reader = files.open_reader(prefix + ".index")
    items = dict(TableReader(reader).items())
    reader.close()
    header = proto.BundleHeaderProto.FromString(items.pop(b""))
    entries = {key: proto.BundleEntryProto.FromString(value) for key, value in items.items()}
    change(entries[name])
    write_index(prefix, header, entries)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"size": 1 << 50}, "needs 48 bytes"),
        ({"offset": 1 << 60}, "truncated"),
        ({"offset": -3}, "truncated"),
        ({"dtype": 77}, "not an element type"),
        ({"dtype": 21}, "variant"),
        ({"dtype": 101}, "float32_ref"),
        ({"dtype": 7, "size": 3}, "12 strings in 3 bytes"),
        ({"shard_id": 9}, "data-00009-of-00001 is missing"),
        ({"shard_id": -9}, "is missing"),
    ],
)
def test_entries_that_make_no_sense(change: dict[str, int], words: str, prefix: str) -> None:
    def apply(entry: Any) -> None:
        for name, value in change.items():
            setattr(entry, name, value)

    entry_of(prefix, b"dense/kernel", apply)
    with BundleReader(prefix) as reader, pytest.raises(errors.OpError, match=words):
        reader.read_tensor("dense/kernel")


@pytest.mark.parametrize("sizes", [[-1], [1 << 40, 1 << 40], [1 << 62, 1 << 62, 0], [1] * 65])
def test_shapes_that_make_no_sense(sizes: list[int], prefix: str) -> None:
    def apply(entry: Any) -> None:
        del entry.shape.dim[:]
        for size in sizes:
            entry.shape.dim.add(size=size)

    entry_of(prefix, b"dense/kernel", apply)
    with BundleReader(prefix) as reader, pytest.raises(errors.DataLossError, match="shape"):
        reader.read_tensor("dense/kernel")


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_any_damage_is_a_typed_error(tmp_path_factory: Any, data: st.DataObject) -> None:
    folder = tmp_path_factory.mktemp("damaged")
    path = str(folder / "x")
    with BundleWriter(path) as writer:
        for name, values in TENSORS.items():
            writer.add(name, values)
        writer.add_slice("p", (4,), TensorSlice.parse("0,2"), np.zeros(2))
        writer.add_slice("p", (4,), TensorSlice.parse("2,2"), np.ones(2))
    suffix = data.draw(st.sampled_from([".index", DATA]))
    size = Path(path + suffix).stat().st_size
    for _ in range(data.draw(st.integers(1, 3))):
        damage(path, suffix, data.draw(st.integers(0, size - 1)), data.draw(st.integers(0, 255)))
    os.truncate(path + suffix, data.draw(st.one_of(st.just(size), st.integers(0, size))))
    # Without checksums, so that the damage gets as far as it can.
    with contextlib.suppress(errors.OpError), BundleReader(path, check=False) as reader:
        for name in reader.names():
            with contextlib.suppress(errors.OpError):
                reader.read_tensor(name)
    shutil.rmtree(folder)


def test_lengths_above_4_gb_are_encoded() -> None:
    # The checksum takes such a length as 8 bytes; the strings themselves would be too large here.
    words = bundle_format._length_words([1, 1 << 32], "<")
    assert words == (1).to_bytes(4, "little") + (1 << 32).to_bytes(8, "little")
