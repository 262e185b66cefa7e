"""Requests that are sent again."""

from __future__ import annotations

import threading

import pytest

from graphmill.errors import AbortedError, NotFoundError
from graphmill_plugins.distributed.master.request_memory import RequestMemory

TIMEOUT = 60


def test_a_repeated_request_gets_the_first_answer():
    memory = RequestMemory()
    answers = iter([b"first", b"second"])
    assert memory.run(1, lambda _: next(answers)) == b"first"
    assert memory.run(1, lambda _: next(answers)) == b"first"
    assert memory.run(2, lambda _: next(answers)) == b"second"


def test_a_repeated_request_gets_the_first_error():
    memory = RequestMemory()

    def fail(_):
        raise NotFoundError("no such thing")

    for _ in range(2):
        with pytest.raises(NotFoundError, match="no such thing"):
            memory.run(1, fail)


def test_a_repeated_request_waits_for_the_running_one():
    memory = RequestMemory(max_response_bytes=0)  # what waits gets an answer that is not kept
    running, release = threading.Event(), threading.Event()
    requests, answers = [], []

    def work(request):
        requests.append(request)
        running.set()
        assert release.wait(TIMEOUT)
        return b"answer"

    first = threading.Thread(target=lambda: answers.append(memory.run(7, work)))
    first.start()
    assert running.wait(TIMEOUT)
    second = threading.Thread(target=lambda: answers.append(memory.run(7, work)))
    second.start()
    while requests[0].num_callers < 2:  # the second one is attached; nothing tells so
        second.join(0.001)
    assert not memory.leave(requests[0]), "another caller waits for it"
    release.set()
    first.join(TIMEOUT)
    second.join(TIMEOUT)
    assert answers == [b"answer"] * 2
    assert len(requests) == 1


def test_an_answer_that_is_not_kept_is_aborted_and_not_made_again():
    memory = RequestMemory(max_response_bytes=8)
    memory.run(1, lambda _: b"12345")
    memory.run(2, lambda _: b"12345")
    with pytest.raises(AbortedError, match="received twice"):
        memory.run(1, lambda _: pytest.fail("it ran twice"))
    assert memory.run(2, lambda _: b"") == b"12345"


def test_only_so_many_requests_are_remembered():
    memory = RequestMemory(max_requests=2)
    for number in range(3):
        memory.run(number, lambda _: b"old")
    assert memory.run(0, lambda _: b"new") == b"new"
    assert memory.run(2, lambda _: b"new") == b"old"


def test_a_request_without_callers_is_to_be_cancelled():
    memory = RequestMemory()
    memory.run(1, lambda request: b"" if memory.leave(request) else pytest.fail("kept"))
