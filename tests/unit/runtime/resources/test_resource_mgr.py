"""Resources by container and name (clause S10)."""

from __future__ import annotations

import threading

import pytest

from graphmill import errors
from graphmill.runtime.resources.resource_mgr import ResourceMgr


class Table:
    pass


class Queue:
    pass


@pytest.fixture
def resources() -> ResourceMgr:
    return ResourceMgr()


def test_s10_a_resource_is_found_by_container_name_and_type(resources: ResourceMgr) -> None:
    table, queue = Table(), Queue()
    resources.create("", "t", table)
    resources.create("box", "t", queue)
    assert resources.lookup("", "t", Table) is table
    assert resources.lookup("localhost", "t", Table) is table
    assert resources.lookup("box", "t", Queue) is queue
    assert resources.find("box", "t", Table) is None


def test_s10_one_name_may_have_resources_of_several_types(resources: ResourceMgr) -> None:
    resources.create("", "r", Table())
    resources.create("", "r", Queue())
    assert resources.names() == [("Queue", "r"), ("Table", "r")]


def test_s10_a_resource_is_created_once(resources: ResourceMgr) -> None:
    resources.create("", "t", Table())
    with pytest.raises(errors.AlreadyExistsError, match=r"localhost/t \(Table\) already exists"):
        resources.create("", "t", Table())


def test_s10_a_resource_may_be_filed_under_another_type(resources: ResourceMgr) -> None:
    class Special(Table):
        pass

    made = Special()
    resources.create("", "t", made, Table)
    assert resources.lookup("", "t", Table) is made


@pytest.mark.parametrize("act", ["lookup", "delete"])
def test_s10_missing_resource_is_reported(resources: ResourceMgr, act: str) -> None:
    with pytest.raises(errors.NotFoundError, match="Container localhost does not exist"):
        getattr(resources, act)("", "t", Table)
    resources.create("", "words", Table())
    with pytest.raises(errors.NotFoundError, match=r"/wrods/Table .* did you mean 'words'"):
        getattr(resources, act)("", "wrods", Table)
    with pytest.raises(errors.NotFoundError, match=r"/words/Queue does not exist$"):
        getattr(resources, act)("", "words", Queue)


def test_s10_first_lookup_creates_it(resources: ResourceMgr) -> None:
    made = resources.lookup_or_create("", "t", Table, Table)
    assert resources.lookup_or_create("", "t", Table, Table) is made


def test_s10_a_factory_that_fails_leaves_nothing(resources: ResourceMgr) -> None:
    def fail() -> Table:
        raise errors.InvalidArgumentError("no")

    with pytest.raises(errors.InvalidArgumentError, match="no"):
        resources.lookup_or_create("", "t", Table, fail)
    with pytest.raises(errors.InvalidArgumentError, match="created a Queue, not a Table"):
        resources.lookup_or_create("", "t", Table, Queue)  # type: ignore[arg-type]
    assert resources.containers() == []


def test_s10_racing_threads_get_one_resource(resources: ResourceMgr) -> None:
    barrier = threading.Barrier(8)
    found: list[Table] = []

    def work() -> None:
        barrier.wait()
        found.append(resources.lookup_or_create("", "t", Table, Table))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(map(id, found))) == 1


def test_s10_resources_are_deleted_and_cleared(resources: ResourceMgr) -> None:
    for container in ("", "a", "b"):
        resources.create(container, "t", Table())
    resources.delete("a", "t", Table)
    assert resources.containers() == ["b", "localhost"]
    resources.clear_container("")
    resources.clear_container("never was")
    assert resources.containers() == ["b"]
    resources.clear()
    assert resources.containers() == resources.names("b") == []
