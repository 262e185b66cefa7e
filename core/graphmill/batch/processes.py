"""Run the shards of a batch run in several processes.

A worker is `python -m graphmill.batch.worker`. It reads its task, a JSON object, from standard
input, and writes a JSON object in a line of standard output for each step, and for each text that a
kernel prints there. Results are files of the store, so nothing large goes through the pipes.
"""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from graphmill.errors import InternalError, error_class

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.batch.settings import BatchSettings
    from graphmill.batch.sources import SourceFile

_WORKER = "graphmill.batch.worker"


def run_in_processes(
    jobs: int,
    settings: BatchSettings,
    sources: Sequence[SourceFile],
    out: str,
    report: Callable[[int, dict[str, Any]], None],
) -> None:
    """Run all rows in worker processes; when one fails, the others end.

    Args:
        jobs: the number of processes.
        settings: the run.
        sources: the files with rows.
        out: the file of the results; the store is next to it.
        report: is called in this thread with the number of a worker and its message.

    Raises:
        OpError: the error of the first worker that failed.
    """
    messages: queue.SimpleQueue[tuple[int, dict[str, Any]]] = queue.SimpleQueue()
    shared = {
        "settings": asdict(settings),
        "sources": [asdict(source) for source in sources],
        "out": out,
        "jobs": jobs,
    }
    workers: list[subprocess.Popen[str]] = []
    threads: list[threading.Thread] = []
    try:
        for job in range(jobs):
            worker = _start()
            workers.append(worker)
            task = json.dumps({**shared, "job": job})
            thread = threading.Thread(
                target=_forward_messages,
                args=(worker, task, job, messages.put),
                name=f"graphmill-batch-worker-{job}",
                daemon=True,
            )
            threads.append(thread)
            thread.start()
        _follow(messages, jobs, report)
    finally:
        for worker in workers:
            if worker.poll() is None:
                worker.terminate()
        for thread in threads:
            thread.join()
        for worker in workers:
            worker.wait()


def _start() -> subprocess.Popen[str]:
    # In a session of its own: Ctrl-C reaches this process only, which then ends its workers.
    return subprocess.Popen(
        [sys.executable, "-m", _WORKER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        start_new_session=True,
    )


def _forward_messages(
    worker: subprocess.Popen[str],
    task: str,
    job: int,
    put: Callable[[tuple[int, dict[str, Any]]], None],
) -> None:
    """Send a worker its task; forward its messages, then its exit status."""
    assert worker.stdin is not None
    assert worker.stdout is not None
    assert worker.stderr is not None
    stderr: list[str] = []
    drain = threading.Thread(target=lambda: stderr.extend(worker.stderr or ()), daemon=True)
    drain.start()
    try:
        with worker.stdin as stream:
            stream.write(task)
    except BrokenPipeError:
        pass  # it has ended; the exit code below says so
    with worker.stdout:
        for line in worker.stdout:
            try:
                message = json.loads(line)
            except ValueError:  # it was killed while it wrote; the exit code says so
                break
            put((job, message))
    code = worker.wait()
    drain.join()
    worker.stderr.close()
    put((job, {"exit": code, "stderr": "".join(stderr[-20:])}))


def _follow(
    messages: queue.SimpleQueue[tuple[int, dict[str, Any]]],
    jobs: int,
    report: Callable[[int, dict[str, Any]], None],
) -> None:
    """Report the messages of all workers, and print what they print, until all have ended."""
    running = jobs
    while running:
        job, message = messages.get()
        if "error" in message:
            raise _error_of(message["error"])
        if "printed" in message:
            sys.stdout.write(message["printed"])
            sys.stdout.flush()
            continue
        if "exit" not in message:
            report(job, message)
            continue
        running -= 1
        if message["exit"]:
            raise InternalError(
                f"worker process {job} ended with exit code {message['exit']}: "
                f"{message['stderr'].strip() or 'it wrote nothing'}"
            )


def _error_of(data: dict[str, Any]) -> Exception:
    """Return the error that a worker has reported, with its type, node and notes."""
    error = error_class(data["code"])(data["message"], node=data["node"], op_type=data["op"])
    for note in data["notes"]:
        error.add_note(note)
    return error
