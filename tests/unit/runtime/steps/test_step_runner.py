"""The event loop of a step waits so that a signal can end it in the main thread."""

from __future__ import annotations

import threading
from queue import Empty
from typing import Any

from graphmill.runtime.steps.step_runner import StepRunner, get_in_main_thread


class LateQueue:
    """A queue whose first waits end without an item, as if a signal had come too early to wake."""

    def __init__(self, num_waits: int) -> None:
        self.num_waits = num_waits
        self.timeouts: list[float | None] = []

    def get(self, timeout: float | None = None) -> Any:
        self.timeouts.append(timeout)
        if len(self.timeouts) <= self.num_waits:
            raise Empty
        return "item"


def test_the_main_thread_never_waits_without_a_limit() -> None:
    queue: Any = LateQueue(2)
    assert get_in_main_thread(queue) == "item"
    assert len(queue.timeouts) == 3
    assert all(timeout is not None and timeout <= 1 for timeout in queue.timeouts)


def test_actions_of_other_threads_run_in_the_driving_thread() -> None:
    def drive() -> list[int]:
        runner, ran = StepRunner(), []
        for _ in range(2):
            thread = threading.Thread(
                target=lambda: runner.post(lambda: ran.append(threading.get_ident()))
            )
            thread.start()
        runner.run_until(lambda: len(ran) == 2)
        return ran

    assert set(drive()) == {threading.get_ident()}
    idents: list[int] = []
    other = threading.Thread(target=lambda: idents.extend([*drive(), threading.get_ident()]))
    other.start()
    other.join()
    assert len(set(idents)) == 1


def test_watches_run_before_a_wait_only() -> None:
    runner, calls, ran = StepRunner(), [], []

    def watch() -> None:
        calls.append("watch")
        runner.post(lambda: ran.append(1))

    runner.watches.append(watch)
    runner.post(lambda: ran.append(0))
    runner.run_until(lambda: len(ran) == 2)
    assert (calls, ran) == (["watch"], [0, 1])
