"""Call threads: no call waits for another call's thread."""

from __future__ import annotations

import threading

from graphmill_plugins._server.call_threads import CallThreads

TIMEOUT = 60


def finished(submitted) -> threading.Event:
    event = threading.Event()
    submitted.add_done_callback(lambda _: event.set())
    return event


def test_waiting_calls_do_not_block_other_threads():
    threads = CallThreads()
    release = threading.Event()
    waiting = [finished(threads.submit(release.wait, TIMEOUT)) for _ in range(100)]
    assert finished(threads.submit(lambda: None)).wait(TIMEOUT)
    assert not any(event.is_set() for event in waiting)
    release.set()
    assert all(event.wait(TIMEOUT) for event in waiting)
    threads.shut_down()


def test_an_idle_thread_is_used_again():
    threads = CallThreads()
    names: list[int] = []
    kept = threading.Event()
    take_back = threads.take_back

    def noted(thread):
        result = take_back(thread)
        kept.set()
        return result

    threads.take_back = noted
    for _ in range(3):
        kept.clear()
        threads.submit(lambda: names.append(threading.get_ident()))
        assert kept.wait(TIMEOUT)
    assert len(names) == 3
    assert len(set(names)) == 1
    threads.shut_down()


def test_idle_threads_end_and_new_ones_are_made():
    threads = CallThreads(idle_seconds=0.0)
    for _ in range(50):
        assert finished(threads.submit(lambda: None)).wait(TIMEOUT)
    threads.shut_down()
    assert len(threads) == 0


def test_done_callbacks_run_once_though_the_call_is_over():
    threads = CallThreads()
    calls = []
    submitted = threads.submit(lambda: None)
    assert finished(submitted).wait(TIMEOUT)
    submitted.add_done_callback(calls.append)
    assert calls == [submitted]
    threads.shut_down()


def test_shut_down_ends_threads_after_their_calls():
    threads = CallThreads()
    release = threading.Event()
    event = finished(threads.submit(release.wait, TIMEOUT))
    threads.shut_down()
    release.set()
    assert event.wait(TIMEOUT)
    assert len(threads) == 0
