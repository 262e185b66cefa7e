"""`DirectoryWatch`: receives changes until it is closed, even if the directory fails."""

from __future__ import annotations

import queue
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from graphmill.errors import CancelledError, UnavailableError
from graphmill_plugins.distributed.ray import directory_watch
from graphmill_plugins.distributed.ray.directory import Table
from graphmill_plugins.distributed.ray.directory_watch import DirectoryWatch

if TYPE_CHECKING:
    import threading

SECONDS = 30


def table(change: int) -> Table:
    return Table((1, change), {"worker": 1}, ())


class Call(Future[Any]):
    """A call that cannot be cancelled, like one to a restarting actor."""

    def cancel(self) -> bool:
        return False


class CancellableCall(Future[Any]):
    def cancel(self) -> bool:
        if not self.done():
            self.set_exception(CancelledError("cancelled"))
        return True


class Directories:
    """A fake engine whose calls the test answers."""

    def __init__(self, kind: type = CancellableCall) -> None:
        self.kind = kind
        self.calls: queue.Queue[Any] = queue.Queue()

    def call(self, actor: Any, method: str, *args: Any) -> Any:
        made = self.kind()
        self.calls.put((args, made))
        return made

    def next_call(self) -> Any:
        return self.calls.get(timeout=SECONDS)


def watch(engine: Any, changed: Any) -> DirectoryWatch:
    return DirectoryWatch(engine, None, None, (1, 0), changed)


def thread_of(made: DirectoryWatch) -> threading.Thread:
    return made._thread


def test_watch_reports_each_table_and_requests_the_next() -> None:
    engine, tables = Directories(), queue.Queue[Any]()
    made = watch(engine, tables.put)
    (_, seen, _), call = engine.next_call()
    assert seen == (1, 0)
    call.set_result(None)  # nothing new in that time
    (_, seen, _), call = engine.next_call()
    assert seen == (1, 0)
    call.set_result(table(1))
    assert tables.get(timeout=SECONDS) == table(1)
    (_, seen, _), call = engine.next_call()
    assert seen == (1, 1)
    made.close()
    made.close()
    assert not thread_of(made).is_alive()


def test_uncancellable_call_does_not_block_close(monkeypatch: Any) -> None:
    monkeypatch.setattr(directory_watch, "_END_SECONDS", 0.0)
    engine, tables = Directories(Call), queue.Queue[Any]()
    made = watch(engine, tables.put)
    _, call = engine.next_call()
    made.close()
    assert thread_of(made).is_alive()
    call.set_result(table(1))
    thread_of(made).join(SECONDS)
    assert not thread_of(made).is_alive()
    assert tables.empty()


def test_deleted_directory_ends_the_watch(caplog: Any) -> None:
    engine = Directories()
    made = watch(engine, lambda found: None)
    engine.next_call()[1].set_exception(UnavailableError("the actor has ended"))
    thread_of(made).join(SECONDS)
    assert not thread_of(made).is_alive()
    assert "the directory of the cluster no longer exists" in caplog.text
    made.close()


def test_watch_can_be_closed_by_its_callback() -> None:
    engine, ends = Directories(), queue.Queue[Any]()
    made = watch(engine, lambda found: ends.put(made.close()))
    engine.next_call()[1].set_result(table(1))
    ends.get(timeout=SECONDS)
    thread_of(made).join(SECONDS)
    assert not thread_of(made).is_alive()
