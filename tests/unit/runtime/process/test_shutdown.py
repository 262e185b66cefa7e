"""No graphmill thread computes during interpreter shutdown."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import TYPE_CHECKING

from graphmill.runtime.process.shutdown import SHUTDOWN, Shutdown
from graphmill.runtime.threads.thread_pool import ThreadPool

if TYPE_CHECKING:
    import pytest

_PROGRAM = """
import threading
import graphmill
graph = graphmill.Graph()
with graph.as_default():
    x = graph.placeholder("float32", name="x")
    y = x * 2.0
session = graphmill.Session(graph=graph)
has_begun = threading.Event()
"""
_A_DAEMON = """
from graphmill.runtime.process.shutdown import SHUTDOWN
look, was_seen = SHUTDOWN._computes, threading.Event()
def computes(frame):
    found = look(frame)
    was_seen.set()
    return found
SHUTDOWN._computes = computes
@graphmill.op("Mine>Compute")
@graphmill.kernel("Mine>Compute")
def compute(xp, x: graphmill.float32) -> graphmill.float32:
    has_begun.set()
    was_seen.wait()
    return x
class Plugin:
    @graphmill.hookimpl
    def graphmill_register_ops(self, ops):
        ops.add(compute)
    @graphmill.hookimpl
    def graphmill_register_kernels(self, kernels):
        kernels.add(compute)
host = graphmill.Host(plugins=[Plugin()])
graph = graphmill.Graph(ops=host.ops)
node = graph.create_op("Mine>Compute", [graph.placeholder("float32", [], name="x")], name="y")
session = graphmill.Session(graph=graph, host=host)
def work():
    try:
        while True:
            session.run("y:0", {"x:0": 1.0})
    finally:
        print("left")
threading.Thread(target=work, daemon=True).start()
has_begun.wait()
"""
_NO_DAEMON = """
def work():
    threading.main_thread().join()
    print(session.run(y, {x: 21.0}))
threading.Thread(target=work).start()
"""


def output_of(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM + program],
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    assert not done.stderr
    return done.stdout.strip()


def test_shutdown_ends_daemon_that_runs_steps() -> None:
    """A daemon that runs steps ends its step during the shutdown, and exits before the next one."""
    assert output_of(_A_DAEMON) == "left"


def test_shutdown_lets_other_threads_continue() -> None:
    assert output_of(_NO_DAEMON) == "42.0"


def test_shutdown_exits_only_daemons() -> None:
    end, refused = Shutdown(), []

    def step() -> None:
        try:
            end.exit_daemon()
        except SystemExit:
            refused.append(threading.current_thread().daemon)

    for daemon in (True, False):
        thread = threading.Thread(target=step, daemon=daemon)
        thread.start()
        thread.join()
    assert refused == [True]


def test_schedule_runs_task_itself_during_shutdown(monkeypatch: pytest.MonkeyPatch) -> None:
    pool, ran_in = ThreadPool(1), []
    monkeypatch.setattr(SHUTDOWN, "has_begun", True)
    pool.schedule(lambda: ran_in.append(threading.current_thread()))
    assert ran_in == [threading.current_thread()]
    assert pool.num_started == 0


def test_pool_thread_ends_after_its_task_during_shutdown(monkeypatch: pytest.MonkeyPatch) -> None:
    pool, has_begun, go_on = ThreadPool(1), threading.Event(), threading.Event()
    pool.schedule(lambda: (has_begun.set(), go_on.wait(60)))
    assert has_begun.wait(60)
    (thread,) = pool._threads
    monkeypatch.setattr(SHUTDOWN, "has_begun", True)
    go_on.set()
    thread.join(60)
    assert not thread.is_alive()
