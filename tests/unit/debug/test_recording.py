"""Recordings: their contents, and their files."""

from __future__ import annotations

import json
import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import graphmill
from graphmill import debug, errors, ops
from graphmill.debug.values import ValueStore, digest_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def saved(nested: graphmill.Graph, tmp_path: Path) -> Path:
    path = tmp_path / "step.gmrec"
    with graphmill.Session(graph=nested) as session:
        debug.save(debug.record(session, "y:0", {"x:0": 15.0}), path)
    return path


def test_a_recording_survives_its_file(nested: graphmill.Graph, tmp_path: Path) -> None:
    with graphmill.Session(graph=nested) as session:
        recording = debug.record(session, "y:0", {"x:0": 15.0})
    debug.save(recording, tmp_path / "step.gmrec")
    loaded = debug.load(tmp_path / "step.gmrec")
    assert loaded.events == recording.events
    assert loaded.is_complete
    assert loaded.runs == recording.runs
    assert (loaded.feeds, loaded.fetches) == (("x:0",), ("y:0",))
    for index in range(len(recording)):
        assert loaded.describe(index) == recording.describe(index)
        assert loaded.waiting_at(index) == recording.waiting_at(index)
    assert [str(v) for v in loaded.values] == [str(v) for v in recording.values]


def test_equal_values_are_stored_once() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [None], name="x")
        ops.math.add(ops.math.neg(x), ops.math.mul(x, -1.0), name="y")
    with graphmill.Session(graph=graph) as session:
        recording = debug.record(session, "y:0", {"x:0": np.ones(1000, np.float32)})
    digests = [value.digest for value in recording.values]
    assert len(digests) == len(set(digests))


def test_large_values_are_summarized_but_feeds_and_random_numbers_are_stored() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [None], name="x")
        noise = ops.random.random_uniform([100], dtype="float32", name="noise")
        ops.math.add(x, noise, name="y")
    with graphmill.Session(graph=graph) as session:
        feeds = {"x:0": np.arange(100, dtype=np.float32)}
        recording = debug.record(session, "y:0", feeds, max_value_bytes=64)
    y, noise_value, x_value = (recording.value(name) for name in ("y", "noise", "x"))
    assert y is not None
    assert y.array is None
    assert "(not stored) min " in str(y)
    assert noise_value is not None
    assert noise_value.array is not None
    assert x_value is not None
    assert x_value.array is not None


def test_a_stored_feed_does_not_change_with_the_callers_array() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [2], name="x")
        ops.math.neg(x, name="y")
    fed = np.ones(2, np.float32)
    with graphmill.Session(graph=graph) as session:
        recording = debug.record(session, "y:0", {"x:0": fed})
    fed[:] = 7
    value = recording.value("x")
    assert value is not None
    np.testing.assert_array_equal(value.array, [1, 1])


@pytest.mark.parametrize(
    "array",
    [
        np.array([b"a", b"", b"\x00bc"], object),
        np.array([[1, 2], [3, 4]], np.int16),
        np.array(True),
        np.zeros((0, 3), np.float64),
        np.array([1 + 2j, np.nan], np.complex64),
        np.array([1.5, -2], graphmill.dtypes.bfloat16.as_numpy_dtype),
    ],
    ids=lambda array: str(array.dtype),
)
def test_arrays_of_all_kinds_survive_the_file(array: Any, tmp_path: Path) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder(
            graphmill.as_dtype(array.dtype if array.dtype != object else "string")
        )
        ops.array.identity(x, name="y")
    with graphmill.Session(graph=graph) as session:
        recording = debug.record(session, "y:0", {x: array})
    debug.save(recording, tmp_path / "file")
    (value,) = debug.load(tmp_path / "file").values
    assert value.array is not None
    assert value.array.dtype == array.dtype
    assert digest_of(value.array) == digest_of(array)
    assert str(value) == str(recording.values[0])


def test_recording_of_a_waiting_step_lists_its_waits(queue: graphmill.Graph) -> None:
    with graphmill.Session(graph=queue) as session:
        recording = debug.record(session, "y:0", wait=0)
    assert not recording.is_complete
    assert "'take' (QueueDequeueV2)" in recording.waiting[0]


def test_a_recording_of_a_failed_step_has_its_error(tmp_path: Path) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", name="x")
        ops.array.reshape(ops.math.neg(x, name="before"), [3], name="y")
    with graphmill.Session(graph=graph) as session:
        recording = debug.record(session, "y:0", {"x:0": [1.0]})
    debug.save(recording, tmp_path / "file")
    assert "{{node y}}" in debug.load(tmp_path / "file").error
    assert len(recording.history("before")) == 1
    failed = debug.load(tmp_path / "file").failed
    assert failed == recording.failed
    assert failed is not None
    assert recording.name(failed) == "y"


def rewritten(change: Callable[[dict[str, Any]], None]) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        with zipfile.ZipFile(path) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        header = json.loads(members["recording.json"])
        change(header)
        members["recording.json"] = json.dumps(header).encode()
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in members.items():
                archive.writestr(name, content)

    return damage


def column(name: str, content: bytes) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        with zipfile.ZipFile(path) as archive:
            members = {member: archive.read(member) for member in archive.namelist()}
        members[name] = content
        with zipfile.ZipFile(path, "w") as archive:
            for member, data in members.items():
                archive.writestr(member, data)

    return damage


def a_stored_value(path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        name = next(name for name in archive.namelist() if name.startswith("values/"))
        content = archive.read(name)
    column(name, bytes(len(content) - 1) + b"\x55")(path)


def nested_too_deeply(path: Path) -> None:
    column("recording.json", b"[" * 100_000)(path)


def with_unknown_compression(path: Path) -> None:
    content = bytearray(path.read_bytes())
    method = content.index(b"PK\x01\x02") + 10  # of the first member, in the directory
    content[method] = 99
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("damage", "error", "message"),
    [
        (lambda p: p.write_bytes(b"text"), errors.InvalidArgumentError, "is not a recording"),
        (lambda p: p.write_bytes(b""), errors.InvalidArgumentError, "is not a recording"),
        (lambda p: p.write_bytes(p.read_bytes()[:-200]), errors.DataLossError, "truncated"),
        (
            rewritten(lambda h: h.update(version=2)),
            errors.FailedPreconditionError,
            "version 2 .* reads version 1",
        ),
        (rewritten(lambda h: h.update(format="x")), errors.InvalidArgumentError, "not a recording"),
        (rewritten(lambda h: h.pop("runs")), errors.DataLossError, "damaged"),
        (rewritten(lambda h: h.update(runs=[])), errors.DataLossError, "the run of event 0"),
        (
            rewritten(lambda h: h.update(failed=[0, 999, []])),
            errors.DataLossError,
            "node that fail",
        ),
        (rewritten(lambda h: h.update(failed=[0])), errors.DataLossError, "damaged"),
        (rewritten(lambda h: h.update(values=[])), errors.DataLossError, "damaged"),
        (column("events/node", b"\x7f" * 8), errors.DataLossError, "damaged"),
        (column("events/numbers", b""), errors.DataLossError, "too short"),
        (a_stored_value, errors.DataLossError, "does not match its hash"),
        (
            rewritten(lambda h: h["values"][0].update(num_bytes=1e400)),
            errors.DataLossError,
            "infin",
        ),
        (nested_too_deeply, errors.DataLossError, "recursion"),
        (with_unknown_compression, errors.DataLossError, "NotImplementedError"),
        (
            rewritten(lambda h: h["graphs"][0]["nodes"][-1].update(inputs=[[0, 5]])),
            errors.DataLossError,
            "an input of node .* is 5, expected -1 or more",
        ),
        (
            rewritten(lambda h: h["graphs"][0]["nodes"][-1].update(frame=["loop"])),
            errors.DataLossError,
            "in other frames than its input|iterations of other frames",
        ),
        (
            rewritten(lambda h: [n.update(num_outputs=9) for n in h["graphs"][0]["nodes"]]),
            errors.DataLossError,
            "event 0 has fewer outputs than its node",
        ),
    ],
)
def test_damaged_files_are_refused_by_name(
    saved: Path, damage: Callable[[Path], None], error: type[errors.OpError], message: str
) -> None:
    damage(saved)
    with pytest.raises(error, match=message) as caught:
        debug.load(saved)
    assert str(saved) in str(caught.value)


def test_every_truncation_is_refused(saved: Path) -> None:
    content = saved.read_bytes()
    for size in range(0, len(content), max(len(content) // 40, 1)):
        saved.write_bytes(content[:size])
        with pytest.raises(errors.OpError, match=str(saved)):
            debug.load(saved)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(errors.NotFoundError, match="none"):
        debug.load(tmp_path / "none")


def test_statistics_report_values_that_are_not_finite() -> None:
    statistics = debug.statistics_of(np.array([0, 1, 3, np.nan, np.inf], np.float16))
    assert statistics is not None
    assert (statistics.num_nan, statistics.num_inf, statistics.num_zero) == (1, 1, 1)
    assert (statistics.minimum, statistics.maximum) == (0, 3)
    assert str(statistics).endswith("1 NaN, 1 Inf, 1 zero")
    assert debug.statistics_of(np.array([b"x"], object)) is None
    assert str(debug.statistics_of(np.zeros(0))) == "no elements"


def test_the_total_size_of_values_is_bounded() -> None:
    store = ValueStore(max_total_bytes=10)
    float32 = graphmill.dtypes.float32
    for number in range(3):
        array = np.full(2, number, np.float32)
        store.add(array, float32, lambda value: value, is_needed=number == 2)
    assert [value.array is not None for value in store.values] == [True, False, True]
