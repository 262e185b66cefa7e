"""The rendezvous of a worker (W4): local and remote receives, incarnations, ended steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from graphmill import errors
from graphmill.distributed.worker import rendezvous_mgr
from graphmill.distributed.worker.peers import NoPeers, Peer, Peers
from graphmill.distributed.worker.rendezvous_mgr import RendezvousMgr
from graphmill.runtime.devices.device import Device, DeviceAttributes
from graphmill.runtime.rendezvous import HOST, RendezvousKey, TransferArgs
from graphmill.runtime.steps.cancellation import CancellationManager

if TYPE_CHECKING:
    from collections.abc import Callable

ME = "/job:worker/replica:0/task:1"
OTHER = "/job:worker/replica:0/task:0"
DEVICE = f"{ME}/device:CPU:0"
INCARNATION = 0xFEDC_BA98_7654_3210


class PlainDevice(Device):
    is_host_memory = True

    def namespace(self, backend: str) -> Any:
        return np

    def to_device(self, value: Any) -> Any:
        return ("on the device", value)

    def to_host(self, value: Any) -> Any:
        return value[1]


class Outcomes(list[Any]):
    def __call__(self, value: Any, is_dead: bool, error: Any) -> None:
        self.append((value, is_dead, error))


class FakePeer(Peer, Peers):
    """A peer whose answers the test triggers."""

    def __init__(self) -> None:
        self.asked: dict[str, Any] = {}
        self.withdrawn: list[str] = []

    def get(self, task: str) -> Peer:
        assert task == OTHER
        return self

    def recv_tensor(self, step_id: int, key: str, done: Any) -> Callable[[], None]:
        assert step_id == 7
        self.asked[key] = done
        return lambda: self.withdrawn.append(key)


@pytest.fixture
def device() -> Device:
    return PlainDevice(DeviceAttributes(DEVICE, "CPU", incarnation=INCARNATION))


@pytest.fixture
def manager(device: Device) -> RendezvousMgr:
    return RendezvousMgr([device])


def key_to(edge: str, target: str = f"{OTHER}/device:CPU:0", incarnation: int = INCARNATION) -> str:
    return str(RendezvousKey(DEVICE, incarnation, target, edge))


def key_from(edge: str) -> str:
    return str(RendezvousKey(f"{OTHER}/device:CPU:0", 5, DEVICE, edge))


def test_receive_may_precede_its_step(manager: RendezvousMgr) -> None:
    got = Outcomes()
    manager.recv_local_async(7, key_to("e"), got)
    assert not got
    step = manager.find(7)
    step.initialize(7, {DEVICE}, NoPeers())
    step.send(key_to("e"), HOST, np.float32(3))
    assert got == [(3, False, None)]


def test_dead_tensor_is_sent_as_dead(manager: RendezvousMgr) -> None:
    got = Outcomes()
    manager.find(7).send(key_to("e"), HOST, None, True)
    manager.recv_local_async(7, key_to("e"), got)
    assert got == [(None, True, None)]


def test_device_tensor_is_sent_from_host_memory(manager: RendezvousMgr, device: Device) -> None:
    got = Outcomes()
    manager.find(7).send(key_to("e"), TransferArgs(device, False), ("on the device", 4))
    manager.recv_local_async(7, key_to("e"), got)
    assert got == [(4, False, None)]


def test_keys_of_an_earlier_life_are_aborted(manager: RendezvousMgr) -> None:
    with pytest.raises(errors.AbortedError, match="expects a different device incarnation: 1 vs"):
        manager.recv_local_async(7, key_to("e", incarnation=1), Outcomes())
    assert len(manager) == 0


@pytest.mark.parametrize("key", ["", "a;b", key_from("e"), key_to("e").replace(";", ",")])
def test_keys_of_other_senders_and_garbage_are_refused(manager: RendezvousMgr, key: str) -> None:
    with pytest.raises(errors.InvalidArgumentError):
        manager.recv_local_async(7, key, Outcomes())
    assert len(manager) == 0


def test_cleanup_aborts_pending_and_later_receives(manager: RendezvousMgr) -> None:
    got = Outcomes()
    manager.recv_local_async(7, key_to("e"), got)
    manager.cleanup(7)
    ((_, _, error),) = got
    assert isinstance(error, errors.AbortedError)
    assert error.is_derived
    for call in (manager.find, lambda step: manager.recv_local_async(step, key_to("e"), got)):
        with pytest.raises(errors.AbortedError, match="step 7 has ended"):
            call(7)
    assert len(manager) == 0


def test_repeatable_step_numbers_may_begin_again(manager: RendezvousMgr) -> None:
    manager.cleanup(7)
    manager.allow_repeat(7)
    first = manager.find(7)
    manager.cleanup(7)
    assert not manager.has_ended(7)
    assert manager.find(7) is not first
    manager.cleanup(7)
    with pytest.raises(errors.AbortedError, match="step 7 has ended"):
        manager.find(7)  # only steps that were allowed to are forgotten


def test_ended_steps_are_remembered_within_bounds(
    manager: RendezvousMgr, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rendezvous_mgr, "MAX_ENDED", 3)
    for step in range(5):
        manager.cleanup(step)
    manager.find(1)
    with pytest.raises(errors.AbortedError):
        manager.find(2)


def test_cancelled_receive_of_unstarted_step_is_freed(
    manager: RendezvousMgr,
) -> None:
    got, cancellation = Outcomes(), CancellationManager()
    manager.recv_local_async(7, key_to("e"), got, cancellation)
    assert len(manager) == 1
    cancellation.start_cancel()
    ((_, _, error),) = got
    assert isinstance(error, errors.CancelledError)
    assert len(manager) == 0


def test_receives_from_another_task_are_all_in_flight_at_once(
    manager: RendezvousMgr, device: Device
) -> None:
    peer, step = FakePeer(), manager.find(7)
    step.initialize(7, {DEVICE}, peer)
    on_host, on_device = Outcomes(), Outcomes()
    step.recv_async(key_from("a"), TransferArgs(device, True), on_host)
    step.recv_async(key_from("b"), TransferArgs(device, False), on_device)
    assert list(peer.asked) == [key_from("a"), key_from("b")]
    assert step.awaited_keys() is None
    peer.asked[key_from("b")](2, False, None)
    peer.asked[key_from("a")](None, True, None)
    assert on_device == [(("on the device", 2), False, None)]
    assert on_host == [(None, True, None)]
    assert step.awaited_keys() == []


def test_client_receives_are_awaited_locally(manager: RendezvousMgr) -> None:
    step, got = manager.find(7), Outcomes()
    step.initialize(7, {DEVICE}, NoPeers())
    client = f"{OTHER}/device:CPU:0"
    key = str(RendezvousKey(client, 5, client, "x:0"))
    step.recv_async(key, HOST, got)
    step.send(key, HOST, 8)
    assert got == [(8, False, None)]


def test_an_abort_ends_receives_from_silent_tasks(manager: RendezvousMgr) -> None:
    peer, step, got = FakePeer(), manager.find(7), Outcomes()
    step.initialize(7, {DEVICE}, peer)
    step.recv_async(key_from("a"), HOST, got)
    step.start_abort(errors.UnavailableError("gone"))
    ((_, _, error),) = got
    assert isinstance(error, errors.UnavailableError)
    assert error.is_derived
    assert peer.withdrawn == [key_from("a")]
    peer.asked[key_from("a")](1, False, None)  # too late
    step.recv_async(key_from("b"), HOST, got)
    assert [outcome[2].code for outcome in got] == [errors.UNAVAILABLE] * 2
    assert list(peer.asked) == [key_from("a")]


@pytest.mark.parametrize("before", [True, False])
def test_a_cancelled_receive_is_withdrawn_at_the_other_task(
    manager: RendezvousMgr, before: bool
) -> None:
    peer, step, got = FakePeer(), manager.find(7), Outcomes()
    step.initialize(7, {DEVICE}, peer)
    cancellation = CancellationManager()
    if before:
        cancellation.start_cancel()
    step.recv_async(key_from("a"), TransferArgs(None, True, cancellation), got)
    cancellation.start_cancel()
    ((_, _, error),) = got
    assert isinstance(error, errors.CancelledError)
    assert peer.withdrawn == ([] if before else [key_from("a")])
    assert step.is_empty


def test_unknown_task_is_unavailable(manager: RendezvousMgr) -> None:
    step, got = manager.find(7), Outcomes()
    step.initialize(7, {DEVICE}, NoPeers())
    step.recv_async(key_from("a"), HOST, got)
    assert got[0][2].code == errors.UNAVAILABLE
    assert step.is_empty


def test_remote_waits_are_not_a_deadlock(manager: RendezvousMgr) -> None:
    peer = FakePeer()
    step = manager.find(7)
    step.initialize(7, {DEVICE}, peer)
    manager.recv_local_async(7, key_to("e"), Outcomes())
    awaited: list[Any] = []
    # The node hears of a pull that has come only after it is not a call any more.
    step.recv_async(key_from("f"), HOST, lambda *outcome: awaited.append(step.awaited_keys()))
    assert step.awaited_keys() is None
    peer.asked[key_from("f")](1, False, None)
    assert awaited == [[]]
    local = str(RendezvousKey(DEVICE, INCARNATION, DEVICE, "g"))
    step.recv_async(local, HOST, Outcomes())
    assert step.awaited_keys() == [local]
