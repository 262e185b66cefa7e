"""The rendezvous: keys, pairs in either order, deadness, errors (clause R1)."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphmill import errors
from graphmill.runtime.devices.device import Device, DeviceAttributes
from graphmill.runtime.rendezvous import (
    HOST,
    IntraProcessRendezvous,
    RendezvousKey,
    TransferArgs,
    derived,
)
from graphmill.runtime.steps.cancellation import CancellationManager

A = "/job:localhost/replica:0/task:0/device:CPU:0"
B = "/job:localhost/replica:0/task:0/device:CPU:1"
KEY = str(RendezvousKey(A, 1, B, "edge_1_x"))


class Boxed:
    """A value in the memory of a device."""

    def __init__(self, owner: str, value: Any) -> None:
        self.owner = owner
        self.value = value


class BoxDevice(Device):
    """A device whose values are boxes that only it can open."""

    def namespace(self, backend: str) -> Any:
        return np

    def to_device(self, value: Any) -> Boxed:
        assert not isinstance(value, Boxed)
        return Boxed(self.name, value)

    def to_host(self, value: Any) -> Any:
        assert value.owner == self.name
        return value.value


class Receiver:
    """Records the calls of `done`."""

    def __init__(self) -> None:
        self.outcomes: list[tuple[Any, bool, Any]] = []

    def __call__(self, value: Any, is_dead: bool, error: Any) -> None:
        self.outcomes.append((value, is_dead, error))

    @property
    def error(self) -> Any:
        ((_, _, error),) = self.outcomes
        return error


def box(name: str) -> BoxDevice:
    return BoxDevice(DeviceAttributes(name, "BOX"))


def test_a_key_is_spelled_as_in_tensorflow_r1() -> None:
    key = RendezvousKey(A, 0x1F, B, "edge_7_w", "while:3")
    assert str(key) == f"{A};000000000000001f;{B};edge_7_w;while:3"


@given(
    st.integers(0, 2**64 - 1),
    st.text(st.characters(exclude_characters=";"), min_size=1),
    st.text(),
)
def test_keys_are_read_as_they_are_written_r1(incarnation: int, edge: str, frame: str) -> None:
    key = RendezvousKey(A, incarnation, B, edge, frame)
    assert RendezvousKey.parse(str(key)) == key


@pytest.mark.parametrize(
    "text",
    ["", "a;b", f"{A};0;{B};;0:0", f"{A};x;{B};e;0:0", f"/cpu:0;1;{B};e;0:0", f"{A};1;{B};e"],
)
def test_a_bad_key_is_refused_r1(text: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="Invalid rendezvous key"):
        RendezvousKey.parse(text)


def test_send_before_receive_r1() -> None:
    rendezvous, receiver = IntraProcessRendezvous(), Receiver()
    rendezvous.send(KEY, HOST, 5)
    rendezvous.recv_async(KEY, HOST, receiver)
    assert receiver.outcomes == [(5, False, None)]
    assert rendezvous.num_entries == 0


def test_receive_before_send_r1() -> None:
    rendezvous, receiver = IntraProcessRendezvous(), Receiver()
    rendezvous.recv_async(KEY, HOST, receiver)
    assert receiver.outcomes == []
    rendezvous.send(KEY, HOST, 5)
    assert receiver.outcomes == [(5, False, None)]
    assert rendezvous.num_entries == 0


def test_deadness_crosses_r1() -> None:
    rendezvous, receiver = IntraProcessRendezvous(), Receiver()
    rendezvous.send(KEY, TransferArgs(box(A), on_host=False), None, is_dead=True)
    rendezvous.recv_async(KEY, TransferArgs(box(B), on_host=False), receiver)
    assert receiver.outcomes == [(None, True, None)]


def test_second_send_is_refused_r1() -> None:
    rendezvous, receiver = IntraProcessRendezvous(), Receiver()
    rendezvous.send(KEY, HOST, 1)
    with pytest.raises(errors.AbortedError, match="Duplicated send"):
        rendezvous.send(KEY, HOST, 2)
    rendezvous.recv_async(KEY, HOST, receiver)
    assert receiver.outcomes[0][0] == 1


def test_second_receive_is_refused_and_the_first_continues_r1() -> None:
    rendezvous, first, second = IntraProcessRendezvous(), Receiver(), Receiver()
    rendezvous.recv_async(KEY, HOST, first)
    rendezvous.recv_async(KEY, HOST, second)
    assert isinstance(second.error, errors.AbortedError)
    rendezvous.send(KEY, HOST, 1)
    assert first.outcomes == [(1, False, None)]


def test_abort_wakes_all_that_wait_with_derived_errors_r1() -> None:
    rendezvous = IntraProcessRendezvous()
    receivers = [Receiver() for _ in range(3)]
    for number, receiver in enumerate(receivers):
        rendezvous.recv_async(f"{KEY}{number}", HOST, receiver)
    cause = errors.DataLossError("the disk is gone", node="n")
    rendezvous.start_abort(cause)
    rendezvous.start_abort(errors.InternalError("a later one does not count"))
    for receiver in receivers:
        assert type(receiver.error) is errors.DataLossError
        assert receiver.error.is_derived
        assert receiver.error.node is None
    assert not cause.is_derived


def test_after_abort_nothing_can_be_sent_or_received_r1() -> None:
    rendezvous, receiver = IntraProcessRendezvous(), Receiver()
    rendezvous.send(KEY, HOST, 1)
    rendezvous.start_abort(errors.AbortedError("stop"))
    with pytest.raises(errors.AbortedError, match="stop"):
        rendezvous.send("k", HOST, 1)
    rendezvous.recv_async(KEY, HOST, receiver)
    assert receiver.error.is_derived
    assert rendezvous.num_entries == 0


def test_cancellation_ends_a_wait_r1_e13() -> None:
    rendezvous, receiver, manager = IntraProcessRendezvous(), Receiver(), CancellationManager()
    rendezvous.recv_async(KEY, TransferArgs(cancellation=manager), receiver)
    manager.start_cancel()
    assert isinstance(receiver.error, errors.CancelledError)
    assert rendezvous.num_entries == 0
    rendezvous.send(KEY, HOST, 1)  # its receiver is gone; the value waits for another one
    assert len(receiver.outcomes) == 1


def test_wait_after_cancellation_ends_immediately_r1_e13() -> None:
    rendezvous, receiver, manager = IntraProcessRendezvous(), Receiver(), CancellationManager()
    manager.start_cancel()
    rendezvous.recv_async(KEY, TransferArgs(cancellation=manager), receiver)
    assert isinstance(receiver.error, errors.CancelledError)


def test_a_wait_that_is_over_leaves_no_callback_r1_e13() -> None:
    rendezvous, manager = IntraProcessRendezvous(), CancellationManager()
    for key, end in [("a", lambda: rendezvous.send("a", HOST, 1)), ("b", None)]:
        rendezvous.recv_async(key, TransferArgs(cancellation=manager), Receiver())
        if end is not None:
            end()
    rendezvous.start_abort(errors.AbortedError("stop"))
    assert not manager._callbacks


@pytest.mark.parametrize("sent_on_host", [False, True])
@pytest.mark.parametrize("wanted_on_host", [False, True])
def test_values_are_copied_to_where_they_are_wanted_r1(
    sent_on_host: bool, wanted_on_host: bool
) -> None:
    source, target = box(A), box(B)
    rendezvous, receiver = IntraProcessRendezvous(), Receiver()
    value = 3 if sent_on_host else source.to_device(3)
    rendezvous.send(KEY, TransferArgs(source, sent_on_host), value)
    rendezvous.recv_async(KEY, TransferArgs(target, wanted_on_host), receiver)
    ((received, _, error),) = receiver.outcomes
    assert error is None
    assert (received if wanted_on_host else target.to_host(received)) == 3


def test_same_memory_transfer_does_not_copy_r1() -> None:
    device = box(A)
    rendezvous, receiver = IntraProcessRendezvous(), Receiver()
    value = device.to_device(3)
    rendezvous.send(KEY, TransferArgs(device, on_host=False), value)
    rendezvous.recv_async(KEY, TransferArgs(device, on_host=False), receiver)
    assert receiver.outcomes[0][0] is value


def test_failed_copy_is_reported_to_the_receiver_r1() -> None:
    rendezvous, receiver = IntraProcessRendezvous(), Receiver()
    rendezvous.recv_async(KEY, HOST, receiver)
    rendezvous.send(KEY, TransferArgs(box(A), on_host=False), Boxed(B, 1))  # it is not A's
    assert isinstance(receiver.error, AssertionError)


def test_callbacks_may_use_the_rendezvous_r1() -> None:
    rendezvous, last = IntraProcessRendezvous(), Receiver()

    def forward(value: Any, is_dead: bool, error: Any) -> None:
        rendezvous.send("next", HOST, value + 1)

    rendezvous.recv_async("next", HOST, last)
    rendezvous.recv_async(KEY, HOST, forward)
    rendezvous.send(KEY, HOST, 1)
    assert last.outcomes == [(2, False, None)]


def test_a_thread_may_wait_r1() -> None:
    rendezvous = IntraProcessRendezvous()
    thread = threading.Thread(target=rendezvous.send, args=(KEY, HOST, 7))
    thread.start()
    assert rendezvous.recv(KEY, HOST, timeout=10) == (7, False)
    thread.join()
    with pytest.raises(errors.DeadlineExceededError, match="nothing was sent"):
        rendezvous.recv("other", HOST, timeout=0)


def test_concurrent_sends_lose_and_duplicate_nothing_r1() -> None:
    rendezvous, receivers = IntraProcessRendezvous(), [Receiver() for _ in range(400)]

    def send(part: int) -> None:
        for number in range(part, 400, 4):
            rendezvous.send(str(number), HOST, number)

    def receive(part: int) -> None:
        manager = CancellationManager()
        for number in range(part, 400, 4):
            args = TransferArgs(cancellation=manager)
            rendezvous.recv_async(str(number), args, receivers[number])

    threads = [threading.Thread(target=f, args=(i,)) for i in range(4) for f in (send, receive)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [r.outcomes for r in receivers] == [[(n, False, None)] for n in range(400)]


def test_a_derived_error_keeps_class_message_and_cause_e8() -> None:
    cause = errors.OutOfRangeError("end", node="n", op_type="Dequeue")
    made = derived(cause)
    assert (type(made), made.message, made.is_derived) == (errors.OutOfRangeError, "end", True)
    assert made.__cause__ is cause
