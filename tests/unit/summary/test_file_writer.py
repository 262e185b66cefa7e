"""`FileWriter` writes events that are read again in order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import graphmill
from graphmill import summary, tf_record
from graphmill.errors import FailedPreconditionError, InvalidArgumentError, OpError
from graphmill.proto.event_pb2 import Event
from graphmill.proto.graph_pb2 import GraphDef
from graphmill.proto.summary_pb2 import Summary

if TYPE_CHECKING:
    from pathlib import Path


def events(folder: Path) -> list[Event]:
    """Return the events of all files of a folder, without the versions of the format."""
    found = [
        Event.FromString(record)
        for path in sorted(folder.iterdir())
        for record in tf_record.tf_record_iterator(path)
    ]
    return [event for event in found if not event.file_version]


def sole_value(event: Event) -> Any:
    (value,) = event.summary.value
    return value


def test_values_are_written_in_order(tmp_path: Path) -> None:
    with summary.FileWriter(tmp_path) as writer:
        for step in range(3):
            writer.add_scalar("x", step / 2, step)
    found = [(event.step, sole_value(event).simple_value) for event in events(tmp_path)]
    assert found == [(0, 0.0), (1, 0.5), (2, 1.0)]
    assert all(event.wall_time > 1.7e9 for event in events(tmp_path))


def test_each_kind_of_value_is_written(tmp_path: Path) -> None:
    with summary.FileWriter(tmp_path) as writer:
        writer.add_histogram("h", np.arange(4), 1)
        writer.add_histogram("h", np.float32([1]), 2)
        writer.add_image("i", np.zeros((4, 3, 3), np.uint8), 3)
        writer.add_image("many", np.zeros((2, 4, 3, 1)), 3)
        writer.add_text("t", "héllo", 4)
        writer.add_text("lines", ["a", b"b"], 4)
    first, second, image, many, text, lines = events(tmp_path)
    assert (sole_value(first).histo.num, sole_value(second).histo.num) == (4, 1)
    assert (sole_value(image).tag, sole_value(image).image.colorspace) == ("i/image", 3)
    assert [value.tag for value in many.summary.value] == ["many/image/0", "many/image/1"]
    assert list(sole_value(text).tensor.string_val) == ["héllo".encode()]
    assert [dim.size for dim in sole_value(lines).tensor.tensor_shape.dim] == [2]


def test_graphs_and_metadata_are_written(tmp_path: Path) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        fetch = summary.scalar("x", graph.constant(1.0))
    metadata = graphmill.RunMetadata()
    with graphmill.Session(graph=graph) as session, summary.FileWriter(tmp_path, graph) as writer:
        content = session.run(fetch, options={"trace_level": 3}, run_metadata=metadata)
        writer.add_summary(content, 1)
        writer.add_run_metadata(metadata, "first", 1)
        with pytest.raises(InvalidArgumentError, match="'first' was already used"):
            writer.add_run_metadata(metadata, "first", 2)
        writer.add_meta_graph(graphmill.MetaGraphDef())
        writer.add_graph(graph.as_graph_def(), 7)
    written, exported, value, traced, meta, again = events(tmp_path)
    assert GraphDef.FromString(written.graph_def) == graph.as_graph_def()
    message = graphmill.MetaGraphDef.FromString(exported.meta_graph_def)
    assert message.graph_def == graph.as_graph_def()
    assert "summaries" in message.collection_def
    assert sole_value(value).simple_value == 1.0
    assert traced.tagged_run_metadata.tag == "first"
    assert meta.WhichOneof("what") == "meta_graph_def"
    assert again.step == 7


def test_a_closed_writer_refuses_events_until_it_is_reopened(tmp_path: Path) -> None:
    writer = summary.FileWriter(tmp_path)
    writer.add_scalar("x", 1.0)
    writer.close()
    writer.close()
    with pytest.raises(FailedPreconditionError, match="call reopen"):
        writer.add_scalar("x", 2.0)
    with pytest.raises(FailedPreconditionError, match="is closed"):
        writer.flush()
    writer.reopen()
    writer.reopen()
    writer.add_scalar("x", 3.0)
    writer.close()
    assert len(list(tmp_path.iterdir())) == 2
    assert len(events(tmp_path)) == 2
    assert writer.get_logdir() == str(tmp_path)


def test_flush_makes_events_visible(tmp_path: Path) -> None:
    with summary.FileWriter(tmp_path, max_queue=100) as writer:
        writer.add_scalar("x", 1.0)
        assert events(tmp_path) == []
        writer.flush()
        assert len(events(tmp_path)) == 1


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda writer: writer.add_histogram("h", [np.nan]), "Nan in summary histogram for: h"),
        (lambda writer: writer.add_image("i", np.zeros((4, 4))), "4-D"),
        (lambda writer: writer.add_summary(b"\xff\xff"), "not a serialized Summary"),
        (
            lambda writer: writer.add_scalar("x", "much"),
            "'much', the value of 'x', is not a number",
        ),
        (lambda writer: writer.add_scalar("x", [1, 2]), r"\[1, 2\], the value of 'x'"),
        (lambda writer: writer.add_scalar(3, 1.0), "the tag 3 has type int, expected str"),
        (lambda writer: writer.add_scalar("x", 1.0, "one"), "the step 'one' is not an integer"),
        (lambda writer: writer.add_histogram("h", ["a"]), "the values of 'h' are not numbers"),
        (lambda writer: writer.add_image("i", ["a"]), "the values of 'i' are not numbers"),
    ],
)
def test_bad_values_are_refused_and_nothing_is_written(
    tmp_path: Path, write: Any, message: str
) -> None:
    with summary.FileWriter(tmp_path) as writer:
        with pytest.raises(InvalidArgumentError, match=message):
            write(writer)
        writer.add_summary(Summary(), 5)
    assert [event.step for event in events(tmp_path)] == [5]


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OpError, match="file"):
        summary.FileWriter(tmp_path / "file" / "logs")
