"""RecordInput returns every record of its files once per epoch."""

from __future__ import annotations

import pytest

from graphmill import errors
from graphmill.tf_record import TFRecordWriter


@pytest.fixture
def pattern(tmp_path):
    for name, records in (("a", [b"1", b"2", b"3"]), ("b", [b"4", b"5"])):
        with TFRecordWriter(str(tmp_path / name)) as writer:
            for record in records:
                writer.write(record)
    return str(tmp_path / "*")


def drawn(bind_kernel, pattern, calls, **attrs):
    kernel = bind_kernel("RecordInput", file_pattern=pattern, **attrs)
    return [kernel.compute(None).tolist() for _ in range(calls)]


@pytest.mark.parametrize("buffer_size", [1, 2, 100])
def test_an_epoch_has_every_record_once(bind_kernel, pattern, buffer_size):
    options = {"batch_size": 5, "file_buffer_size": buffer_size}
    for batch in drawn(bind_kernel, pattern, 3, **options):
        assert sorted(batch) == [b"1", b"2", b"3", b"4", b"5"]


def test_the_seed_decides_the_order(bind_kernel, pattern):
    options = {"batch_size": 5, "file_random_seed": 7}
    first = drawn(bind_kernel, pattern, 4, **options)
    assert first == drawn(bind_kernel, pattern, 4, **options)
    assert len({tuple(batch) for batch in first}) > 1


def test_files_without_records_are_refused(bind_kernel, tmp_path):
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(errors.NotFoundError, match="no records"):
        drawn(bind_kernel, str(tmp_path / "*"), 1)
