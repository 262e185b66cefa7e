"""Collectives with members in other sessions: exchanged tensors, and the time they are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.unit.distributed.worker.conftest import Cluster, Outcome, WorkerPeer, cpu, task

from graphmill import errors, proto
from graphmill.distributed.worker import group_collectives
from graphmill.distributed.worker.group_collectives import GroupCollectives, StepGroups
from graphmill.distributed.worker.group_leader import GroupLeader
from graphmill.distributed.worker.peers import NoPeers
from graphmill.runtime.collectives import CollectiveRequest
from graphmill.runtime.steps.cancellation import CancellationManager

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


def total(requests: Sequence[CollectiveRequest]) -> list[Any]:
    return [sum(request.value for request in requests)] * len(requests)


def request(number: int, value: float = 1, **changes: Any) -> CollectiveRequest:
    fields: dict[str, Any] = {
        "kind": "Reduce",
        "group_key": 7,
        "group_size": 2,
        "instance_key": 3,
        "iteration": "0",
        "device": cpu(number),
        "node": f"node{number}",
        "value": np.float32([value]),
        "agreed": {"shape": [1]},
        "combine": total,
    }
    return CollectiveRequest(**(fields | changes))


class LeaderPeer(WorkerPeer):
    """A worker of this process that leads."""

    def complete_group(self, request: Any, done: Any) -> Callable[[], None]:
        return self.worker.group_leader.complete_group(request, done)

    def complete_instance(self, request: Any, done: Any) -> Callable[[], None]:
        return self.worker.group_leader.complete_instance(request, done)


class Joined(Cluster):
    """Two workers, and the collectives of each."""

    def __init__(self) -> None:
        super().__init__(2)
        self.groups = [
            GroupCollectives(worker.group_leader, task(0), worker.devices, worker.rendezvous)
            for worker in self.workers
        ]
        self.cancellation = [CancellationManager(), CancellationManager()]

    def get(self, task_name: str) -> Any:
        return LeaderPeer(super().get(task_name).worker)

    def join(self, number: int, value: float = 1, **changes: Any) -> Outcome:
        outcome = Outcome()
        made = request(number, value, **changes)
        self.groups[number].execute_async(made, self, self.cancellation[number], outcome)
        return outcome


@pytest.fixture
def joined() -> Iterator[Joined]:
    cluster = Joined()
    yield cluster
    for worker in cluster.workers:
        worker.close()


def test_members_get_the_result_each_time(joined: Joined) -> None:
    for value in (1, 2, 3):
        outcomes = [joined.join(number, value) for number in (1, 0)]
        assert [outcome.get().tolist() for outcome in outcomes] == [[2 * value]] * 2


def test_only_the_last_exchange_of_a_collective_is_kept(joined: Joined) -> None:
    for _ in range(5):
        for outcome in [joined.join(number) for number in (0, 1)]:
            outcome.get()
    assert [len(worker.rendezvous) for worker in joined.workers] == [1, 1]


def test_finished_exchanges_are_dropped_after_a_while(
    joined: Joined, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_collectives, "KEPT_SECONDS", 0.0)
    for key in range(5):
        for outcome in [joined.join(number, instance_key=key) for number in (0, 1)]:
            outcome.get()
    assert all(len(worker.rendezvous) <= 1 for worker in joined.workers)


def test_a_cancelled_member_fails_the_one_that_waits(joined: Joined) -> None:
    for outcome in [joined.join(number) for number in (0, 1)]:
        outcome.get()
    outcomes = [joined.join(0, instance_key=4), joined.join(1, instance_key=5)]
    joined.cancellation[1].start_cancel(errors.AbortedError("enough"))
    with pytest.raises(errors.CancelledError, match="step was cancelled: enough"):
        outcomes[1].get()
    assert not outcomes[0].is_there  # it waits in another collective
    joined.cancellation[0].start_cancel()
    with pytest.raises(errors.CancelledError):
        outcomes[0].get()


def test_nobody_joins_after_the_step_was_cancelled(joined: Joined) -> None:
    joined.cancellation[0].start_cancel(errors.AbortedError("enough"))
    with pytest.raises(errors.CancelledError, match="enough"):
        joined.join(0).get()


def test_a_device_joins_one_collective_of_an_instance_at_a_time(joined: Joined) -> None:
    outcomes = [joined.join(0, 1), joined.join(0, 2)]
    others = [joined.join(1, 10), joined.join(1, 20)]
    assert [outcome.get().tolist() for outcome in outcomes] == [[11], [22]]
    assert [outcome.get().tolist() for outcome in others] == [[11], [22]]


def test_an_error_reaches_members_that_fetch_later(joined: Joined) -> None:
    outcomes = [joined.join(n, agreed={"shape": [n]}) for n in (0, 1)]
    for outcome in outcomes:
        with pytest.raises(errors.InvalidArgumentError, match="must agree"):
            outcome.get()


def test_a_leader_of_tensorflow_is_refused(joined: Joined, monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(self: GroupLeader, request: Any, done: Any) -> Callable[[], None]:
        del self, request
        done(proto.CompleteGroupResponse(communicator_key=b"\0" * 128), None)
        return lambda: None

    monkeypatch.setattr(GroupLeader, "complete_group", answer)
    with pytest.raises(errors.UnimplementedError, match="does not run this version of graphmill"):
        joined.join(1).get()


def test_a_leader_outside_of_the_cluster_is_named(joined: Joined) -> None:
    outcome = Outcome()
    joined.groups[1].execute_async(request(1), NoPeers(), joined.cancellation[1], outcome)
    with pytest.raises(errors.UnavailableError, match=r"no task /job:worker/replica:0/task:0"):
        outcome.get()


def test_a_failed_step_fails_the_member_that_waits_for_it(joined: Joined) -> None:
    keys: set[int] = set()
    step = StepGroups(joined.groups[0], joined, keys)
    own = Outcome()
    step.execute_async(request(0), joined.cancellation[0], own)
    joined.join(1).get()
    own.get()
    assert keys == {7}
    waiting = joined.join(1)
    StepGroups(joined.groups[0], joined, keys).step_failed(errors.OutOfRangeError("no more"))
    with pytest.raises(errors.OutOfRangeError, match=r"task:0.* failed: no more"):
        waiting.get()
