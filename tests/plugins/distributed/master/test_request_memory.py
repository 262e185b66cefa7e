"""Retried requests."""

from __future__ import annotations

import threading

import pytest

from graphmill.errors import AbortedError, NotFoundError
from graphmill_plugins.distributed.master.request_memory import RequestMemory

TIMEOUT = 60


class FakeCall:
    """A call that the test ends."""

    def __init__(self) -> None:
        self.end = None
        self.is_attached = threading.Event()

    def on_end(self, callback) -> bool:
        self.end = callback
        self.is_attached.set()
        return True


CALL = FakeCall()


def test_a_repeated_request_gets_the_first_answer():
    memory = RequestMemory()
    answers = iter([b"first", b"second"])
    assert memory.run(1, CALL, lambda _: next(answers)) == b"first"
    assert memory.run(1, CALL, lambda _: next(answers)) == b"first"
    assert memory.run(2, CALL, lambda _: next(answers)) == b"second"


def test_a_repeated_request_gets_the_first_error():
    memory = RequestMemory()

    def fail(_):
        raise NotFoundError("no such thing")

    for _ in range(2):
        with pytest.raises(NotFoundError, match="no such thing"):
            memory.run(1, CALL, fail)


def test_a_repeated_request_waits_for_the_running_one():
    memory = RequestMemory(max_response_bytes=0)  # what waits gets an answer that is not kept
    running, release = threading.Event(), threading.Event()
    requests, answers = [], []

    def work(request):
        requests.append(request)
        running.set()
        assert release.wait(TIMEOUT)
        return b"answer"

    first = threading.Thread(target=lambda: answers.append(memory.run(7, CALL, work)))
    first.start()
    assert running.wait(TIMEOUT)
    second_call = FakeCall()
    second = threading.Thread(target=lambda: answers.append(memory.run(7, second_call, work)))
    second.start()
    assert second_call.is_attached.wait(TIMEOUT)
    requests[0].cancel = lambda: pytest.fail("another caller waits for it")
    memory.leave(requests[0])
    release.set()
    first.join(TIMEOUT)
    second.join(TIMEOUT)
    assert answers == [b"answer"] * 2
    assert len(requests) == 1


def test_dropped_response_is_aborted_and_not_recomputed():
    memory = RequestMemory(max_response_bytes=8)
    memory.run(1, CALL, lambda _: b"12345")
    memory.run(2, CALL, lambda _: b"12345")
    with pytest.raises(AbortedError, match="received twice"):
        memory.run(1, CALL, lambda _: pytest.fail("it ran twice"))
    assert memory.run(2, CALL, lambda _: b"") == b"12345"


def test_only_so_many_requests_are_remembered():
    memory = RequestMemory(max_requests=2)
    for number in range(3):
        memory.run(number, CALL, lambda _: b"old")
    assert memory.run(0, CALL, lambda _: b"new") == b"new"
    assert memory.run(2, CALL, lambda _: b"new") == b"old"


def test_request_without_callers_is_cancelled():
    memory = RequestMemory()
    running, cancelled = threading.Event(), threading.Event()
    requests = []

    def work(request):
        request.cancel = cancelled.set
        requests.append(request)
        running.set()
        assert cancelled.wait(TIMEOUT)
        return b""

    first = threading.Thread(target=memory.run, args=(1, FakeCall(), work))
    first.start()
    assert running.wait(TIMEOUT)
    attached = FakeCall()
    second = threading.Thread(target=memory.run, args=(1, attached, work))
    second.start()
    assert attached.is_attached.wait(TIMEOUT)
    memory.leave(requests[0])
    assert not cancelled.is_set()
    attached.end()
    assert cancelled.is_set()
    first.join(TIMEOUT)
    second.join(TIMEOUT)
    assert len(requests) == 1


def test_stored_error_has_no_frames():
    memory = RequestMemory()
    kept = []

    def fail(request):
        kept.append(request)
        raise NotFoundError("no such thing", node="n")

    with pytest.raises(NotFoundError):
        memory.run(1, CALL, fail)
    assert kept[0].error.__traceback__ is None
    assert (kept[0].error.message, kept[0].error.node) == ("no such thing", "n")
