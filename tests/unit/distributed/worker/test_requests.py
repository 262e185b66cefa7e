"""Retried requests attach to the running one, receive its stored response, or are refused."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

from graphmill import errors
from graphmill.distributed.worker import requests
from graphmill.distributed.worker.requests import RecentRequests


class Caller(list[Any]):
    def __call__(self, result: Any, error: Any) -> None:
        self.append((result, error))

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other


def test_a_request_that_runs_is_joined() -> None:
    table: RecentRequests[str] = RecentRequests()
    one, two, three = Caller(), Caller(), Caller()
    request, is_new = table.enter(5, one)
    assert (table.enter(5, two), is_new) == ((request, False), True)
    request.finish("done", None)
    assert (list(one), list(two)) == ([("done", None)], [("done", None)])
    table.enter(5, three)
    assert list(three) == [("done", None)]


def test_requests_without_an_id_are_never_the_same() -> None:
    table: RecentRequests[str] = RecentRequests()
    first, _ = table.enter(0, Caller())
    second, is_new = table.enter(0, Caller())
    assert is_new
    assert first is not second


def test_work_is_cancelled_when_the_last_caller_has_left() -> None:
    table: RecentRequests[str] = RecentRequests()
    one, two, reasons = Caller(), Caller(), Caller()
    request, _ = table.enter(5, one)
    table.enter(5, two)
    request.cancel = lambda reason: reasons.append(reason)
    request.leave(one)
    request.leave(one)
    assert not reasons
    request.leave(two)
    (reason,) = reasons
    assert isinstance(reason, errors.CancelledError)
    request.finish(None, reason)
    request.leave(two)
    assert len(reasons) == 1
    for caller in (one, two):  # each is told once, as it may be a thread that waits
        ((result, error),) = caller
        assert result is None
        assert isinstance(error, errors.CancelledError)


def test_oversized_outcomes_are_dropped_and_not_rerun(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(requests, "MAX_BYTES", 1000)
    table: RecentRequests[str] = RecentRequests()
    for number in (1, 2):
        request, _ = table.enter(number, Caller())
        request.finish("large", None, 700)
    with pytest.raises(errors.AbortedError, match="received twice"):
        table.enter(1, Caller())
    known = Caller()
    table.enter(2, known)
    assert list(known) == [("large", None)]


def test_ids_are_remembered_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "MAX_IDS", 2)
    monkeypatch.setattr(requests, "MAX_OUTCOMES", 2)
    table: RecentRequests[str] = RecentRequests()
    for number in range(1, 7):
        request, _ = table.enter(number, Caller())
        request.finish(str(number), None)
    _, is_new = table.enter(1, Caller())
    assert is_new
    known = Caller()
    table.enter(6, known)
    assert list(known) == [("6", None)]


def test_remembered_errors_hold_no_values_of_their_step() -> None:
    class Tensor:
        pass

    def fail() -> weakref.ref[Tensor]:
        tensor = Tensor()
        try:
            raise errors.InternalError("derived") from errors.AbortedError("cause")
        except errors.InternalError as error:
            request.finish(None, error)
        return weakref.ref(tensor)

    table: RecentRequests[str] = RecentRequests()
    request, _ = table.enter(5, Caller())
    tensor = fail()
    gc.collect()
    assert tensor() is None
    again = Caller()
    table.enter(5, again)
    ((_, error),) = again
    assert isinstance(error, errors.InternalError)
    assert isinstance(error.__cause__, errors.AbortedError)
