"""A process that runs its shard of a batch run; see `processes`.

The messages go through a duplicate of standard output. Its descriptor 1 is standard error, because
a native library that writes there would write between the messages.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import threading
from typing import TYPE_CHECKING, Any, Final, TextIO

from graphmill.batch.settings import BatchSettings, load, prepare, threads_of_a_job
from graphmill.batch.shard import Shard, run_shard
from graphmill.batch.sources import SourceFile
from graphmill.batch.store import ResultStore
from graphmill.errors import OpError
from graphmill.models.queue_runners import queue_runners_running

if TYPE_CHECKING:
    from graphmill.batch.runner import BatchResult

_LOCK: Final = threading.Lock()


class _PrintedText(io.TextIOBase):
    """Standard output for kernels such as those of `PrintV2`: sends their text to the parent."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def writable(self) -> bool:
        """Return true."""
        return True

    def write(self, text: str, /) -> int:
        """Send a text to the parent, which prints it."""
        _send(self._stream, printed=text)
        return len(text)


def main() -> int:
    """Run the task that standard input describes, and return the exit code."""
    with _private_stdout() as stream, contextlib.redirect_stdout(_PrintedText(stream)):
        _run(json.load(sys.stdin), stream)
    return 0


def _private_stdout() -> TextIO:
    """Return standard output under a descriptor of its own; descriptor 1 becomes standard error."""
    stream = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return stream


def _run(task: dict[str, Any], stream: TextIO) -> None:
    """Run a task; send a message for each step, note and error."""
    from graphmill.plugin.host import default_host

    settings = BatchSettings(**task["settings"])
    sources = [SourceFile(**source) for source in task["sources"]]
    store = ResultStore(task["out"])
    try:
        shard = Shard(task["job"], task["jobs"], settings.batch_size, store.done())
        model = load(settings, default_host(), threads_of_a_job(task["jobs"]))
        with model.session, queue_runners_running(model, is_on=settings.queue_runners):
            constants = store.read_constants()
            prepared = prepare(settings, model, constants, lambda text: _send(stream, note=text))

            def report(result: BatchResult) -> None:
                _send(stream, **result.summary())

            run_shard(prepared, sources, shard, store, report)
    except OpError as error:
        _send(stream, error=_as_data(error))


def _send(stream: TextIO, **message: Any) -> None:
    with _LOCK:  # kernels print in several threads
        stream.write(json.dumps(message) + "\n")
        stream.flush()


def _as_data(error: OpError) -> dict[str, Any]:
    return {
        "code": error.code,
        "message": error.message,
        "node": error.node,
        "op": error.op_type,
        "notes": list(getattr(error, "__notes__", ())),
    }


if __name__ == "__main__":
    sys.exit(main())
