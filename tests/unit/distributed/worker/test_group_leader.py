"""The leader of groups of collectives: groups, instances, lost and restarted members."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.distributed.worker.conftest import Outcome, cpu, task

from graphmill import errors, proto
from graphmill.distributed.worker import group_leader
from graphmill.distributed.worker.group_leader import EXCHANGE_PROTOCOL, GroupLeader
from graphmill.distributed.worker.peers import Peer, Peers

if TYPE_CHECKING:
    from collections.abc import Callable


class Neighbour(Peer):
    """A task that answers with devices, or an error."""

    def __init__(self, found: dict[str, int] | errors.OpError) -> None:
        self.found = found

    def recv_tensor(self, step_id: int, key: str, done: Any) -> Callable[[], None]:
        raise NotImplementedError

    def get_status(self, done: Any) -> Callable[[], None]:
        if isinstance(self.found, errors.OpError):
            done(None, self.found)
        else:
            devices = [
                proto.DeviceAttributes(name=name, incarnation=incarnation)
                for name, incarnation in self.found.items()
            ]
            done(proto.GetStatusResponse(device_attributes=devices), None)
        return lambda: None


class Neighbours(Peers):
    def __init__(self) -> None:
        self.by_task: dict[str, Neighbour] = {}

    def get(self, task: str) -> Peer:
        return self.by_task[task]


class Led:
    """A leader on task 0, and its members on the first devices of tasks."""

    def __init__(self) -> None:
        self.peers = Neighbours()
        self.leader = GroupLeader(task(0), self.peers)

    def ask(self, number: int, size: int = 2, incarnation: int = 1, **changes: Any) -> Any:
        """Ask for the members of group 7; return the outcome and the function that withdraws."""
        request = proto.CompleteGroupRequest(
            group_key=7,
            group_size=size,
            device_attributes=proto.DeviceAttributes(name=cpu(number), incarnation=incarnation),
            exchange_protocol=EXCHANGE_PROTOCOL,
        )
        request.MergeFrom(proto.CompleteGroupRequest(**changes))
        outcome = Outcome()
        return outcome, self.leader.complete_group(request, outcome)

    def join(self, number: int, incarnation: int = 1, **changes: Any) -> Any:
        """Join a collective of group 7; return the outcome and the function that withdraws."""
        fields = {"group_size": 2, "instance_key": 3, "instance": "[3]"} | changes
        request = proto.CompleteInstanceRequest(
            group_key=7, device=cpu(number), incarnation=incarnation, **fields
        )
        outcome = Outcome()
        return outcome, self.leader.complete_instance(request, outcome)


@pytest.fixture
def led() -> Any:
    found = Led()
    yield found
    found.leader.close()


@pytest.fixture
def whole(led: Led) -> Led:
    """A leader whose group has members on tasks 1 and 2."""
    outcomes = [led.ask(number)[0] for number in (2, 1)]
    for outcome in outcomes:
        names = [one.name for one in outcome.get().device_attributes]
        assert names == [cpu(1), cpu(2)]
    return led


def test_members_meet_under_a_new_number_each_time(whole: Led) -> None:
    numbers = []
    for _ in range(2):
        first, _ = whole.join(1)
        assert not first.is_there
        second, _ = whole.join(2)
        assert first.get().exchange_id == second.get().exchange_id
        numbers.append(first.get().exchange_id)
    assert numbers[0] != numbers[1]


def test_collectives_with_other_names_do_not_meet(whole: Led) -> None:
    first, _ = whole.join(1)
    second, _ = whole.join(2, instance="[4]")
    assert not first.is_there
    assert not second.is_there


def test_a_repeated_request_is_answered_immediately(whole: Led) -> None:
    assert whole.ask(1)[0].get().group_size == 2


def test_a_member_that_leaves_before_the_others_join_is_removed(led: Led) -> None:
    first, withdraw = led.ask(1)
    withdraw()
    second, _ = led.ask(2)
    assert not second.is_there
    assert not first.is_there
    third, _ = led.ask(3)
    assert [one.name for one in third.get().device_attributes] == [cpu(2), cpu(3)]


def test_a_member_that_left_may_join_again(whole: Led) -> None:
    joined, withdraw = whole.join(1)
    withdraw()
    assert not joined.is_there  # its own call has been cancelled
    other, _ = whole.join(2)
    assert not other.is_there
    again, _ = whole.join(1)
    assert other.get().exchange_id == again.get().exchange_id


def test_those_that_wait_fail_with_a_member_that_leaves() -> None:
    led = Led()
    for number in (1, 2, 3):
        led.ask(number, size=3)
    outcomes = [led.join(number, group_size=3) for number in (1, 2)]
    outcomes[0][1]()
    with pytest.raises(errors.AbortedError, match=r"member on .*task:1.* has left"):
        outcomes[1][0].get()
    led.leader.close()


def test_sizes_must_agree(led: Led) -> None:
    outcomes = [led.ask(1, size=2)[0], led.ask(2, size=3)[0]]
    for outcome in outcomes:
        with pytest.raises(errors.InternalError, match="same size"):
            outcome.get()


def test_a_full_group_takes_no_other_device(whole: Led) -> None:
    with pytest.raises(errors.InternalError, match=r"full: its devices are .*task:1.*task:2"):
        whole.ask(3)[0].get()
    assert whole.ask(1)[0].get().group_size == 2


def test_another_program_may_use_the_key_with_another_size(whole: Led) -> None:
    outcomes = [whole.ask(number, size=3)[0] for number in (1, 2, 3)]
    assert {outcome.get().group_size for outcome in outcomes} == {3}


@pytest.mark.parametrize(
    ("changes", "kind", "message"),
    [
        ({"size": 0}, errors.InvalidArgumentError, "must be positive, got 0"),
        ({"exchange_protocol": 9}, errors.UnimplementedError, "TensorFlow's tasks"),
    ],
)
def test_wrong_requests_are_refused(led: Led, changes: Any, kind: Any, message: str) -> None:
    with pytest.raises(kind, match=message):
        led.ask(1, **changes)[0].get()


def test_a_restarted_member_forms_the_group_again(whole: Led) -> None:
    waiting, _ = whole.join(2)
    restarted, _ = whole.ask(1, incarnation=5)
    with pytest.raises(errors.AbortedError, match="formed again"):
        waiting.get()
    with pytest.raises(errors.AbortedError, match="Run the step again"):
        whole.join(2)[0].get()
    assert whole.ask(2)[0].get().device_attributes[0].incarnation == 5
    assert restarted.get().device_attributes[0].incarnation == 5
    with pytest.raises(errors.AbortedError, match="was restarted"):
        whole.join(1)[0].get()


def test_a_second_node_of_the_same_device_is_refused(whole: Led) -> None:
    whole.join(1)
    with pytest.raises(errors.InternalError, match="different instance keys"):
        whole.join(1)[0].get()


def test_an_unknown_group_is_aborted(led: Led) -> None:
    with pytest.raises(errors.AbortedError, match="does not know the group"):
        led.join(1)[0].get()


def test_a_step_that_failed_fails_what_waits_for_it(whole: Led) -> None:
    waiting, _ = whole.join(2)
    stale = whole.join(1, incarnation=4, error_code=3, error_message="of another life")[0]
    stale.get()
    assert not waiting.is_there
    own = whole.join(2, error_code=3, error_message="of one that has joined")[0]
    own.get()
    assert not waiting.is_there
    whole.join(1, error_code=3, error_message="no number")[0].get()
    with pytest.raises(errors.InvalidArgumentError, match=r"task:1.* failed: no number") as caught:
        waiting.get()
    assert caught.value.is_derived


@pytest.mark.parametrize(
    ("found", "kind", "message"),
    [
        (errors.UnavailableError("no answer"), errors.UnavailableError, "no answer"),
        ({cpu(1): 8}, errors.AbortedError, "was restarted"),
    ],
)
def test_a_lost_member_fails_those_that_wait(
    whole: Led, monkeypatch: pytest.MonkeyPatch, found: Any, kind: Any, message: str
) -> None:
    monkeypatch.setattr(group_leader, "CHECK_SECONDS", 0.01)
    whole.peers.by_task[task(1)] = Neighbour(found)
    waiting, _ = whole.join(2)
    with pytest.raises(kind, match=rf"group 7 waits for its member on .*task:1.*{message}"):
        waiting.get()
    with pytest.raises(errors.AbortedError, match="Run the step again"):
        whole.join(2)[0].get()


def test_a_member_that_lives_is_waited_for(whole: Led, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Outcome()

    class Living(Neighbour):
        def get_status(self, done: Any) -> Callable[[], None]:
            withdraw = super().get_status(done)
            if not asked.is_there:
                asked(True, None)
            return withdraw

    monkeypatch.setattr(group_leader, "CHECK_SECONDS", 0.01)
    whole.peers.by_task[task(1)] = Living({cpu(1): 1})
    waiting, _ = whole.join(2)
    assert asked.get()
    assert not waiting.is_there
    whole.join(1)
    waiting.get()


def test_the_number_of_groups_is_bounded(led: Led, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_leader, "MAX_GROUPS", 3)
    for key in range(10, 20):
        for number in (1, 2):
            led.ask(number, group_key=key)
    assert list(led.leader._groups) == [17, 18, 19]


def test_those_that_wait_fail_when_the_leader_stops(whole: Led) -> None:
    outcomes = [whole.join(1)[0], whole.ask(1, group_key=9)[0]]
    whole.leader.close()
    for outcome in outcomes:
        with pytest.raises(errors.CancelledError, match="is stopped"):
            outcome.get()
