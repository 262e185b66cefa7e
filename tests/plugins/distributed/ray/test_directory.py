"""`Directory`: task addresses and notification of watchers."""

from __future__ import annotations

import asyncio

from graphmill_plugins.distributed.ray.directory import Directory, Registration, Table

FIRST = Registration("worker", 0, "a:1", 11)
SECOND = Registration("worker", 1, "b:1", 12)
JOBS = {"worker": 2}


def test_registration_notifies_waiters() -> None:
    async def program() -> None:
        directory = Directory(JOBS)
        empty = await directory.exchange(None, None, 0)
        assert empty is not None
        assert empty.tasks == ()
        waiting = asyncio.ensure_future(directory.exchange(None, empty.version, 30))
        await asyncio.sleep(0)
        mine = await directory.exchange(FIRST, None, 30)
        assert mine == Table(mine.version, JOBS, (FIRST,))
        assert await waiting == mine

    asyncio.run(program())


def test_nothing_new_is_none_after_the_time_has_passed() -> None:
    async def program() -> None:
        directory = Directory(JOBS)
        table = await directory.exchange(FIRST, None, 0)
        assert table is not None
        assert await directory.exchange(FIRST, table.version, 0.001) is None

    asyncio.run(program())


def test_restarted_task_replaces_the_previous_one() -> None:
    async def program() -> None:
        directory = Directory(JOBS)
        await directory.exchange(FIRST, None, 0)
        again = Registration("worker", 0, "a:1", 99)
        table = await directory.exchange(again, None, 0)
        assert table is not None
        assert table.tasks == (again,)

    asyncio.run(program())


def test_tasks_register_again_after_directory_restart() -> None:
    async def program() -> None:
        before = Directory(JOBS)
        await before.exchange(FIRST, None, 0)
        table = await before.exchange(SECOND, None, 0)
        assert table is not None
        after = Directory(JOBS)
        first = await after.exchange(FIRST, table.version, 30)  # its version is of another life
        second = await after.exchange(SECOND, table.version, 30)
        assert first is not None
        assert second is not None
        assert (first.tasks, second.tasks) == ((FIRST,), (FIRST, SECOND))

    asyncio.run(program())
