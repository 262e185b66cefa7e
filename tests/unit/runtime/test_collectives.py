"""Collective groups (R6): waiting, refused and failed members."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from graphmill import errors
from graphmill.runtime.collectives import CollectiveRequest, LocalCollectives
from graphmill.runtime.steps.cancellation import CancellationManager

if TYPE_CHECKING:
    from collections.abc import Sequence

TASK = "/job:worker/replica:0/task:3"


def in_order(requests: Sequence[CollectiveRequest]) -> list[list[str]]:
    return [[request.device.rpartition(":")[2] for request in requests]] * len(requests)


class Step:
    """The members of one step, and their outcomes."""

    def __init__(self, num_devices: int | None = None) -> None:
        self.collectives = LocalCollectives(num_devices)
        self.cancellation = CancellationManager()
        self.outcomes: dict[int, tuple[Any, Any]] = {}
        self.has_outcome = threading.Semaphore(0)

    def join(self, device: int, on: int | None = None, **changes: Any) -> None:
        place = device if on is None else on
        defaults: dict[str, Any] = {
            "kind": "Reduce",
            "group_key": 7,
            "group_size": 2,
            "instance_key": 9,
            "iteration": "0:0",
            "device": f"{TASK}/device:CPU:{place}",
            "node": f"node{device}",
            "value": np.float32([1]),
            "agreed": {"shape": [1]},
            "combine": in_order,
        }

        def done(result: Any, error: Any) -> None:
            assert device not in self.outcomes
            self.outcomes[device] = result, error
            self.has_outcome.release()

        request = CollectiveRequest(**(defaults | changes))
        self.collectives.execute_async(request, self.cancellation, done)


def test_members_wait_for_the_last_and_are_ordered_by_device() -> None:
    step = Step()
    for device in (10, 2, 0):
        step.join(device, group_size=4)
    assert not step.outcomes
    step.join(1, group_size=4)
    assert step.outcomes == dict.fromkeys((0, 1, 2, 10), (["0", "1", "2", "10"], None))


def test_given_ranks_order_the_members() -> None:
    step = Step()
    step.join(0, rank=1)
    step.join(1, rank=0)
    assert step.outcomes[0] == (["1", "0"], None)


def test_rounds_of_a_loop_do_not_mix() -> None:
    step = Step()
    step.join(0, iteration="5:0")
    step.join(1, iteration="5:1")
    assert not step.outcomes


def test_an_instance_can_be_used_again() -> None:
    step = Step()
    for _ in range(2):
        step.join(0)
        step.join(1)
        assert step.outcomes.pop(0) == step.outcomes.pop(1) == (["0", "1"], None)


@pytest.mark.parametrize(
    ("changes", "kind", "why"),
    [
        ({"group_size": 3}, errors.InternalError, "group size 3, but others of the group have 2"),
        ({"kind": "Gather"}, errors.InternalError, "does not match"),
        ({"agreed": {"shape": [2]}}, errors.InvalidArgumentError, r"shape \[2\], but .* \[1\]"),
        ({"group_size": 0}, errors.InvalidArgumentError, "must be positive"),
    ],
)
def test_a_member_that_does_not_fit_fails_all(
    changes: dict[str, Any], kind: type[errors.OpError], why: str
) -> None:
    step = Step()
    step.join(0)
    step.join(1, **changes)
    own, other = step.outcomes[1][1], step.outcomes[0][1]
    assert type(own) is type(other) is kind
    assert own is not other
    with pytest.raises(kind, match=why):
        raise own
    where = f"group 7, instance 9, on {TASK}/device:CPU:0 (node node0) is aborted by: "
    assert where + own.message in other.message


def test_the_same_device_cannot_wait_twice() -> None:
    step = Step()
    step.join(0)
    step.join(1, on=0, node="other")
    assert "node node0 of the same device" in step.outcomes[1][1].message
    assert "is aborted by" in step.outcomes[0][1].message


def test_a_full_group_takes_no_other_device() -> None:
    step = Step()
    step.join(0)
    step.join(1)
    step.join(2, instance_key=10)
    assert "the group of 2 is full" in step.outcomes[2][1].message


def test_cancellation_fails_present_and_late_members() -> None:
    step = Step()
    step.join(0)
    step.cancellation.start_cancel(errors.AbortedError("a neighbour has failed"))
    step.join(1)
    for device in (0, 1):
        result, error = step.outcomes[device]
        assert result is None
        assert isinstance(error, errors.CancelledError)
        assert error.is_derived
        assert "a neighbour has failed" in error.message


def test_timeout_fails_present_and_late_members() -> None:
    step = Step()
    step.join(0, timeout=0.01)
    assert step.has_outcome.acquire(timeout=30)
    step.join(1)
    for device in (0, 1):
        error = step.outcomes[device][1]
        assert isinstance(error, errors.DeadlineExceededError)
        assert "not all 2 members arrived within 0.01 seconds" in error.message


def test_a_timeout_ends_with_the_collective() -> None:
    step = Step()
    before = set(threading.enumerate())
    step.join(0, timeout=1000)
    step.join(1, timeout=1000)
    assert step.outcomes[0] == (["0", "1"], None)
    new = set(threading.enumerate()) - before
    assert all(timer.finished.is_set() for timer in new if isinstance(timer, threading.Timer))


def test_incompatible_members_fail_the_group() -> None:
    def refuse(_: Sequence[CollectiveRequest]) -> list[Any]:
        raise ZeroDivisionError("nothing there")

    step = Step()
    step.join(0, combine=refuse)
    step.join(1, combine=refuse)
    for device in (0, 1):
        assert isinstance(step.outcomes[device][1], errors.InternalError)
        assert "ZeroDivisionError: nothing there" in step.outcomes[device][1].message


def test_collective_group_larger_than_the_step_is_refused() -> None:
    step = Step(num_devices=1)
    step.join(0)
    assert isinstance(step.outcomes[0][1], errors.UnimplementedError)
    assert "Members in several sessions need a cluster" in step.outcomes[0][1].message
