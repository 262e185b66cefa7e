"""Hostile states: saved iterators, tables in functions, files swapped during a load, recordings."""

from __future__ import annotations

import io
import json
import os
import threading
import zipfile
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest
from tests.security.hostile import EFFECTS, REFUSED, contents, make_targets, recorded
from tests.security.test_hostile_escapes import checkpoint_model, graph_of, program, xla_graph
from tests.security.test_hostile_models import asset_model, command_line
from tests.security.test_hostile_names import CONTROL, MARKUP, TEXT
from tests.security.test_hostile_places import hidden, step

import graphmill
from graphmill import debug, errors, saved_model
from graphmill.memory_budget import with_memory_limit

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    make_targets(tmp_path / "target")
    (tmp_path / "target" / "lines.txt").write_text("one\ntwo\nthree\n")
    return tmp_path / "target"


# ------------------------------------------------------------------------------------- iterators

_S: Final = "output_types=[string], output_shapes=[[]]"
_LINES: Final = (
    "z = Const(dtype=string, value=\"string: ''\"); b = Const(dtype=int64, value='int64: 0'); "
    "t = TextLineDataset(f, z, b); "
)
_FIRST: Final = f"{_LINES}i = IteratorV2(shared_name='a', container='', {_S}); "
_SAVE: Final = (
    f"{_FIRST}m = MakeIterator(t, i); g = IteratorGetNext(i, {_S}, after=[m]); "
    "s = SerializeIterator(i, after=[g])"
)
_RESTORE: Final = (
    f"{_FIRST}m = MakeIterator(t, i); s = Placeholder(dtype=variant, shape=[]); "
    f"r = DeserializeIterator(i, s, after=[m]); y = IteratorGetNext(i, {_S}, after=[r])"
)


def _saved_position(path: Path) -> Any:
    """Return the state of an iterator over the lines of a file, after the first line."""
    with graphmill.Session(graph=graph_of(_SAVE)) as session:
        return session.run("s:0", {"f:0": str(path)})


def test_restored_iterator_reads_only_what_is_allowed(folder: Path) -> None:
    """Restoring a position takes the elements before it, which reads the file."""
    path = folder / "lines.txt"
    saved = _saved_position(path)
    fed = {"f:0": str(path), "s:0": saved}
    with (
        recorded(folder) as events,
        graphmill.Session(graph=graph_of(_RESTORE), trust=False) as session,
        pytest.raises(REFUSED, match="the op TextLineDataset may not read") as caught,
    ):
        session.run("y:0", fed)
    assert events == []
    assert caught.value.node
    allowed = [f"fs.read:{folder}"]
    with graphmill.Session(graph=graph_of(_RESTORE), trust=False, allow=allowed) as session:
        assert session.run("y:0", fed) == b"two"


HANDLES: Final[dict[str, str]] = {
    "a handle as text": (
        f"{_FIRST}m = MakeIterator(t, i); h = IteratorToStringHandle(i, after=[m]); "
        f"j = IteratorFromStringHandleV2(h, {_S}); y = IteratorGetNext(j, {_S})"
    ),
    "an old handle as text": (
        f"{_FIRST}m = MakeIterator(t, i); h = IteratorToStringHandle(i, after=[m]); "
        f"j = IteratorFromStringHandle(h, {_S}); y = IteratorGetNext(j, {_S})"
    ),
    "a saved position": (
        f"{_FIRST}m = MakeIterator(t, i); s = SerializeIterator(i, after=[m]); "
        f"j = IteratorV2(shared_name='b', container='', {_S}); k = MakeIterator(t, j, after=[s]); "
        f"r = DeserializeIterator(j, s, after=[k]); y = IteratorGetNext(j, {_S}, after=[r])"
    ),
    "a dataset from its graph": (
        f"{_LINES}g = DatasetToGraphV2(t, external_state_policy=0); d = DatasetFromGraph(g); "
        f"q = Const(dtype=int64, value='int64: 1'); e = TakeDataset(d, q, {_S}); "
        f"y = DatasetToSingleElement(e, {_S})"
    ),
    "an optional": (
        f"{_FIRST}m = MakeIterator(t, i); o = IteratorGetNextAsOptional(i, {_S}, after=[m]); "
        f"y = OptionalGetValue(o, {_S})"
    ),
}


@pytest.mark.parametrize("name", HANDLES)
def test_iterator_by_its_handle_reads_only_what_is_allowed(name: str, folder: Path) -> None:
    graph, path = graph_of(HANDLES[name]), str(folder / "lines.txt")
    with (
        recorded(folder) as events,
        graphmill.Session(graph=graph, trust=False) as session,
        pytest.raises(REFUSED, match="the op TextLineDataset may not read") as caught,
    ):
        session.run("y:0", {"f:0": path})
    assert events == []
    assert caught.value.node
    allowed = [f"fs.read:{folder}"]
    with graphmill.Session(graph=graph, trust=False, allow=allowed) as session:
        assert session.run("y:0", {"f:0": path}) == b"one"


# --------------------------------------------------------------------------- effects in functions

IN_FUNCTIONS: Final = (
    "a function of rows",
    "a captured input of a function of rows",
    "a batched function",
    "the cond of a loop",
    "the body of a stateless loop",
    "the else branch",
    "an iterator's factory",
    "a batched map",
    "a parallel interleaving",
    "a control input of a constant",
)


@pytest.mark.parametrize("place", IN_FUNCTIONS)
@pytest.mark.parametrize("name", ["fill a table", "a debug URL", "summaries"])
def test_state_of_a_function_is_made_only_of_what_is_allowed(
    name: str, place: str, folder: Path
) -> None:
    effect = EFFECTS[name]
    graph = hidden(effect, place, str(folder / effect.path))
    before = contents(folder)
    with recorded(folder) as events, pytest.raises(REFUSED) as caught:
        step(graph, ())
    assert events == []
    assert contents(folder) == before
    assert f"the op {effect.op} may not" in caught.value.message
    assert caught.value.node
    if "cond" not in place:
        with recorded(folder) as events:
            step(graph, tuple(rule.format(folder=folder) for rule in effect.rules))
        assert events


_DOUBLE: Final = """
module @harmless {
  func.func public @main(%arg0: tensor<3xf32>) -> tensor<3xf32> {
    %0 = stablehlo.add %arg0, %arg0 : tensor<3xf32>
    return %0 : tensor<3xf32>
  }
}
"""


def test_functions_of_a_program_are_not_called(folder: Path) -> None:
    """A program may name functions of the graph, which it would call by a custom call."""
    graph = xla_graph(program(_DOUBLE))
    act = (
        f"act() -> (string): f = Const(dtype=string, value=\"string: '{folder}/one.txt'\"); "
        "y = ReadFile(f); return y"
    )
    graph.library.CopyFrom(graph_of("y = Identity(f)", (act,)).library)
    with graphmill.Session(graph=graph, trust=False) as session:
        assert session.run("y:0", {"x:0": np.ones(3, np.float32)}).tolist() == [2, 2, 2]
    graph.node[-1].attr["function_list"].list.func.add().name = "act"
    with (
        recorded(folder) as events,
        graphmill.Session(graph=graph, trust=False) as session,
        pytest.raises(errors.OpError) as caught,
    ):
        session.run("y:0", {"x:0": np.ones(3, np.float32)})
    assert events == []
    assert (caught.value.node, caught.value.op_type) == ("y", "XlaCallModule")


# --------------------------------------------------------------------------------- files of a model

FINGERPRINTS: Final[dict[str, bytes]] = {
    "nothing": b"",
    "noise": bytes(range(256)) * 8,
    "a string without an end": b"\x3a\xff\xff\xff\xff\x0f",
    "a control sequence as its identifier": b"\x3a" + bytes([len(TEXT.encode())]) + TEXT.encode(),
    "another checksum": b"\x08\x01\x10\x02\x18\x03\x20\x04\x28\x05",
}


@pytest.mark.parametrize("name", FINGERPRINTS)
def test_damaged_fingerprint_changes_nothing(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = checkpoint_model(tmp_path / "model")
    (model / "fingerprint.pb").write_bytes(FINGERPRINTS[name])
    with saved_model.load(model) as loaded:
        assert loaded.signatures["serving_default"]()["out"].tolist() == [1, 2]
    for command in ("show", "scan"):
        assert command_line(command, str(model)) == 0
    printed = capsys.readouterr()
    assert CONTROL.search(printed.out + printed.err) is None


def test_asset_swapped_for_a_link_during_loads_is_not_followed(
    folder: Path, tmp_path: Path
) -> None:
    """If the link were followed, the table would have the two additional words of its target."""
    made = asset_model(tmp_path, "words.txt")
    size = made.meta.graph_def.node.add(name="n", op="LookupTableSizeV2", input=["h"])
    made.meta.signature_def["serving_default"].outputs["y"].name = f"{size.name}:0"
    made.meta.signature_def["serving_default"].outputs["y"].dtype = 9
    model = made.write()
    assets = model / "assets"
    assets.mkdir()
    (assets / "real").write_bytes(b"one\n")
    (assets / "link").symlink_to(folder / "lines.txt")
    has_ended = threading.Event()

    def swap() -> None:
        while not has_ended.is_set():
            for name in ("real", "link"):
                os.rename(assets / name, assets / "words.txt")  # noqa: PTH104 - the fastest swap
                os.rename(assets / "words.txt", assets / name)  # noqa: PTH104

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for _ in range(60):
            try:
                with saved_model.load(model) as loaded:
                    found = int(loaded.signatures["serving_default"]()["y"])
            except errors.OpError:
                continue  # a race may be lost in many ways, but not by reading the other file
            assert found == 1
    finally:
        has_ended.set()
        thread.join()
    (assets / "real").rename(assets / "words.txt")
    with saved_model.load(model) as loaded:
        assert int(loaded.signatures["serving_default"]()["y"]) == 1


# -------------------------------------------------------------------------------------- recordings


def _recording(path: Path) -> Path:
    """Write the recording of a step with text."""
    with graphmill.Session(graph=graph_of("y = StringUpper(f)")) as session:
        debug.save(debug.record(session, "y:0", {"f:0": "text"}), path)
    return path


def _changed(path: Path, change: Callable[[Any], None]) -> Path:
    """Write a recording whose header is changed."""
    buffer = io.BytesIO(_recording(path).read_bytes())
    with zipfile.ZipFile(buffer) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name == "recording.json":
                header = json.loads(content)
                change(header)
                content = json.dumps(header).encode()
            new.writestr(name, content)
    return path


def _named(header: Any, text: str) -> None:
    for graph in header["graphs"]:
        for node in graph["nodes"]:
            node["name"] += text


def _explained(header: Any, text: str) -> None:
    header["error"] = text
    for value in header["values"]:
        value["text"] = text


@pytest.mark.parametrize("name", ["a\x1b[2K", "a\nforged", "a\u202eb"])
def test_name_in_a_recording_that_is_no_name_is_refused(name: str, tmp_path: Path) -> None:
    path = _changed(tmp_path / "step.gmrec", lambda header: _named(header, name))
    with pytest.raises(errors.DataLossError, match="is not the name"):
        debug.load(path)
    harmless = _changed(tmp_path / "step.gmrec", lambda header: _named(header, "_é"))
    assert debug.load(harmless).graphs[0].nodes[0].name.endswith("_é")


@pytest.mark.parametrize("change", [_named, _explained])
@pytest.mark.parametrize("text", [TEXT, MARKUP])
def test_text_of_a_recording_does_not_control_the_terminal(
    text: str,
    change: Callable[[Any, str], None],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = _changed(tmp_path / "step.gmrec", lambda header: change(header, text))
    commands = ("where", "step", "list", "results", "dead", "history", "pending", "continue")
    command_line("debug", str(path), *(word for line in commands for word in ("-x", line)))
    printed = capsys.readouterr()
    assert printed.out + printed.err
    assert CONTROL.search(printed.out) is None, repr(printed.out)
    assert CONTROL.search(printed.err) is None, repr(printed.err)


def test_names_in_a_recordings_archive_are_no_paths(folder: Path, tmp_path: Path) -> None:
    path = _recording(tmp_path / "step.gmrec")
    with zipfile.ZipFile(path, "a") as archive:
        for name in ("../target/evil", f"{folder}/evil", "../../evil"):
            archive.writestr(name, b"evil")
    before = contents(tmp_path)
    with recorded(folder) as events:
        debug.load(path)
    assert events == []
    assert contents(tmp_path) == before


HEADERS: Final[dict[str, Callable[[Any], None]]] = {
    "a large shape": lambda header: [
        value.update(shape=[2**40, 2**20], is_stored=True) for value in header["values"]
    ],
    "a negative shape": lambda header: [value.update(shape=[-1]) for value in header["values"]],
    "300 dimensions": lambda header: [value.update(shape=[1] * 300) for value in header["values"]],
    "objects": lambda header: [value.update(dtype="object") for value in header["values"]],
    "no graphs": lambda header: header.update(graphs=[]),
    "a run that calls itself": lambda header: header["runs"][0].update(caller=[0, 0, []]),
    "a version to come": lambda header: header.update(version=2**70),
    "no format": lambda header: header.pop("format"),
}


@pytest.mark.parametrize("name", HEADERS)
def test_damaged_header_of_a_recording_is_a_typed_error(name: str, tmp_path: Path) -> None:
    path = _changed(tmp_path / "step.gmrec", HEADERS[name])
    with pytest.raises(errors.OpError) as caught:
        debug.load(path)
    assert not isinstance(caught.value, errors.InternalError)
    assert len(caught.value.message) < 20_000
    assert command_line("debug", str(path), "-x", "continue") == 3


def test_recording_that_expands_without_limit_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "step.gmrec"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("recording.json", b" " * (1 << 28) + b"{}")
    with pytest.raises(errors.ResourceExhaustedError, match=r"recording\.json"):
        with_memory_limit(16 << 20, debug.load)(path)


def test_replayed_recording_has_no_effects(folder: Path, tmp_path: Path) -> None:
    """The feeds of a recording choose the path; the model is replayed without effects."""
    made = asset_model(tmp_path, "words.txt")
    made.meta.signature_def.pop("__saved_model_init_op")
    made.meta.graph_def.node.add(name="x", op="ReadFile", input=["f"])
    made.signature("serving_default", "x:0")
    made.meta.signature_def["serving_default"].inputs["f"].CopyFrom(
        made.meta.asset_file_def[0].tensor_info
    )
    del made.meta.asset_file_def[:]
    model = made.write()
    graph = graph_of("x = ReadFile(f)")
    path = tmp_path / "step.gmrec"
    with graphmill.Session(graph=graph) as session:
        debug.save(debug.record(session, "x:0", {"f:0": str(folder / "one.txt")}), path)
    with recorded(folder) as events:
        command_line("debug", str(model), "--replay", str(path), "-x", "continue")
    assert events == []
