"""Loops move to their compiled form while they run, at any iteration, and back."""

from __future__ import annotations

import itertools
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.plugins.jit.small_graphs import graph_def

import graphmill
from graphmill.errors import CancelledError, DeadlineExceededError, InvalidArgumentError
from graphmill.explain import explain_all
from graphmill.explain.compilation import COMPILED
from graphmill.ops import array, math

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.explain.compilation import ClusterRecord

pytestmark = [pytest.mark.jax, pytest.mark.divided]

pytest.importorskip("jax")

from graphmill_plugins.jit.programs import compiled_cluster  # noqa: E402 - needs JAX
from graphmill_plugins.jit.straight import straight_line  # noqa: E402
from graphmill_plugins.jit.tiers import loop_tiers, on_stack_replacement  # noqa: E402
from graphmill_plugins.jit.tiers.tier_machine import TRIAL_CALLS, TierRules  # noqa: E402

TIMEOUT = 60.0
ITERATIONS = 50

NUMBER = "{} = Const(dtype={}, value='{}: {}')"
ONE, LAST = NUMBER.format("one", "int32", "int32", 1), NUMBER.format("last", "int32", "int32", 30)
LESS = f"less(i: int32, s: float32, h: resource) -> bool: {LAST}; y = Less(i, last); return y"
UPDATE = (
    f"update(i: int32, s: float32, h: resource) -> (int32, float32, resource): {ONE}; "
    "j = AddV2(i, one); f = Cast(j, DstT=float32); add = AssignAddVariableOp(h, f); "
    "r = ReadVariableOp(h, dtype=float32, after=[add]); t = AddV2(s, r); return j, t, h"
)
CHECKED = (
    f"update(i: int32, s: float32, h: resource) -> (int32, float32, resource): {ONE}; "
    "j = AddV2(i, one); f = Cast(j, DstT=float32); add = AssignAddVariableOp(h, f); "
    "table = Const(dtype=float32, value='float32[20] fill 1'); "
    "axis = Const(dtype=int32, value='int32: 0'); "
    "e = GatherV2(table, i, axis, after=[add]); t = AddV2(s, e); return j, t, h"
)
COUNTING = (
    f"less(i: int32, s: float32, h: resource) -> bool: {LAST}; "
    "c = Const(dtype=float32, value='float32: 1'); add = AssignAddVariableOp(h, c); "
    "y = Less(i, last, after=[add]); return y"
)


@pytest.fixture
def moves_at(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that makes loops move to their compiled form at one iteration."""

    def set_iteration(iteration: int, limit: int = 7) -> None:
        monkeypatch.setattr(straight_line, "FIRST_REPLACEMENT", iteration)
        monkeypatch.setattr(on_stack_replacement, "HOT_NS", 0)
        monkeypatch.setattr(on_stack_replacement, "IMPORT_NS", 0)
        monkeypatch.setattr(on_stack_replacement, "_ENTER_NS", 0)
        monkeypatch.setattr(loop_tiers, "_FIRST_LIMIT", limit)
        monkeypatch.setattr(loop_tiers, "_next_limit", lambda limit, _: limit)
        monkeypatch.setattr(host().background, "submit", compile_now)
        kept = partial(loop_tiers.TierRules, keeps_slower=True)
        monkeypatch.setattr(loop_tiers, "TierRules", kept)

    return set_iteration


def host() -> graphmill.plugin.host.Host:
    return graphmill.default_host()


def compile_now(_: object, job: Callable[[], None], _description: str) -> bool:
    """Do a background job in the calling thread."""
    job()
    return True


def with_variable(condition: str, body: str) -> Any:
    """Return a graph with a loop that updates the variable `v`."""
    return graph_def(
        "v = VarHandleOp(dtype=float32, shape=[], shared_name='v')",
        "zero = Const(dtype=float32, value='float32: 0')",
        "start = AssignVariableOp(v, zero)",
        "first = Const(dtype=int32, value='int32: 0')",
        "loop = While([first, x, v], cond=less, body=update)",
        "read = ReadVariableOp(v, dtype=float32)",
        functions=(condition, body),
        x="float32",
    )


def loops_of(session: graphmill.Session) -> list[ClusterRecord]:
    """Return the records of the loops that were compiled by themselves."""
    steps = explain_all(session)
    clusters = [c for step in steps for one in step.compilations.values() for c in one.clusters]
    return [loop for cluster in clusters for loop in cluster.loops]


def num_compiled(session: graphmill.Session) -> int:
    """Return the number of calls of compiled loops."""
    return sum(one.num_compiled for loop in loops_of(session) for one in loop.signatures)


class Built:
    """A session of a graph with a fetch, and its records."""

    def __init__(self, build: Callable[[Any], Any], mode: str = "tiered") -> None:
        graph = graphmill.Graph()
        with graph.as_default():
            self.x = graph.placeholder("float32", [], name="x")
            self.y = build(self.x)
            init = graphmill.global_variables_initializer()
        self.session = graphmill.Session(
            graph=graph, config={"graphmill": {"jit": mode}}, host=host()
        )
        self.session.run(init)

    def run(self, value: float = 1.0, **options: Any) -> Any:
        return self.session.run(self.y, {self.x: value}, **options)


def plain(x):
    loop = graphmill.while_loop(
        lambda i, _: i < x * 0.0 + float(ITERATIONS), lambda i, v: (i + 1.0, v * 0.9 + i), [0.0, x]
    )
    return loop[1]


def with_branches(x):
    def body(i, v):
        is_even = math.equal(math.floor_mod(i, 2.0), 0.0)
        return i + 1.0, graphmill.cond(is_even, lambda: v * 0.9 + i, lambda: v - 0.5)

    return graphmill.while_loop(lambda i, _: i < x * 0.0 + float(ITERATIONS), body, [0.0, x])[1]


def nested(x):
    limit = x * 0.0 + 9.0

    def body(i, v):
        inner = graphmill.while_loop(
            lambda j, _: j < limit, lambda j, w: (j + 1.0, w * 0.9 + i), [0.0, v]
        )
        return i + 1.0, inner[1]

    return graphmill.while_loop(lambda i, _: i < limit, body, [0.0, x])[1]


def vectors(x):
    start = array.fill([3], x)
    loop = graphmill.while_loop(
        lambda i, _: i < x * 0.0 + float(ITERATIONS),
        lambda i, v: (i + 1.0, math.tanh(v) + start),
        [0.0, start],
    )
    return loop[1]


def in_a_branch(x):
    """A loop that is dead if x is negative."""
    return graphmill.cond(x > 0.0, lambda: plain(x), lambda: x)


BUILDS = [plain, with_branches, nested, vectors, in_a_branch]


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("iteration", [1, 2, 7, 49, 50, 51])
def test_loop_moved_at_any_iteration_has_the_same_values(build, iteration, moves_at):
    moves_at(iteration)
    moved, interpreted = Built(build), Built(build, "off")
    with moved.session, interpreted.session:
        for value in (1.0, -2.0):
            np.testing.assert_allclose(moved.run(value), interpreted.run(value), rtol=1e-5)
        if build is plain:
            assert bool(num_compiled(moved.session)) == (iteration <= ITERATIONS)


def test_moved_loop_is_called_until_it_ends(moves_at):
    moves_at(4)
    built = Built(plain)
    with built.session:
        built.run()
        (loop,) = loops_of(built.session)
        (signature,) = loop.signatures
        assert signature.tier == COMPILED
        assert signature.num_compiled == (ITERATIONS - 4) // 7 + 1


def test_next_step_uses_the_compiled_loop_at_once(moves_at, monkeypatch):
    moves_at(4)
    built = Built(plain)
    with built.session:
        expected = built.run()
        monkeypatch.setattr(loop_tiers, "loop_body", None)  # it exists already
        assert built.run() == expected


@pytest.mark.parametrize("iteration", [1, 5, 29, 30])
def test_effects_of_a_moved_loop_happen_once(iteration, moves_at):
    moves_at(iteration)
    outcomes = []
    for mode in ("tiered", "off"):
        config = {"graphmill": {"jit": mode}}
        with graphmill.Session(
            graph=with_variable(LESS, UPDATE), config=config, host=host()
        ) as session:
            session.run([], targets=["start"])
            outcomes.append([session.run("loop:1", {"x:0": 1.0}), session.run("read:0")])
            assert bool(num_compiled(session)) == (mode == "tiered")
    assert outcomes[0] == outcomes[1]
    assert outcomes[0][1] == 30 * 31 / 2


@pytest.mark.parametrize("iteration", [1, 5, 18, 20])
@pytest.mark.parametrize("limit", [1, 7, 100])
def test_failed_check_repeats_no_effect(iteration, limit, moves_at):
    moves_at(iteration, limit)
    with graphmill.Session(
        graph=with_variable(LESS, CHECKED),
        config={"graphmill": {"jit": "tiered"}},
        host=host(),
    ) as session:
        session.run([], targets=["start"])
        with pytest.raises(InvalidArgumentError, match="20") as raised:
            session.run("loop:1", {"x:0": 1.0})
        assert raised.value.node == "e"
        assert session.run("read:0") == 21 * 22 / 2  # iterations 0 to 20, each once
        (signature,) = loops_of(session)[0].signatures
        assert signature.num_checks_failed == 1


def test_error_names_the_iteration(moves_at):
    def build(x):
        table = array.fill([20], x)

        def body(i, v):
            return i + 1, v + array.gather(table, i)

        return graphmill.while_loop(lambda i, _: i < ITERATIONS, body, [0, x])[1]

    moves_at(5)
    texts = []
    for mode in ("tiered", "off"):
        built = Built(build, mode)
        with built.session, pytest.raises(InvalidArgumentError) as raised:
            built.run()
        texts.append((raised.value.message, raised.value.node, str(raised.value)))
    assert texts[0] == texts[1]


def test_program_that_cannot_run_leaves_the_loop_to_straight_line_code(moves_at, monkeypatch):
    def cannot_run(*_: Any) -> Any:
        raise compiled_cluster.ProgramFailedError("out of memory")

    moves_at(5)
    monkeypatch.setattr(compiled_cluster.CompiledCluster, "__call__", cannot_run)
    built, interpreted = Built(plain), Built(plain, "off")
    with built.session, interpreted.session:
        assert built.run() == interpreted.run()
        (signature,) = loops_of(built.session)[0].signatures
        assert "out of memory" in signature.reason


def test_loop_with_effects_in_its_condition_is_not_compiled(moves_at):
    moves_at(5)
    with graphmill.Session(
        graph=with_variable(COUNTING, UPDATE), config={"graphmill": {"jit": "tiered"}}, host=host()
    ) as session:
        session.run([], targets=["start"])
        session.run("loop:1", {"x:0": 1.0})
        assert session.run("read:0") == 30 * 31 / 2 + 31
        (signature,) = loops_of(session)[0].signatures
        assert "its condition has effects" in signature.reason


def test_inner_loop_with_unknown_trip_count_is_compiled_instead_of_the_outer_one(moves_at):
    moves_at(2)
    built = Built(nested)
    with built.session:
        built.run()
        reasons = [loop.signatures[0].reason for loop in loops_of(built.session)]
        assert len(reasons) == 2
        assert sum("is compiled instead" in reason for reason in reasons) == 1
        assert num_compiled(built.session)


def test_loop_returns_to_straight_line_code_if_the_program_is_slower(moves_at, monkeypatch):
    moves_at(2, limit=1)
    ticks = itertools.count(0, 1000)  # each call takes as long, however many iterations it runs
    for module in (on_stack_replacement, loop_tiers):
        monkeypatch.setattr(module, "perf_counter_ns", lambda: next(ticks))
    monkeypatch.setattr(loop_tiers, "TierRules", TierRules)
    jobs: list[Callable[[], None]] = []
    monkeypatch.setattr(
        host().background, "submit", lambda _, job, _description: not jobs.append(job)
    )
    advance = loop_tiers.LoopTiers.advance

    def advance_later(*args: Any) -> Any:
        if args[3] >= 8:  # when straight-line code has been timed
            while jobs:
                jobs.pop()()
        return advance(*args)

    monkeypatch.setattr(loop_tiers.LoopTiers, "advance", advance_later)
    built, interpreted = Built(plain), Built(plain, "off")
    with built.session, interpreted.session:
        assert built.run() == pytest.approx(interpreted.run())
        (signature,) = loops_of(built.session)[0].signatures
        assert (signature.state, signature.num_compiled) == ("backing off", TRIAL_CALLS)


@pytest.mark.parametrize("ending", ["deadline", "cancellation"])
def test_moved_loop_ends_with_its_step(ending, moves_at):
    moves_at(3)
    has_moved = threading.Event()

    def endless(x):
        return graphmill.while_loop(lambda v: v > 0.0, lambda v: (v * 1.0,), [x])

    built = Built(endless)
    call = loop_tiers.LoopTiers.advance

    def advance(*args: Any) -> Any:
        has_moved.set()
        return call(*args)

    with built.session, pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop_tiers.LoopTiers, "advance", advance)
        if ending == "deadline":
            with pytest.raises(DeadlineExceededError):
                built.run(options=graphmill.RunOptions(timeout_in_ms=1500))
        else:
            closer = threading.Thread(
                target=lambda: has_moved.wait(TIMEOUT) and built.session.close()
            )
            closer.start()
            with pytest.raises(CancelledError):
                built.run()
            closer.join(TIMEOUT)
        assert has_moved.is_set()


def test_steps_at_the_same_time_share_one_compiled_loop(moves_at):
    moves_at(3)
    built, interpreted = Built(plain), Built(plain, "off")
    with built.session, interpreted.session:
        results = {}
        threads = [
            threading.Thread(target=lambda n=n: results.update({n: built.run(float(n))}))
            for n in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(TIMEOUT)
        for value, result in results.items():
            assert result == pytest.approx(interpreted.run(float(value)), rel=1e-5)
        assert len(results) == 4
        assert len(loops_of(built.session)) == 1


def test_short_loop_is_never_compiled(monkeypatch):
    monkeypatch.setattr(host().background, "submit", lambda *_: pytest.fail("it was submitted"))
    built = Built(plain)
    with built.session:
        built.run()
        assert loops_of(built.session) == []
