"""Heartbeats determine when a task counts as silent."""

from __future__ import annotations

import gc
import time
import weakref

import pytest

from graphmill import errors, proto

pytest.importorskip("grpc")

from graphmill_plugins.distributed.connection import Connection
from graphmill_plugins.distributed.heartbeat import (
    DEFAULT_SECONDS,
    VARIABLE,
    Heartbeat,
    silence_seconds,
)
from graphmill_plugins.distributed.wire.methods import WORKER_METHODS


class Peer:
    """The peer of a heartbeat's connection."""

    def __init__(self, seconds: float = 10.0) -> None:
        self.num_questions = 0
        self.num_lost = 0
        self.heartbeat = Heartbeat(seconds, self.ask, self.give_up)

    def ask(self) -> None:
        self.num_questions += 1

    def give_up(self) -> None:
        self.num_lost += 1


@pytest.fixture
def peer() -> Peer:
    return Peer()


def test_peer_without_calls_is_not_probed(peer: Peer) -> None:
    assert peer.heartbeat.check(0.0) is None
    peer.heartbeat.begin("call")
    peer.heartbeat.end("call")
    assert peer.heartbeat.check(100.0) is None
    assert (peer.num_questions, peer.num_lost) == (0, 0)


def test_peer_is_dropped_after_five_unanswered_probes(peer: Peer) -> None:
    peer.heartbeat.begin("call")
    now: float | None = 50.0
    times = []
    while not peer.num_lost:
        assert now is not None
        times.append(now)
        now = peer.heartbeat.check(now)
    assert times == [50, 52, 54, 56, 58, 60]
    assert peer.num_questions == 5


def test_answering_peer_is_kept(peer: Peer) -> None:
    peer.heartbeat.begin("call")
    for now in range(1000):
        peer.heartbeat.heard_at = now - 9.5
        peer.heartbeat.check(float(now))
    assert peer.num_lost == 0
    peer.heartbeat.check(999.5)
    assert peer.num_lost == 1


def test_silence_before_a_call_does_not_count(peer: Peer) -> None:
    peer.heartbeat.heard_at = 1.0
    peer.heartbeat.begin("call")
    assert peer.heartbeat.check(1000.0) == 1002
    assert peer.num_lost == 0


def test_a_pause_of_this_process_does_not_count(peer: Peer) -> None:
    peer.heartbeat.begin("call")
    peer.heartbeat.check(0.0)
    peer.heartbeat.restart(60.0)
    peer.heartbeat.check(60.0)
    peer.heartbeat.check(69.0)
    assert peer.num_lost == 0
    peer.heartbeat.check(70.0)
    assert peer.num_lost == 1


def test_no_silence_is_noticed_without_a_limit() -> None:
    peer = Peer(0.0)
    peer.heartbeat.begin("call")
    assert peer.heartbeat.check(1e9) is None


def test_heartbeat_reports_the_last_message_of_the_peer(peer: Peer) -> None:
    assert str(peer.heartbeat) == "last heartbeat: none yet"
    peer.heartbeat.heard_at = time.monotonic() - 12
    assert "UTC, 12.0 s ago" in str(peer.heartbeat)


def test_a_connection_that_is_dropped_is_not_kept() -> None:
    connection = Connection("a task", "127.0.0.1:1", WORKER_METHODS.values(), 10.0)
    kept = weakref.ref(connection)
    del connection
    gc.collect()
    assert kept() is None


def config_with(seconds: float) -> proto.ConfigProto:
    config = proto.ConfigProto()
    settings = config.graph_options.rewrite_options.custom_optimizers.add(name="distributed")
    settings.parameter_map["silence_seconds"].f = seconds
    return config


def test_config_sets_the_maximum_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert silence_seconds(None) == silence_seconds(proto.ConfigProto()) == DEFAULT_SECONDS < 30
    monkeypatch.setenv(VARIABLE, "7.5")
    assert silence_seconds(proto.ConfigProto()) == 7.5
    assert silence_seconds(config_with(2)) == 2
    assert silence_seconds(config_with(0)) == 0


@pytest.mark.parametrize("text", ["soon", "-1", "nan", "inf"])
def test_silence_that_is_not_a_number_is_refused(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, text)
    with pytest.raises(errors.InvalidArgumentError, match=VARIABLE):
        silence_seconds(None)
    with pytest.raises(
        errors.InvalidArgumentError, match="silence_seconds of plugin distributed is -3"
    ):
        silence_seconds(config_with(-3))
