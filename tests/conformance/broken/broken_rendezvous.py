"""Deliberately broken copies of the rendezvous; see `test_seeded_faults.py`."""

from __future__ import annotations

import contextlib
import itertools

import pytest

from graphmill.errors import AbortedError
from graphmill.runtime.rendezvous import IntraProcessRendezvous, TransferArgs
from graphmill.testing import timeouts
from graphmill.testing.conformance import RendezvousTests

timeouts.TIMEOUT = 0.5
timeouts.within.__defaults__ = (0.5,)


class Base(IntraProcessRendezvous):
    __slots__ = ("__dict__",)


class Sound(Base):
    pass


class LosesDeadness(Base):
    def send(self, key, args, value, is_dead=False):
        super().send(key, args, value)


class ConfusesIterations(Base):
    def send(self, key, args, value, is_dead=False):
        super().send(key.rpartition(";")[0], args, value, is_dead)

    def recv_async(self, key, args, done):
        super().recv_async(key.rpartition(";")[0], args, done)


class AcceptsTwoValues(Base):
    def send(self, key, args, value, is_dead=False):
        with contextlib.suppress(AbortedError):
            super().send(key, args, value, is_dead)


class KeepsSecondValue(Base):
    def send(self, key, args, value, is_dead=False):
        try:
            super().send(key, args, value, is_dead)
        except AbortedError:
            del self._table[key]
            super().send(key, args, value, is_dead)
            raise


class AcceptsTwoReceivers(Base):
    def recv_async(self, key, args, done):
        if key not in self._table or key not in self.awaited_keys():
            super().recv_async(key, args, done)


class AbortsWithoutNotifying(Base):
    def start_abort(self, error):
        self._table.clear()
        super().start_abort(error)


class OmitsDerivedMark(Base):
    def recv_async(self, key, args, done):
        def underived(value, is_dead, error):
            if error is not None:
                error.is_derived = False
            done(value, is_dead, error)

        super().recv_async(key, args, underived)


class KeepsLastAbort(Base):
    def start_abort(self, error):
        super().start_abort(error)
        self._error = error


class IgnoresCancellation(Base):
    def recv_async(self, key, args, done):
        super().recv_async(key, TransferArgs(args.device, args.on_host), done)


class CallsTwice(Base):
    def recv_async(self, key, args, done):
        def twice(*outcome):
            done(*outcome)
            done(*outcome)

        super().recv_async(key, args, twice)


class IgnoresEarlierCancellation(Base):
    def recv_async(self, key, args, done):
        if args.cancellation is not None and args.cancellation.is_cancelled:
            args = TransferArgs(args.device, args.on_host)
        super().recv_async(key, args, done)


class LosesOneOfFifty(Base):
    numbers = itertools.count(1)

    def send(self, key, args, value, is_dead=False):
        if next(self.numbers) % 50:
            super().send(key, args, value, is_dead)


def suite(kind):
    class Suite(RendezvousTests):
        @pytest.fixture
        def rendezvous(self):
            return kind()

    Suite.__name__ = Suite.__qualname__ = f"Test{kind.__name__}"
    return Suite


for made in Base.__subclasses__():
    globals()[f"Test{made.__name__}"] = suite(made)
