"""`IterationQueue` returns the nodes of an older iteration first, then the newest one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from graphmill_plugins.default_executor.iteration_queue import IterationQueue

ROOT = SimpleNamespace(frame=SimpleNamespace(parent=None), number=0)


def iteration(number: int, name: str = "loop", parent: Any = ROOT) -> Any:
    frame = SimpleNamespace(parent=parent, view=SimpleNamespace(name=name))
    return SimpleNamespace(frame=frame, number=number)


def order(*entries: Any) -> list[Any]:
    queue = IterationQueue()
    queue.extend(entries)
    assert queue.entries() == [queue.pop() if queue.next() else None for _ in entries]
    queue.extend(entries)
    return [queue.pop()[0] for _ in entries]


def test_the_newest_node_of_an_iteration_is_next() -> None:
    assert order(("a", ROOT, False), ("b", ROOT, False)) == ["b", "a"]


def test_older_iterations_and_outer_frames_come_first() -> None:
    outer = [iteration(number) for number in range(2)]
    inner = iteration(5, "inner", outer[0])
    entries = [("o1", outer[1], False), ("i", inner, False), ("o0", outer[0], True)]
    assert order(*entries, ("root", ROOT, False)) == ["root", "o0", "i", "o1"]


def test_a_graph_without_control_flow_has_one_iteration() -> None:
    run = SimpleNamespace()
    assert order(("a", run, False), ("b", run, False)) == ["b", "a"]


def test_an_empty_queue_has_no_next_node() -> None:
    queue = IterationQueue()
    queue.append(("a", ROOT, False))
    queue.clear()
    assert queue.next() is None
    assert not len(queue)
