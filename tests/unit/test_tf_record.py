"""TFRecord files: written, read, damaged."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphmill import errors
from graphmill.files import LocalWriter
from graphmill.files.stream import bytes_stream, open_stream
from graphmill.tf_record import TFRecordWriter, frame, read_record, tf_record_iterator

pytest.importorskip("google_crc32c")


@pytest.mark.parametrize("compression", ["", "ZLIB", "GZIP"])
def test_records_round_trip(tmp_path, compression):
    path = tmp_path / "deep" / "x.tfrecord"
    records = [b"one", b"", bytes(range(256)) * 2000]
    with TFRecordWriter(path, compression) as writer:
        for record in records:
            writer.write(record)
    assert list(tf_record_iterator(path, compression)) == records


@pytest.mark.parametrize("compression", ["", "GZIP"])
def test_disk_that_is_full_at_the_end_keeps_the_old_file(tmp_path, monkeypatch, compression):
    """Small files are written when the writer is closed."""

    def commit(self):
        raise errors.ResourceExhaustedError(f"{self.path}: No space left on device")

    path = tmp_path / "x.tfrecord"
    path.write_bytes(b"old")
    writer = TFRecordWriter(path, compression)
    writer.write(b"one")
    monkeypatch.setattr(LocalWriter, "commit", commit)
    with pytest.raises(errors.ResourceExhaustedError, match="No space left"):
        writer.close()
    assert [(each.name, each.read_bytes()) for each in tmp_path.iterdir()] == [(path.name, b"old")]


def test_a_writer_that_fails_leaves_no_file(tmp_path):
    path = tmp_path / "x.tfrecord"
    writer = TFRecordWriter(path)
    writer.write(b"one")
    writer.__exit__(ValueError, ValueError("mine"), None)
    assert list(tmp_path.iterdir()) == []


def test_several_gzip_parts_follow_each_other(tmp_path):
    import gzip

    path = tmp_path / "x"
    path.write_bytes(gzip.compress(b"a\n") + gzip.compress(b"b\n"))
    with open_stream(str(path), "GZIP") as stream:
        assert stream.readlines() == [b"a\n", b"b\n"]


def test_an_unknown_compression_is_refused(tmp_path):
    with pytest.raises(errors.InvalidArgumentError, match="LZ4"):
        TFRecordWriter(tmp_path / "x", "LZ4")


@given(st.binary(max_size=60), st.sampled_from(["", "ZLIB", "GZIP"]))
def test_any_bytes_are_records_or_data_loss(content, compression):
    stream = bytes_stream(content, compression)
    with pytest.raises(errors.DataLossError) if content else _no_error():
        while read_record(stream) is not None:
            pass


@given(st.binary(max_size=40), st.data())
def test_a_flipped_bit_is_found(record, data):
    framed = bytearray(frame(record))
    place = data.draw(st.integers(0, len(framed) - 1))
    framed[place] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(errors.DataLossError):
        read_record(bytes_stream(bytes(framed)))


def test_a_huge_length_takes_no_memory():
    import struct

    from graphmill.saved import crc

    length = struct.pack("<Q", 1 << 60)
    header = length + struct.pack("<I", crc.mask(crc.value(length)))
    with pytest.raises(errors.DataLossError, match="truncated"):
        read_record(bytes_stream(header + b"few"))


class _no_error:
    def __enter__(self):
        return self

    def __exit__(self, *exception):
        return None
