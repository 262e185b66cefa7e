"""A process that runs its shard of a batch run; see `processes`."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from graphmill.batch.settings import BatchSettings, load, prepare, threads_of_a_job
from graphmill.batch.shard import Shard, run_shard
from graphmill.batch.sources import SourceFile
from graphmill.batch.store import ResultStore
from graphmill.cli.model.queue_runners import queue_runners_running
from graphmill.errors import OpError

if TYPE_CHECKING:
    from graphmill.batch.runner import BatchResult


def main() -> int:
    """Run the task that standard input describes, and return the exit code."""
    from graphmill.plugin.host import default_host

    task = json.load(sys.stdin)
    settings = BatchSettings(**task["settings"])
    sources = [SourceFile(**source) for source in task["sources"]]
    store = ResultStore(task["out"])
    try:
        shard = Shard(task["job"], task["jobs"], settings.batch_size, store.done())
        model = load(settings, default_host(), threads_of_a_job(task["jobs"]))
        with model.session, queue_runners_running(model, is_on=settings.queue_runners):
            constants = store.read_constants()
            prepared = prepare(settings, model, constants, lambda text: _send(note=text))
            run_shard(prepared, sources, shard, store, _report)
    except OpError as error:
        _send(error=_as_data(error))
    return 0


def _report(result: BatchResult) -> None:
    _send(
        rows=len(result.rows),
        failures=[failed.text for failed in result.failures],
        position=result.position,
    )


def _send(**message: Any) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


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
