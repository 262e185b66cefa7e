"""The table of sessions."""

from __future__ import annotations

import pytest

from graphmill.errors import AbortedError
from graphmill_plugins.distributed.master.session_table import SessionTable


class FakeSession:
    def __init__(self, num_running: int = 0) -> None:
        self.num_running = num_running
        self.last_use = 0.0
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True


def test_idle_sessions_are_closed_when_one_is_made():
    now = [100.0]
    table = SessionTable(idle_seconds=10, clock=lambda: now[0])
    idle, busy, used = FakeSession(), FakeSession(num_running=1), FakeSession()
    idle_handle, _, used_handle = map(table.add, (idle, busy, used))
    now[0] = 109.0
    table.find(used_handle)
    now[0] = 111.0
    table.add(FakeSession())
    assert [idle.is_closed, busy.is_closed, used.is_closed] == [True, False, False]
    with pytest.raises(AbortedError, match=f"Session {idle_handle} is not found"):
        table.find(idle_handle)
    assert len(table) == 3


def test_idle_sessions_are_kept_by_default():
    now = [0.0]
    table = SessionTable(clock=lambda: now[0])
    handle = table.add(FakeSession())
    now[0] = 1e9
    assert table.collect() == 0
    assert table.find(handle)


def test_sessions_are_taken_out_once():
    table = SessionTable()
    handle = table.add(FakeSession())
    table.remove(handle)
    with pytest.raises(AbortedError, match="is not found"):
        table.remove(handle)
    table.add(FakeSession())
    assert len(table.remove_all()) == 1
    assert len(table) == 0
