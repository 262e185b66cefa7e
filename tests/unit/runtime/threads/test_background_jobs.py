"""Background jobs run in order in one thread and are dropped with their owner."""

from __future__ import annotations

import gc
import logging
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

from graphmill.runtime.threads.background_jobs import BackgroundWork
from graphmill.testing.timeouts import TIMEOUT

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_jobs_are_done_in_order_by_a_thread_that_ends() -> None:
    work, done = BackgroundWork(), []
    begin = threading.Event()
    work.submit(None, begin.wait)
    for number in range(5):
        work.submit(None, lambda number=number: done.append((number, threading.current_thread())))
    begin.set()
    assert work.wait_idle(30)
    assert [number for number, _ in done] == [0, 1, 2, 3, 4]
    assert len({thread for _, thread in done}) == 1
    done[0][1].join(30)
    assert not done[0][1].is_alive()
    assert work.num_done == 6


def test_no_full_collection_starts_during_a_job() -> None:
    """It would hold the GIL, and with it all steps, for a tenth of a second."""
    work, found = BackgroundWork(), []
    before = gc.get_threshold()
    for _ in range(2):
        work.submit(None, lambda: found.append(gc.get_threshold()))
    assert work.wait_idle(30)
    if sys.version_info < (3, 14):  # which has no third threshold
        assert [thresholds[2] > 1_000_000 for thresholds in found] == [True, True]
    assert gc.get_threshold() == before


def test_a_queue_that_is_full_takes_no_more() -> None:
    work, begin = BackgroundWork(), threading.Event()
    taken = [work.submit(None, begin.wait) for _ in range(400)]
    assert taken.count(True) in (256, 257)  # the first may have begun
    assert work.num_dropped == taken.count(False)
    begin.set()
    assert work.wait_idle(30)


def test_forgotten_jobs_are_not_run() -> None:
    work, begin, done = BackgroundWork(), threading.Event(), []
    mine, other = object(), object()
    work.submit(other, begin.wait)
    work.submit(mine, lambda: done.append("mine"))
    work.submit(other, lambda: done.append("other"))
    work.forget(mine)
    begin.set()
    assert work.wait_idle(30)
    assert done == ["other"]


def test_forget_waits_for_running_jobs() -> None:
    work, has_begun, go_on, done = BackgroundWork(), threading.Event(), threading.Event(), []

    def job() -> None:
        has_begun.set()
        go_on.wait()
        done.append("job")

    def forget() -> None:
        work.forget(mine)
        done.append("forgotten")

    mine = object()
    work.submit(mine, job)
    has_begun.wait()
    work.forget(mine, wait=False)
    assert not done
    thread = threading.Thread(target=forget)
    thread.start()
    go_on.set()
    thread.join(30)
    assert done == ["job", "forgotten"]


def test_a_job_may_forget_its_own_owner() -> None:
    work, mine, done = BackgroundWork(), object(), []
    work.submit(mine, lambda: done.append(work.forget(mine)))
    assert work.wait_idle(30)
    assert done == [None]


def test_job_failure_is_reported_and_isolated(monkeypatch: pytest.MonkeyPatch) -> None:
    reported, done = [], []
    monkeypatch.setattr(threading, "excepthook", lambda args: reported.append(args.exc_value))
    work = BackgroundWork()
    work.submit(None, lambda: done.append(1 // 0))
    work.submit(None, lambda: done.append("next"))
    assert work.wait_idle(30)
    assert isinstance(reported[0], ZeroDivisionError)
    assert done == ["next"]


def test_no_job_is_accepted_without_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    work = BackgroundWork()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        assert not work.submit(None, list)
    assert (work.num_dropped, work.wait_idle(0)) == (1, True)
    assert work.submit(None, list)
    assert work.wait_idle(TIMEOUT)


def test_a_job_that_would_end_its_thread_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    work, done = BackgroundWork(), threading.Event()
    work.submit(None, sys.exit)
    work.submit(None, done.set)
    assert done.wait(TIMEOUT)
    assert work.wait_idle(TIMEOUT)


_AT_THE_END = """
import threading
from graphmill.runtime.threads.background_jobs import BackgroundWork
work, is_under_way, is_ending = BackgroundWork(), threading.Event(), threading.Event()
end = work.end
def told():
    is_ending.set()
    end()
work.end = told
def first():
    is_under_way.set()
    is_ending.wait()
    print("first")
work.submit(None, first)
work.submit(None, lambda: print("second"))
is_under_way.wait()
"""


_SLOW_AT_THE_END = """
import logging, threading
from graphmill.runtime.threads.background_jobs import BackgroundWork
has_begun, is_announced = threading.Event(), threading.Event()
class Announced(logging.Handler):
    def emit(self, record):
        is_announced.set()
logging.getLogger("graphmill.jit").addHandler(Announced())
logging.getLogger().addHandler(logging.StreamHandler())
def job():
    has_begun.set()
    is_announced.wait(60)
    print("done")
work = BackgroundWork()
work.submit(None, job, "the compilation of cluster 7")
has_begun.wait()
"""


def test_exit_names_the_job_that_it_waits_for() -> None:
    found = subprocess.run(
        [sys.executable, "-c", _SLOW_AT_THE_END],
        capture_output=True, text=True, check=True, timeout=TIMEOUT,
    )  # fmt: skip
    assert found.stdout == "done\n"
    assert found.stderr == "the exit of the process waits for the compilation of cluster 7\n"


def test_forget_names_the_job_that_it_waits_for(caplog: pytest.LogCaptureFixture) -> None:
    work, mine, has_begun, go_on = BackgroundWork(), object(), threading.Event(), threading.Event()

    def job() -> None:
        has_begun.set()
        go_on.wait(TIMEOUT)

    class Announced(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            go_on.set()

    work.submit(mine, job, "the compilation of cluster 7")
    has_begun.wait()
    handler = Announced()
    logging.getLogger("graphmill.jit").addHandler(handler)
    try:
        work.forget(mine)
    finally:
        logging.getLogger("graphmill.jit").removeHandler(handler)
    assert caplog.messages == ["the close of a session waits for the compilation of cluster 7"]


def test_pending_jobs_are_dropped_at_shutdown() -> None:
    found = subprocess.run(
        [sys.executable, "-c", _AT_THE_END], capture_output=True, text=True, check=True, timeout=60
    )
    assert found.stdout.split() == ["first"]


_IMPORTS_AT_THE_END = """
import logging, sys, threading
from pathlib import Path
from graphmill.runtime.threads.background_jobs import BackgroundWork

has_begun, is_announced = threading.Event(), threading.Event()
class Announced(logging.Handler):
    def emit(self, record):
        is_announced.set()
logging.getLogger("graphmill.jit").addHandler(Announced())
sys.path.insert(0, FOLDER)
Path(FOLDER, "large.py").write_text(
    "import __main__ as main, colorsys\\nmain.has_begun.set()\\nmain.is_announced.wait(60)\\n"
    "import json\\nimport chunk_of_large\\n"
)
Path(FOLDER, "chunk_of_large.py").write_text("print('imported')")
def job():
    try:
        import large
    except Exception as error:
        print("seen by the job", error)
    print("done")
import json
work = BackgroundWork()
work.submit(None, job, "an import")
has_begun.wait()
"""


def test_exit_ends_imports_of_jobs(tmp_path: Path) -> None:
    found = subprocess.run(
        [sys.executable, "-c", _IMPORTS_AT_THE_END.replace("FOLDER", repr(str(tmp_path)))],
        capture_output=True, text=True, check=True, timeout=TIMEOUT,
    )  # fmt: skip
    assert found.stdout == ""
    assert found.stderr == ""
