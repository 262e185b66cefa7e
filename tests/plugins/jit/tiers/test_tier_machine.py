"""The tier state machine: random events, invariants, thresholds, histories."""

from __future__ import annotations

import itertools
import logging
import random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphmill.errors import InternalError
from graphmill.explain.compilation import COMPILED, STRAIGHT_LINE, ClusterRecord, SignatureRecord
from graphmill.runtime.checks.validation import VALIDATE_VARIABLE
from graphmill.runtime.state_machine import HISTORY_LENGTH
from graphmill_plugins.jit.tiers import signature_records
from graphmill_plugins.jit.tiers import tier_machine as machine_module
from graphmill_plugins.jit.tiers.signature_state import Signature
from graphmill_plugins.jit.tiers.signature_table import CALLS_FOR_A_SLOT, MAX_COMPILED
from graphmill_plugins.jit.tiers.states import (
    FINAL,
    HAS_PROGRAM,
    HOLDS_SLOT,
    SERVED_COMPILED,
    TRANSITIONS,
    Action,
    Event,
    State,
)
from graphmill_plugins.jit.tiers.tier_machine import (
    CALLS_TO_NEXT_SUBMISSION,
    TierMachine,
    TierRules,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

SLOW, FAST = 2_000, 1_000


@pytest.fixture(autouse=True)
def checks_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VALIDATE_VARIABLE, "1")


class Background:
    def __init__(self) -> None:
        self.is_idle = True


class Cluster:
    """Drives a machine like a cluster's kernel, without kernels, clock or compiler."""

    def __init__(self, rules: TierRules | None = None) -> None:
        self.background = Background()
        self.record = ClusterRecord("c", ())
        self.machine = TierMachine(
            self.record, rules or TierRules(), self.background, lambda values: f"int32{values}"
        )
        self.queue: list[Signature] = []
        self.takes_jobs = True
        self.more_is_known = False  # keys hold the values of inputs, too
        self.numbers = itertools.count()

    def call(self, key: Any, compiled_ns: int = FAST, straight_ns: int = SLOW) -> Signature:
        """Call the cluster with inputs of a key; return their signature."""
        key = self.key_of(key)
        signature = self.machine.find(key)
        if signature is None:
            signature, action = self.machine.enter(key, "", [key])
            self.follow(action, signature)
            signature = self.machine.find(key) or signature
        if signature.program is None and signature.counts_calls:
            self.follow(self.machine.count_call(signature, [key]), signature)
        if signature.program is None:
            if signature.is_measured:
                signature.straight_times.add(straight_ns)
            signature.counts.num_straight += 1
        else:
            is_measured = signature.is_measured
            signature.counts.num_compiled += 1
            if is_measured:
                self.machine.call_timed(signature, compiled_ns)
        return signature

    def key_of(self, key: Any) -> Any:
        return (key, "known") if self.more_is_known and type(key) is not tuple else key

    def follow(self, action: Action, signature: Signature) -> None:
        if action is Action.COMPILE:
            self.made(signature)
        elif action is Action.SUBMIT:
            if self.takes_jobs:
                self.queue.append(signature)
            else:
                self.machine.queue_full(signature)

    def compile_next(self, outcome: str = "program", index: int = 0) -> None:
        """Act as the background compiler for one waiting signature."""
        if not self.queue:
            return
        signature = self.queue.pop(index % len(self.queue))
        if not self.machine.start_compiling(signature):
            return
        if outcome == "program":
            self.made(signature)
        elif outcome == "other inputs":
            self.more_is_known = True
            self.made(signature)
        elif outcome == "refused":
            self.machine.not_compiled(signature, Event.TRACING_REFUSED, "no such rule")
        else:
            self.machine.not_compiled(signature, Event.COMPILER_RAISED, "a fault")

    def made(self, signature: Signature) -> Signature:
        return self.machine.program_ready(
            signature,
            f"program {next(self.numbers)}",
            self.key_of(signature.key),
            lambda key: self.more_is_known and type(key) is not tuple,
        )

    def compiled(self, key: Any) -> Signature:
        """Return the signature of a key, in its trial."""
        for _ in range(2):
            self.call(key)
        self.compile_next()
        return self.machine.find(key)

    def fail(self, key: Any, *, for_good: bool) -> None:
        signature = self.machine.find(self.key_of(key))
        if signature is None or signature.kept_program is None:
            return
        if for_good:  # perhaps a call that began before a pause
            self.machine.program_failed(signature, signature.kept_program, "out of memory")
        elif signature.program is not None:
            self.machine.checks_failed(signature)


# ---------------------------------------------------------------------------------- random events

RULES = [
    TierRules(calls=calls, varies=varies, is_compared=is_compared, keeps_slower=not calls)
    for calls in (0, 2)
    for varies in (False, True)
    for is_compared in (True, True, False)
]
OUTCOMES = ["program"] * 8 + ["other inputs", "refused", "fault"]


class RandomEvents:
    """Sends random events to a cluster, like many callers and a compiler."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.cluster = Cluster(self.random.choice(RULES))
        self.is_slow: dict[Any, bool] = {}

    def play(self) -> None:
        choices = [self.calls, self.compile, self.fail, self.idle, self.jobs]
        choices += [self.refuse, self.learn, self.fork]
        (event,) = self.random.choices(choices, [50, 30, 8, 5, 2, 1, 1, 0.1])
        event()

    def key(self) -> Any:
        return min(self.random.randrange(24), self.random.randrange(24))

    def calls(self) -> None:
        key = self.key()
        is_slow = self.is_slow.setdefault(key, self.random.random() < 0.4)
        for _ in range(self.random.choice([1, 1, 2, 10, 40, 150])):
            self.cluster.call(key, 2 * SLOW if is_slow else FAST)

    def compile(self) -> None:
        self.cluster.compile_next(self.random.choice(OUTCOMES), self.random.randrange(5))

    def fail(self) -> None:
        key, for_good = self.key(), self.random.random() < 0.4
        for _ in range(self.random.choice([1, 40])):
            self.cluster.fail(key, for_good=for_good)

    def idle(self) -> None:
        if self.random.random() < 0.05:  # the only time at which some signatures await it
            self.fork()
        self.cluster.background.is_idle = not self.cluster.background.is_idle

    def jobs(self) -> None:
        self.cluster.takes_jobs = not self.cluster.takes_jobs

    def learn(self) -> None:
        """Make more inputs static, which changes the keys of all later calls."""
        self.cluster.more_is_known = True

    def refuse(self) -> None:
        if self.cluster.machine.find(None) is None:
            self.cluster.machine.enter(None, "a variable has no value yet", [])

    def fork(self) -> None:
        """Continue in a forked child, with or without a compiler."""
        cluster = self.cluster
        if cluster.queue and self.random.random() < 0.5:
            cluster.machine.start_compiling(cluster.queue[0])
        cluster.queue.clear()
        if self.random.random() < 0.5:
            cluster.machine.compiler_lost("JAX does not work here")
        else:
            cluster.machine.compilations_lost()


@pytest.fixture
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_module, "CALLS_TO_NEXT_TRIAL", (60, 90))
    monkeypatch.setattr(machine_module, "CALLS_SUSPENDED", 5)


no_reset = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@no_reset
@given(seed=st.integers(0, 2**32))
def test_invariants_hold_after_any_events(short_pauses: None, seed: int) -> None:
    events = RandomEvents(seed)
    for _ in range(80):
        events.play()
        events.cluster.machine.validate()
    assert len(events.cluster.machine.history().splitlines()) <= HISTORY_LENGTH


def test_random_events_use_every_row_of_the_table(
    short_pauses: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    used: set[tuple[State, Event]] = set()
    send = Signature.send

    def note(self: Signature, event: Event, cause: str = "") -> Action | None:
        used.add((self.state, event))
        return send(self, event, cause)

    monkeypatch.setattr(Signature, "send", note)
    for seed in range(600):
        events = RandomEvents(seed)
        for _ in range(150):
            events.play()
    assert used == set(TRANSITIONS)


class Unread(SignatureRecord):
    """A record whose fields, except text and counts, must not be read."""

    def __getattribute__(self, name: str) -> Any:
        if name in ("tier", "is_wanted", "reason", "state", "straight_ns", "compiled_ns"):
            raise AssertionError(f"{name} of a record was read")
        return super().__getattribute__(name)


@no_reset
@given(seed=st.integers(0, 2**32))
def test_no_decision_reads_a_record(
    short_pauses: None, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(signature_records, "SignatureRecord", Unread)
    events = RandomEvents(seed)
    for _ in range(80):
        events.play()


# --------------------------------------------------------------------------------------- the table


def test_all_states_are_reachable_and_all_events_used() -> None:
    reached = {State.NEW, *(after for after, _ in TRANSITIONS.values())}
    assert reached == set(State)
    assert {event for _, event in TRANSITIONS} == set(Event)
    assert {action for _, action in TRANSITIONS.values()} == set(Action)


def test_actions_agree_with_states() -> None:
    for (before, event), (after, action) in TRANSITIONS.items():
        where = f"{before} {event}"
        assert (action is Action.SERVE) == (
            after in SERVED_COMPILED and before not in SERVED_COMPILED
        ), where
        assert (action is Action.DISCARD) == (before in HAS_PROGRAM and after not in HAS_PROGRAM), (
            where
        )
        assert (action is Action.PAUSE) == (
            before in SERVED_COMPILED and after in set(HAS_PROGRAM) - SERVED_COMPILED
        ), where
        assert (action is Action.SUBMIT) == (after is State.QUEUED), where


def test_final_states_have_no_program() -> None:
    assert not FINAL & set(HAS_PROGRAM)
    assert State.COMPILED not in FINAL
    assert {State.NOT_COMPILABLE, State.SUPERSEDED, State.EVICTED} == FINAL - HOLDS_SLOT


def test_unlisted_event_is_an_error() -> None:
    signature = Cluster().compiled("a")
    with pytest.raises(InternalError, match="'queue full' cannot happen; expected one of"):
        signature.apply(Event.QUEUE_FULL)


# -------------------------------------------------------------------------------------- thresholds


def test_a_signature_is_queued_by_its_second_call() -> None:
    cluster = Cluster()
    assert cluster.call("a").state is State.COUNTING
    assert cluster.call("a").state is State.QUEUED
    cluster.compile_next()
    assert cluster.call("a").state is State.TRIAL


def test_program_is_chosen_after_eight_faster_calls() -> None:
    cluster = Cluster()
    cluster.compiled("a")
    states = [cluster.call("a").state for _ in range(8)]
    assert states == [State.TRIAL] * 7 + [State.COMPILED]


def test_a_slower_program_has_three_trials() -> None:
    cluster = Cluster()
    cluster.compiled("a")
    seen = [(state, len(list(calls))) for state, calls in itertools.groupby(slower(cluster, 4500))]
    assert seen[:-1] == [
        (State.TRIAL, 7),
        (State.BACKING_OFF, 1 + 256),
        (State.TRIAL, 7),
        (State.BACKING_OFF, 1 + 4096),
        (State.TRIAL, 7),
    ]
    assert seen[-1][0] is State.SLOWER


def slower(cluster: Cluster, calls: int) -> Iterator[State]:
    for _ in range(calls):
        yield cluster.call("a", compiled_ns=2 * SLOW).state


def test_losing_program_waits_for_pending_compilations() -> None:
    cluster = Cluster()
    cluster.compiled("a")
    cluster.background.is_idle = False
    assert list(slower(cluster, 9))[-2:] == [State.AWAITING_IDLE] * 2
    (record,) = cluster.record.signatures
    assert (record.tier, record.reason) == (COMPILED, "")
    cluster.background.is_idle = True
    assert cluster.call("a").state is State.TRIAL


@pytest.mark.parametrize("is_tried", [False, True])
def test_program_with_failing_checks_is_suspended_and_resumed(
    is_tried: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine_module, "CALLS_SUSPENDED", 5)
    cluster = Cluster()
    cluster.compiled("a")
    for _ in range(8 if is_tried else 0):
        cluster.call("a")
    for _ in range(32):
        cluster.fail("a", for_good=False)
    signature = cluster.machine.find("a")
    assert signature.state is (State.SUSPENDED if is_tried else State.TRIAL_SUSPENDED)
    for _ in range(5):
        assert cluster.call("a").program is None
    assert cluster.call("a").state is (State.COMPILED if is_tried else State.TRIAL)


def test_the_time_of_an_asynchronous_device_is_not_compared() -> None:
    cluster = Cluster(TierRules(is_compared=False))
    assert cluster.compiled("a").state is State.COMPILED
    assert "asynchronous devices" in cluster.machine.history()


def test_slot_goes_to_more_frequent_signature() -> None:
    cluster = Cluster()
    for key in range(MAX_COMPILED):
        cluster.compiled(key)
    assert cluster.call("new").state is State.NO_SLOT
    assert cluster.record.signatures[-1].reason == (
        "there are already 16 compiled signatures: the shapes of its inputs change too often; pad "
        "them to a few sizes"
    )
    for _ in range(CALLS_FOR_A_SLOT - 2):
        assert cluster.call("new").state is State.NO_SLOT
    assert cluster.call("new").state is State.QUEUED
    gone = [key for key in range(MAX_COMPILED) if cluster.machine.find(key) is None]
    assert len(gone) == 1
    cluster.machine.validate()


def test_signatures_that_were_called_once_lose_their_slot_to_a_frequent_one() -> None:
    cluster = Cluster()
    for key in range(MAX_COMPILED):
        cluster.call(key)
    for _ in range(CALLS_FOR_A_SLOT - 1):
        assert cluster.call("frequent").state is State.NO_SLOT
    assert cluster.call("frequent").state is State.QUEUED
    assert cluster.machine.find(0) is None
    cluster.machine.validate()


def test_slot_is_kept_from_alternating_signatures() -> None:
    cluster = Cluster()
    for _ in range(3 * CALLS_FOR_A_SLOT):
        for key in range(MAX_COMPILED + 4):
            cluster.call(key)
            cluster.compile_next()
    assert all(cluster.machine.find(key).state is State.COMPILED for key in range(MAX_COMPILED))


def test_program_for_other_inputs_shares_the_record() -> None:
    cluster = Cluster()
    for _ in range(2):
        first = cluster.call("a")
    cluster.compile_next("other inputs")
    assert first.state is State.SUPERSEDED
    served = cluster.machine.find(("a", "known"))
    assert served.state is State.TRIAL
    (record,) = cluster.record.signatures
    assert served.record is record
    assert record.tier == COMPILED
    assert cluster.machine.find("a") is None


def test_failed_program_is_abandoned_with_reason() -> None:
    cluster = Cluster()
    cluster.compiled("a")
    cluster.fail("a", for_good=True)
    (record,) = cluster.record.signatures
    assert (record.tier, record.reason, record.state) == (
        STRAIGHT_LINE,
        "out of memory",
        "program failed",
    )


def test_late_call_of_abandoned_program_changes_nothing() -> None:
    cluster = Cluster()
    signature = cluster.compiled("a")
    program = signature.program
    cluster.fail("a", for_good=True)
    cluster.machine.program_failed(signature, program, "again")
    for _ in range(20):
        cluster.machine.call_timed(signature, SLOW)
    assert signature.state is State.PROGRAM_FAILED


def test_a_signature_that_found_a_full_queue_is_submitted_again() -> None:
    """A very large graph may have more parts than the compile queue holds."""
    cluster = Cluster()
    cluster.takes_jobs = False
    cluster.call("a")
    signature = cluster.call("a")
    assert signature.state is State.COUNTING
    assert "submitted again after 8 calls" in signature.record.reason
    cluster.takes_jobs = True
    for _ in range(CALLS_TO_NEXT_SUBMISSION):
        assert signature.state is State.COUNTING
        cluster.call("a")
    assert cluster.queue == [signature]
    cluster.compile_next()
    assert signature.program is not None


def test_compilation_lost_in_fork_is_requeued_by_next_call() -> None:
    cluster = Cluster()
    signatures = [cluster.call(key) for key in "aabb"]
    cluster.machine.start_compiling(signatures[0])
    cluster.machine.compilations_lost()
    assert {one.state for one in signatures} == {State.COUNTING}
    assert cluster.call("a").state is cluster.call("b").state is State.QUEUED


def test_programs_are_abandoned_if_compiler_is_lost_in_fork() -> None:
    cluster = Cluster()
    cluster.compiled("a")
    cluster.call("b")
    cluster.machine.compiler_lost("JAX does not work here")
    for key in "ab":
        assert cluster.call(key).state is State.NOT_COMPILABLE
        assert cluster.call(key).program is None
    assert {(one.tier, one.reason) for one in cluster.record.signatures} == {
        (STRAIGHT_LINE, "JAX does not work here")
    }


# ---------------------------------------------------------------------------------------- histories


def test_history_lists_state_changes_of_signature_with_reasons() -> None:
    cluster = Cluster()
    cluster.compiled("a")
    for _ in range(8):
        cluster.call("a")
    reason = "it will be compiled after 2 calls with inputs of these shapes"
    times = "compiled it takes 1.0 µs, as straight-line code 2.0 µs"
    assert cluster.machine.history().splitlines() == [
        f"int32['a']: new -> counting (eligible): {reason}",
        "int32['a']: counting -> queued (called often): it waits for the compiler",
        "int32['a']: queued -> compiling (compilation started): it is being compiled",
        "int32['a']: compiling -> trial (program ready)",
        f"int32['a']: trial -> compiled (trial won): {times}: the compiled program is used",
    ]


def test_a_storm_of_signatures_leaves_one_line() -> None:
    cluster = Cluster(TierRules(calls=0))
    for key in range(500):
        cluster.call(key)
    lines = cluster.machine.history().splitlines()
    assert sum("no slot" in line for line in lines) == 1


def test_many_signatures_are_reported_once_with_the_holders_of_slots(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "graphmill.jit")
    cluster = Cluster()
    for key in range(500):
        cluster.call(key)
    cause = "signatures are being counted: the shapes of its inputs change too often; pad them to "
    assert cluster.record.signatures[-1].reason == f"16 {cause}a few sizes"
    (logged,) = caplog.messages
    assert logged == f'too many signatures cluster=c cause="16 {cause}a few sizes"'
    assert cluster.record.signatures[-1].num_straight == 500 - MAX_COMPILED


def test_cause_of_a_full_table_follows_the_states() -> None:
    cluster = Cluster()
    for key in range(MAX_COMPILED):
        (cluster.compiled if key < 4 else cluster.call)(key)
    cluster.call("new")
    reason = cluster.record.signatures[-1].reason
    assert reason.startswith("12 signatures are being counted, 4 were given to the compiler: ")
    for key in range(4, MAX_COMPILED):
        cluster.call(key)
    cluster.call("newer")
    reason = cluster.record.signatures[-1].reason
    assert reason.startswith("16 signatures were given to the compiler: ")
    assert len(cluster.record.signatures) == MAX_COMPILED + 1
