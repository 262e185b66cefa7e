"""Fuzz target: open a recording of the debugger, and play it.

The first byte chooses what the rest is: the file; the file without its checksums, so that damage
reaches the code behind them; or its header.
"""

from __future__ import annotations

import contextlib
import io
import tempfile
import zipfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

from scratch_folder import new_file
from typed_errors import typed_errors

import graphmill
from graphmill import debug, ops
from graphmill.debug import recording_file

if TYPE_CHECKING:
    from graphmill.debug.recording import Recording

_FILE, _UNVERIFIED, _HEADER = range(3)


def seeds() -> list[bytes]:
    """Return the recording of a loop with text and a dead branch in each form."""
    content = _recorded()
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        header = archive.read(recording_file._HEADER)
    return [bytes([_FILE]) + content, bytes([_UNVERIFIED]) + content, bytes([_HEADER]) + header]


@cache
def _recorded() -> bytes:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [2], name="x")
        loop = graphmill.while_loop(
            lambda i, _: i < 2, lambda i, v: [i + 1, ops.math.log(v)], [0, x], name="loop"
        )
        chosen = graphmill.cond(loop[0] > 5, lambda: loop[1], lambda: loop[1] * 2.0)
        ops.string.as_string(chosen, name="y")
    with tempfile.TemporaryDirectory() as folder, graphmill.Session(graph=graph) as session:
        path = Path(folder, "step.gmrec")
        debug.save(debug.record(session, "y:0", {x: [0.5, 2.0]}), path)
        return path.read_bytes()


def fuzz(data: bytes) -> None:
    """Open a recording, step through it, and look at everything."""
    kind, content = (data[0] if data else 0) % 3, data[1:]
    if kind == _HEADER:
        content = _with_header(content)
    path = new_file("step.gmrec", content)
    with contextlib.ExitStack() as patches, typed_errors():
        if kind == _UNVERIFIED:
            patches.enter_context(mock.patch.object(zipfile.ZipExtFile, "_update_crc", _accept))
            patches.enter_context(mock.patch.object(recording_file, "digest_of", _accept))
        _play(debug.load(path))


def _accept(*_: object) -> object:
    """Return a matching digest; a `Mock` would take longer."""
    return mock.ANY


def _with_header(header: bytes) -> bytes:
    """Return the recording with another header."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(_recorded())) as old, zipfile.ZipFile(buffer, "w") as new:
        for name in old.namelist():
            new.writestr(name, header if name == recording_file._HEADER else old.read(name))
    return buffer.getvalue()


def _play(recording: Recording) -> None:
    for index in range(len(recording.events)):
        recording.describe(index)
    list(recording.non_finite())
    player = debug.Player(recording)
    player.break_on_nan()
    while player.resume().reason == "breakpoint":
        player.where()
    player.waiting()
    player.dead()
    player.back()
    player.next_iteration()
    for name in ("y", "loop/Switch_1:1"):
        player.value(name)


if __name__ == "__main__":
    import sys

    from harness import main

    main(sys.modules[__name__])
