"""Event files contain the written events in order, and are readable after a flush."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphmill
from graphmill import errors, ops
from graphmill.proto.event_pb2 import Event
from graphmill.tf_record import tf_record_iterator


def const(value: Any, dtype: str) -> Any:
    array = np.array(value, object if dtype == "string" else np.dtype(dtype))
    return ops.array.const(value=array, dtype=dtype)


def events(folder: Any) -> list[Event]:
    (path,) = folder.iterdir()
    return [Event.FromString(record) for record in tf_record_iterator(path)]


def writer_graph(folder: Any, *, max_queue: int) -> tuple[Any, Any, Any, Any]:
    graph = graphmill.Graph()
    with graph.as_default():
        writer = ops.summary.summary_writer()
        begin = ops.summary.create_summary_file_writer(
            writer,
            const(str(folder).encode(), "string"),
            const(max_queue, "int32"),
            const(1_000_000, "int32"),
            const(b".mine", "string"),
        )
        step = graph.placeholder("int64", name="step", shape=())
        write = ops.summary.write_scalar_summary(
            writer, step, const(b"loss", "string"), const(0.5, "float32")
        )
    return graph, begin, step, write


def test_events_are_buffered_up_to_a_maximum(tmp_path):
    graph, begin, step, write = writer_graph(tmp_path, max_queue=2)
    with graphmill.Session(graph=graph) as session:
        session.run(begin)
        assert [event.file_version for event in events(tmp_path)] == ["brain.Event:2"]
        session.run(write, {step: 1})
        session.run(write, {step: 2})
        assert len(events(tmp_path)) == 1
        session.run(write, {step: 3})
        found = events(tmp_path)
    assert [event.step for event in found[1:]] == [1, 2, 3]
    assert found[1].summary.value[0].tag == "loss"
    assert found[1].summary.value[0].simple_value == 0.5


def test_a_closed_session_finishes_its_files(tmp_path):
    graph, begin, step, write = writer_graph(tmp_path, max_queue=10)
    with graphmill.Session(graph=graph) as session:
        session.run(begin)
        session.run(write, {step: 1})
    assert len(events(tmp_path)) == 2


def test_a_writer_without_a_file_is_refused(tmp_path):
    graph, _, step, write = writer_graph(tmp_path, max_queue=10)
    with (
        graphmill.Session(graph=graph) as session,
        pytest.raises(errors.FailedPreconditionError, match="CreateSummaryFileWriter"),
    ):
        session.run(write, {step: 1})
    assert not list(tmp_path.iterdir())
