"""`summary_iterator` reads the events of a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from graphmill import summary, tf_record, train
from graphmill.errors import DataLossError, NotFoundError

if TYPE_CHECKING:
    from pathlib import Path


def test_events_are_read_in_the_order_of_the_file(tmp_path: Path) -> None:
    with summary.FileWriter(tmp_path) as writer:
        for step in range(3):
            writer.add_scalar("loss", step / 2, step)
    (path,) = tmp_path.iterdir()
    version, *events = train.summary_iterator(path)
    assert version.file_version == "brain.Event:2"
    assert [(e.step, e.summary.value[0].simple_value) for e in events] == [(0, 0), (1, 0.5), (2, 1)]


def test_other_records_are_a_data_loss_error(tmp_path: Path) -> None:
    path = tmp_path / "records"
    with tf_record.TFRecordWriter(path) as writer:
        writer.write(b"\xff no event")
    with pytest.raises(DataLossError, match=r"record 0 of .*records is not an event"):
        list(train.summary_iterator(path))


def test_a_missing_file_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        next(train.summary_iterator(tmp_path / "missing"))
