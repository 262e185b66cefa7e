"""The tiers of a cluster: compilation, selection, eviction, faults (clauses S6, S12)."""

from __future__ import annotations

import itertools
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.plugins.jit.small_graphs import HotSession, graph_def

from graphmill.errors import InvalidArgumentError
from graphmill.explain.compilation import COMPILED, STRAIGHT_LINE
from graphmill_plugins.jit.tiers.tier_machine import EVICTED

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.explain.compilation import SignatureRecord

pytestmark = pytest.mark.jax

jax = pytest.importorskip("jax")

SQUARE = graph_def("a = Mul(x, x)", "y = AddV2(a, x)", x="float32[2]")
RESHAPE = graph_def("a = Neg(x)", "y = Reshape(a, i)", x="float32[6]", i="int32[2]")
COUNTER = graph_def(
    "v = VarHandleOp(dtype=float32, shape=[2], shared_name='v')",
    "w = VarHandleOp(dtype=float32, shape=[2], shared_name='w')",
    "zero = Const(dtype=float32, value='float32[2] fill 0')",
    *("start_v = AssignVariableOp(v, zero)", "start_w = AssignVariableOp(w, zero)"),
    "k = Const(dtype=int32, value='int32: 0')",
    "add = AssignAddVariableOp(v, x)",
    "part = GatherV2(x, i, k, after=[add])",
    "also = AssignAddVariableOp(w, part, after=[add])",
    "read_v = ReadVariableOp(v, dtype=float32)",
    "read_w = ReadVariableOp(w, dtype=float32)",
    x="float32[2]",
    i="int32[2]",
)
READS = ["read_v:0", "read_w:0"]


def ones(*shape: int) -> np.ndarray[Any, Any]:
    return np.ones(shape, np.float32)


def feeds(first: int, second: int) -> dict[str, Any]:
    return {"x:0": np.array([1, 2], np.float32), "i:0": np.array([first, second], np.int32)}


def raises(error: Exception) -> Callable[..., Any]:
    def call(*_: Any, **__: Any) -> Any:
        raise error

    return call


# ------------------------------------------------------------------------------------------ tiers


def test_repeated_signature_is_compiled_in_background() -> None:
    with HotSession(SQUARE, "tiered") as session:
        for _ in range(8):
            assert session.run("y:0", {"x:0": 3 * ones(2)}).tolist() == [12, 12]
        (cluster,) = session.clusters
        (record,) = cluster.signatures
        assert record.num_straight
        assert record.tier == COMPILED
        assert record.num_compiled


def test_eager_steps_are_compiled_before_the_first() -> None:
    with HotSession(SQUARE) as session:
        assert session.run("y:0", {"x:0": ones(2)}).tolist() == [2, 2]
        (record,) = session.clusters[0].signatures
        assert (record.num_straight, record.num_compiled) == (0, 1)


def test_a_compiled_form_that_is_slower_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    from graphmill_plugins.jit import cluster_kernel
    from graphmill_plugins.jit.programs.compiler import CompiledCluster

    ticks = iter(range(10**6))
    monkeypatch.setattr(cluster_kernel, "perf_counter_ns", lambda: next(ticks))
    compiled = CompiledCluster.__call__

    def slow(self: CompiledCluster, values: Any, step: Any) -> Any:
        next(ticks)
        return compiled(self, values, step)

    monkeypatch.setattr(CompiledCluster, "__call__", slow)
    with HotSession(SQUARE, "tiered") as session:
        for _ in range(40):
            assert session.run("y:0", {"x:0": ones(2)}).tolist() == [2, 2]
        (record,) = session.clusters[0].signatures
        assert record.tier == STRAIGHT_LINE
        assert record.reason.startswith("compiled it takes")
        assert ", as straight-line code " in record.reason
        assert ": straight-line code is used" in record.reason
        assert record.num_compiled < 20


def test_slower_tier_during_compilation_is_retried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from graphmill_plugins.jit import cluster_kernel
    from graphmill_plugins.jit.programs.compiler import CompiledCluster

    ticks = itertools.count()
    monkeypatch.setattr(cluster_kernel, "perf_counter_ns", lambda: next(ticks))
    compiled, is_slow, go_on = CompiledCluster.__call__, True, threading.Event()

    def wait() -> None:
        go_on.wait(60)

    def slow(self: CompiledCluster, values: Any, step: Any) -> Any:
        if is_slow:
            next(ticks)
        return compiled(self, values, step)

    monkeypatch.setattr(CompiledCluster, "__call__", slow)
    with HotSession(SQUARE, "tiered") as session:

        def run(times: int) -> SignatureRecord:
            for _ in range(times):
                session.session.run("y:0", {"x:0": ones(2)})
            return session.clusters[0].signatures[0]

        for _ in range(6):
            session.run("y:0", {"x:0": ones(2)})
        assert run(1).tier == COMPILED
        session.host.background.submit(session, wait)
        record = run(20)
        assert (record.tier, record.reason) == (COMPILED, "")
        served = record.num_compiled
        assert run(20).num_compiled == served < 20  # it waits, and straight-line code serves
        is_slow = False
        go_on.set()
        session.host.background.wait_idle()
        assert run(20).num_compiled == served + 20


@pytest.mark.parametrize("recovers", [True, False])
def test_losing_tier_is_retried_twice(monkeypatch: pytest.MonkeyPatch, recovers: bool) -> None:
    """A tier that lost its trial, perhaps because of other load, is tried twice more."""
    from graphmill_plugins.jit import cluster_kernel
    from graphmill_plugins.jit.programs.compiler import CompiledCluster
    from graphmill_plugins.jit.tiers import tier_machine

    ticks = itertools.count()
    monkeypatch.setattr(cluster_kernel, "perf_counter_ns", lambda: next(ticks))
    monkeypatch.setattr(tier_machine, "CALLS_TO_NEXT_TRIAL", (5, 10))
    compiled, is_slow = CompiledCluster.__call__, True

    def slow(self: CompiledCluster, values: Any, step: Any) -> Any:
        if is_slow:
            next(ticks)
        return compiled(self, values, step)

    monkeypatch.setattr(CompiledCluster, "__call__", slow)
    with HotSession(SQUARE, "tiered") as session:

        def run(times: int) -> SignatureRecord:
            for _ in range(times):
                session.run("y:0", {"x:0": ones(2)})
            return session.clusters[0].signatures[0]

        for _ in range(6):
            session.run("y:0", {"x:0": ones(2)})
        while not run(1).reason.endswith("it will be tried again after 5 calls"):
            pass
        assert run(5).num_compiled == 8
        is_slow = not recovers
        record = run(8 + 10 + 8 + 20)
        assert record.tier == (COMPILED if recovers else STRAIGHT_LINE)
        assert record.num_compiled == (8 + 46 if recovers else 8 + 8 + 8)
        assert ("tried again" in record.reason, not record.reason) == (False, recovers)


# ----------------------------------------------------------------------------------------- storms


def test_signatures_beyond_sixteen_are_interpreted() -> None:
    with HotSession(SQUARE) as session:
        for size in range(1, 90):
            assert session.run("y:0", {"x:0": ones(size)}).tolist() == [2] * size
        records = session.clusters[0].signatures
        assert sum(record.tier == COMPILED for record in records) == 16
        assert len(records) == 17
        assert records[-1].reason.startswith("there are already 16 compiled signatures: ")


def tier_of(session: HotSession, size: int) -> str:
    """Return the tier that serves calls with a number of elements."""
    session.host.background.wait_idle()
    before = {id(r): r.num_compiled for r in session.clusters[0].signatures}
    session.run("y:0", {"x:0": ones(size)})
    after = session.clusters[0].signatures
    return COMPILED if any(r.num_compiled > before.get(id(r), 0) for r in after) else STRAIGHT_LINE


@pytest.mark.parametrize("mode", ["eager", "tiered"])
def test_more_frequent_signature_gets_a_slot(mode: str) -> None:
    with HotSession(SQUARE, mode) as session:
        for size in [*range(1, 17)] * 4:
            session.run("y:0", {"x:0": ones(size)})
        assert tier_of(session, 3) == COMPILED
        assert tier_of(session, 40) == STRAIGHT_LINE
        for _ in range(66):  # few enough that nothing is judged yet
            session.run("y:0", {"x:0": ones(40)})
        assert tier_of(session, 40) == COMPILED
        records = session.clusters[0].signatures
        assert [r.reason for r in records].count(EVICTED) == 1
        assert sum(r.tier == COMPILED for r in records) == 16


def test_old_signature_counts_are_forgotten() -> None:
    with HotSession(SQUARE) as session:
        for _ in range(200):
            for size in range(1, 17):
                session.session.run("y:0", {"x:0": ones(size)})
        for _ in range(70):
            session.session.run("y:0", {"x:0": ones(40)})
        assert tier_of(session, 40) == COMPILED


def test_alternating_signatures_keep_their_slots() -> None:
    with HotSession(SQUARE) as session:
        for _ in range(150):
            for size in range(1, 21):
                session.session.run("y:0", {"x:0": ones(size)})
        records = session.clusters[0].signatures
        assert EVICTED not in [r.reason for r in records]
        assert sum(bool(r.compiles) for r in records) == 16


def test_rare_signature_is_evicted_for_frequent_one() -> None:
    with HotSession(SQUARE) as session:
        for size in range(1, 90):
            session.session.run("y:0", {"x:0": ones(size)})
        for size in range(100, 800):  # each once, and one of 7 again and again
            session.session.run("y:0", {"x:0": ones(size)})
            if size % 7 == 0:
                session.session.run("y:0", {"x:0": ones(95)})
        assert tier_of(session, 95) == COMPILED


def test_required_static_values_are_found_by_tracing() -> None:
    with HotSession(RESHAPE) as session:
        for shape in ([2, 3], [3, 2], [2, 3], [6, 1]):
            found = session.run("y:0", {"x:0": ones(6), "i:0": np.array(shape, np.int32)})
            assert list(found.shape) == shape
        records = session.clusters[0].signatures
        assert [record.tier for record in records] == [COMPILED] * 3
        assert [record.num_compiled for record in records] == [2, 1, 1]


def test_static_values_of_another_shape_are_another_signature() -> None:
    """Static values of another shape are another signature: `[6]` and `[[6]]` have equal bytes."""
    with HotSession(RESHAPE) as session:
        good = {"x:0": ones(6), "i:0": np.array([6], np.int32)}
        assert session.run("y:0", good).shape == (6,)
        error = session.error("y:0", {**good, "i:0": np.array([[6]], np.int32)})
        assert isinstance(error, InvalidArgumentError)
        assert error.node == "y"


def test_many_static_values_are_interpreted() -> None:
    graph = graph_def("a = Neg(x)", "y = Fill(i, a)", x="float32", i="int32[1]")
    with HotSession(graph) as session:
        for size in range(40):
            found = session.run("y:0", {"x:0": ones(), "i:0": np.array([size], np.int32)})
            assert found.tolist() == [-1] * size
        records = session.clusters[0].signatures
        assert sum(record.tier == COMPILED for record in records) <= 16


# ----------------------------------------------------------------------------------------- faults


@pytest.mark.parametrize(
    "error",
    [
        jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: out of memory"),
        NotImplementedError("MLIR translation rule for primitive 'x' not found"),
        MemoryError("no memory"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_failed_compilation_is_recorded_and_not_retried(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    from graphmill_plugins.jit.programs import compiler

    tried: list[int] = []

    def fail(*_: Any, **__: Any) -> Any:
        tried.append(1)
        raise error

    monkeypatch.setattr(compiler, "compile_program", fail)
    with HotSession(SQUARE) as session:
        for _ in range(5):
            assert session.run("y:0", {"x:0": ones(2)}).tolist() == [2, 2]
        (record,) = session.clusters[0].signatures
        assert str(error) in record.reason
        assert (record.tier, record.num_straight, len(tried)) == (STRAIGHT_LINE, 5, 1)


def test_a_program_that_fails_leaves_variables_as_they_were(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A program that fails leaves variables unchanged; the interpreter runs the step once."""
    from graphmill_plugins.jit.programs.compiler import CompiledCluster

    with HotSession(COUNTER) as session:
        session.run([], targets=["start_v", "start_w"])
        session.run([], feeds(0, 1), ["also"])
        original_run = CompiledCluster._run

        def fail(self: CompiledCluster, *args: Any) -> Any:
            if self._written:
                monkeypatch.setattr(self, "_program", raises(jax.errors.JaxRuntimeError("gone")))
            return original_run(self, *args)

        monkeypatch.setattr(CompiledCluster, "_run", fail)
        session.run([], feeds(0, 1), ["also"])
        session.run([], feeds(0, 1), ["also"])
        found = [value.tolist() for value in session.run(READS)]
        assert found == [[3, 6], [3, 6]]
        records = [record for cluster in session.clusters for record in cluster.signatures]
        failed = [record for record in records if "the compiled form failed" in record.reason]
        assert [record.num_straight for record in failed] == [2]


def test_rejected_values_leave_variables_as_interpreted_e8() -> None:
    """After rejected values, variables have the interpreter's values: the first write stays."""
    results = []
    for mode in ("off", "eager"):
        with HotSession(COUNTER, mode) as session:
            session.run([], targets=["start_v", "start_w"])
            session.run([], feeds(0, 1), ["also"])
            error = session.error([], feeds(0, 7), ["also"])
            results.append((type(error), error.node, error.op_type, error.message))
            results[-1] += tuple(str(value) for value in session.run(READS))
    assert results[0] == results[1]
    assert results[0][:3] == (InvalidArgumentError, "part", "GatherV2")


def test_fetched_result_is_unchanged() -> None:
    """A fetched result is unchanged by the next step, which may reuse variables' buffers."""
    with HotSession(COUNTER) as session:
        session.run([], targets=["start_v", "start_w"])
        fetched = []
        for _ in range(4):
            session.run([], feeds(0, 1), ["also"])
            fetched.append(session.run(READS)[0])
        assert [value.tolist() for value in fetched] == [[1, 2], [2, 4], [3, 6], [4, 8]]


def test_a_variable_may_change_its_shape() -> None:
    graph = graph_def(
        "v = VarHandleOp(dtype=float32, shape=unknown, shared_name='v')",
        *("set = AssignVariableOp(v, x)", "r = ReadVariableOp(v, dtype=float32)", "y = Neg(r)"),
        x="float32[2]",
    )
    with HotSession(graph) as session:
        for size in (2, 3, 2, 5):
            session.run([], {"x:0": ones(size)}, ["set"])
            assert session.run("y:0").tolist() == [-1] * size
