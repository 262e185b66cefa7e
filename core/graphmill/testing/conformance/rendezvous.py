"""`RendezvousTests`: the contract of rendezvous (clause R1)."""

from __future__ import annotations

import random
import threading
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pytest

from graphmill import errors
from graphmill.plugin.host import default_host
from graphmill.runtime.rendezvous import HOST, RendezvousKey, TransferArgs
from graphmill.runtime.steps.cancellation import CancellationManager
from graphmill.testing import timeouts
from graphmill.testing.conformance.clauses import clauses
from graphmill.testing.timeouts import within

if TYPE_CHECKING:
    from graphmill.runtime.rendezvous import Rendezvous

_A = "/job:localhost/replica:0/task:0/device:CPU:0"
_B = "/job:localhost/replica:0/task:0/device:CPU:1"


class RendezvousTests:
    """Test the rendezvous of a `transport`, or of the fixture `rendezvous`, against its contract.

        class TestMine(RendezvousTests):
            transport = "mine"

    For a rendezvous between processes, override `receiver` with the other end.

    Attributes:
        transport: its registered name; by default that of `--graphmill-transport`.
    """

    graphmill_suite: ClassVar[str] = "RendezvousTests"
    transport: ClassVar[str] = ""

    @pytest.fixture
    def rendezvous(self, request: pytest.FixtureRequest) -> Rendezvous:
        """Return a new rendezvous: the end that sends."""
        name = self.transport or str(request.config.getoption("--graphmill-transport"))
        if not name:
            pytest.skip("no transport is named: set `transport`, or pass --graphmill-transport")
        return default_host().transports.get(name).new_rendezvous(1)

    @pytest.fixture
    def receiver(self, rendezvous: Rendezvous) -> Rendezvous:
        """Return the end that receives; by default the same rendezvous."""
        return rendezvous

    @clauses("R1")
    def test_send_first(self, rendezvous: Rendezvous, receiver: Rendezvous) -> None:
        """A value waits for its receiver."""
        rendezvous.send(_key("e"), HOST, np.float32(3))
        assert within(lambda: receiver.recv(_key("e"), HOST), "a receive") == (3, False)

    @clauses("R1")
    def test_receive_first(self, rendezvous: Rendezvous, receiver: Rendezvous) -> None:
        """A receiver waits for its value."""
        receiving = _Receiver(receiver, _key("e"))
        assert not receiving.has_ended.is_set()
        rendezvous.send(_key("e"), HOST, np.float32(3))
        assert receiving.result() == (3, False, None)

    @clauses("R1", "E7")
    def test_deadness_crosses(self, rendezvous: Rendezvous, receiver: Rendezvous) -> None:
        """A dead value is received as dead."""
        rendezvous.send(_key("e"), HOST, None, is_dead=True)
        assert _Receiver(receiver, _key("e")).result() == (None, True, None)

    @clauses("R1")
    def test_keys_are_distinct(self, rendezvous: Rendezvous, receiver: Rendezvous) -> None:
        """Different edges, iterations and directions are different keys."""
        keys = [_key("e"), _key("f"), _key("e", "w:1"), _key("e", "w:2"), _key("e", source=_B)]
        for index, key in enumerate(keys):
            rendezvous.send(key, HOST, np.int32(index))
        for index, key in reversed(list(enumerate(keys))):
            assert within(lambda: receiver.recv(key, HOST), "a receive")[0] == index  # noqa: B023

    @clauses("R1")
    def test_a_second_send_is_refused(self, rendezvous: Rendezvous, receiver: Rendezvous) -> None:
        """A second send under a key is an error; the first value is received."""
        rendezvous.send(_key("e"), HOST, np.int32(1))
        with pytest.raises(errors.AbortedError):
            rendezvous.send(_key("e"), HOST, np.int32(2))
        assert within(lambda: receiver.recv(_key("e"), HOST), "a receive")[0] == 1

    @clauses("R1")
    def test_a_second_receiver_is_refused(
        self, rendezvous: Rendezvous, receiver: Rendezvous
    ) -> None:
        """The second receiver of a key gets an error; the first one gets the value."""
        first, second = _Receiver(receiver, _key("e")), _Receiver(receiver, _key("e"))
        assert isinstance(second.result()[2], errors.AbortedError)
        rendezvous.send(_key("e"), HOST, np.int32(1))
        assert first.result() == (1, False, None)

    @clauses("R1", "E8")
    def test_abort_ends_all_receives(self, receiver: Rendezvous) -> None:
        """After `start_abort`, waiting and new receives get its error, marked as derived."""
        waiting = [_Receiver(receiver, _key(name)) for name in "abc"]
        receiver.start_abort(errors.DataLossError("first"))
        receiver.start_abort(errors.InternalError("second"))
        for one in [*waiting, _Receiver(receiver, _key("d"))]:
            error: Any = one.result()[2]
            assert isinstance(error, errors.DataLossError)
            assert error.is_derived
            assert "first" in error.message

    @clauses("R1", "E13")
    def test_cancellation_ends_a_wait(self, rendezvous: Rendezvous, receiver: Rendezvous) -> None:
        """A cancelled receiver is notified once; the value may still be sent."""
        manager = CancellationManager()
        receiving = _Receiver(receiver, _key("e"), TransferArgs(cancellation=manager))
        manager.start_cancel()
        assert isinstance(receiving.result()[2], errors.CancelledError)
        rendezvous.send(_key("e"), HOST, np.int32(1))
        assert within(lambda: receiver.recv(_key("e"), HOST), "a receive")[0] == 1
        assert receiving.calls == 1

    @clauses("R1", "E13")
    def test_a_wait_after_cancellation_ends_at_once(self, receiver: Rendezvous) -> None:
        """A receive that starts after the cancellation fails at once."""
        manager = CancellationManager()
        manager.start_cancel()
        receiving = _Receiver(receiver, _key("e"), TransferArgs(cancellation=manager))
        assert isinstance(receiving.result()[2], errors.CancelledError)

    @clauses("R1")
    @pytest.mark.parametrize("seed", range(3))
    def test_threads_receive_every_value(
        self, seed: int, rendezvous: Rendezvous, receiver: Rendezvous
    ) -> None:
        """Concurrent sends and receives in random order match one to one."""
        draw = random.Random(seed)
        keys = [_key(f"e{index}") for index in range(120)]
        receivers: list[_Receiver] = []

        def send(part: list[str]) -> None:
            for key in part:
                rendezvous.send(key, HOST, key)

        def receive(part: list[str]) -> None:
            receivers.extend(_Receiver(receiver, key) for key in part)

        threads = []
        for work in (send, receive):
            shuffled = draw.sample(keys, len(keys))
            threads += [
                threading.Thread(target=work, args=(shuffled[index::3],)) for index in range(3)
            ]
        draw.shuffle(threads)
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(one.key for one in receivers) == sorted(keys)
        assert all(one.result() == (one.key, False, None) for one in receivers)
        assert all(one.calls == 1 for one in receivers)


class _Receiver:
    """One asynchronous receive and its outcome."""

    def __init__(self, rendezvous: Rendezvous, key: str, args: TransferArgs = HOST) -> None:
        self.key = key
        self.calls = 0
        self.has_ended = threading.Event()
        self._outcome: tuple[Any, bool, Any] = (None, False, None)
        rendezvous.recv_async(key, args, self._done)

    def _done(self, value: Any, is_dead: bool, error: BaseException | None) -> None:
        self.calls += 1
        self._outcome = (value, is_dead, error)
        self.has_ended.set()

    def result(self) -> tuple[Any, bool, Any]:
        assert self.has_ended.wait(timeouts.TIMEOUT), f"nothing was received for {self.key}"
        return self._outcome


def _key(edge: str, frame: str = "0:0", source: str = _A) -> str:
    target = _B if source == _A else _A
    return str(RendezvousKey(source, 1, target, edge, frame))
