"""Programs donate the buffers of variables without other references (clause S11, decision 0008)."""

from __future__ import annotations

import gc
import signal
import sys
import threading
from weakref import ref

import numpy as np
import pytest
from tests.plugins.jit.small_graphs import HotSession, graph_def

from graphmill import dtypes
from graphmill.errors import DataLossError, OpError
from graphmill.runtime.resources.variables import Variable
from graphmill.testing.timeouts import TIMEOUT
from graphmill_plugins.jit.programs.buffer_cache import array_behind, remember_array

pytestmark = [
    pytest.mark.jax,
    pytest.mark.skipif(
        not getattr(sys, "_is_gil_enabled", lambda: True)(), reason="counts prove nothing there"
    ),
]

jax = pytest.importorskip("jax")

from graphmill_plugins.jit.cluster_kernel import ClusterKernel  # noqa: E402
from graphmill_plugins.jit.programs.donation import DonatedValues  # noqa: E402
from graphmill_plugins.jit.programs.memory import memory_of  # noqa: E402

SIZE = 1 << 15
TWO = (
    "v = VarHandleOp(dtype=float32, shape=[32768], shared_name='v')",
    "w = VarHandleOp(dtype=float32, shape=[32768], shared_name='w')",
    "begin = AssignVariableOp(v, x)",
    "start = AssignVariableOp(w, x, after=[begin])",
)
STEP = graph_def(
    *TWO,
    "k = Const(dtype=int32, value='int32: 0')",
    "rate = GatherV2(x, n, k)",
    "old = ReadVariableOp(w, dtype=float32)",
    "more = Mul(old, rate)",
    "add = AssignAddVariableOp(v, more)",
    "now = ReadVariableOp(v, dtype=float32, after=[add])",
    "total = Sum(now, k)",
    x="float32[32768]",
    n="int64",
)
FEEDS = {"x:0": np.ones(SIZE, np.float32), "n:0": np.int64(3)}


def variable_of(session, name):
    return session.session._impl.devices.host.resource_mgr.lookup("", name, Variable)


def address(variable):
    return variable.value.__array_interface__["data"][0]


@pytest.fixture
def session():
    with HotSession(STEP) as made:
        made.run([], FEEDS, targets=["start"])
        for count in range(2, 5):  # interpreted, then compiled
            assert made.run("total:0", FEEDS) == count * SIZE
        yield made


def test_donation_reuses_the_buffer_s11(session):
    variable = variable_of(session, "v")
    places = set()
    for _ in range(5):
        session.run("total:0", FEEDS)
        places.add(address(variable))
    assert len(places) == 1


def test_earlier_reads_keep_their_value_s11(session):
    variable = variable_of(session, "v")
    for hold in (lambda v: v, lambda v: v[1:], memoryview, lambda v: array_behind(variable, v)):
        held = hold(variable.value)
        before = np.array(held)
        total = session.run("total:0", FEEDS)
        assert np.array_equal(np.asarray(held), before)
        assert total == variable.value.sum() == (before[0] + 1) * SIZE
        del held


def test_failed_check_leaves_variable_and_names_node_s12(session):
    variable = variable_of(session, "v")
    before = np.array(variable.value)
    error = session.error("total:0", {**FEEDS, "n:0": np.int64(SIZE)})
    assert error.node == "rate"
    assert np.array_equal(variable.value, before)
    assert session.run("total:0", FEEDS) == (before[0] + 1) * SIZE


def donating(session):
    """Return the compiled cluster of a session that writes variables in place."""
    mine = session.session._impl._functions.values()
    (found,) = (
        program
        for kernel in gc.get_objects()
        if type(kernel) is ClusterKernel and kernel._compiler._functions in mine
        for program in kernel._machine.programs()
        if program._donated
    )
    return found


def test_an_input_beside_donated_arrays_is_no_jax_array_s11(session):
    """JAX refuses an array that is donated and also another argument of the call."""
    made, value = donating(session), variable_of(session, "v").value
    values = [value] * (1 + max(made._arrays))
    assert isinstance(made._arguments(values, (), are_locked=False)[0], jax.Array)
    assert made._arguments(values, (), are_locked=True)[0] is value


def test_failure_before_donation_leaves_variable_s12(session, monkeypatch):
    variable = variable_of(session, "v")
    before = np.array(variable.value)

    def fail(*_):
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: no memory")

    monkeypatch.setattr(donating(session), "_program", fail)
    assert session.run("total:0", FEEDS) == (before[0] + 1) * SIZE  # interpreted
    assert type(variable) is Variable
    assert not variable.lock.locked()


def test_failure_during_donation_reports_data_loss_s12(session, monkeypatch):
    variable = variable_of(session, "v")
    made = donating(session)
    program = made._program

    def fail(*args):
        program(*args)
        raise jax.errors.JaxRuntimeError("INTERNAL: no idea")

    monkeypatch.setattr(made, "_program", fail)
    error = session.error("total:0", FEEDS)
    assert isinstance(error, DataLossError)
    assert "restore" in error.message
    assert not variable.is_initialized
    assert not variable.lock.locked()


@pytest.mark.usefixtures("interruptible")
def test_interrupt_during_donation_keeps_new_value_s12(session, monkeypatch):
    variable = variable_of(session, "v")
    before = np.array(variable.value)
    made = donating(session)
    program = made._program

    def interrupted(*args):
        results = program(*args)
        signal.raise_signal(signal.SIGINT)
        return results

    with monkeypatch.context() as patch:
        patch.setattr(made, "_program", interrupted)
        with pytest.raises(KeyboardInterrupt):
            session.run("total:0", FEEDS)
    assert np.array_equal(variable.value, before + 1)
    assert not variable.lock.locked()
    assert session.run("total:0", FEEDS) == (before[0] + 2) * SIZE


def test_expensive_check_has_no_guard_program():
    graph = graph_def(
        *TWO,
        "old = ReadVariableOp(w, dtype=float32)",
        "shape = Const(dtype=int32, value='int32: [128, 256]')",
        "m = Reshape(old, shape)",
        "product = MatMul(m, m, transpose_b=True)",
        "good = CheckNumerics(product, message='m')",
        "all = Const(dtype=int32, value='int32: [0, 1]')",
        "total = Sum(good, all)",
        "add = AssignAddVariableOp(v, old, after=[total])",
        x="float32[32768]",
    )
    feeds = {"x:0": FEEDS["x:0"]}
    with HotSession(graph) as session:
        session.run([], feeds, targets=["start"])
        for _ in range(4):
            session.run("total:0", feeds, targets=["add"])
        variable = variable_of(session, "v")
        assert variable.value[0] == 5
        tiers = [one.tier for cluster in session.clusters for one in cluster.signatures]
        assert "compiled" in tiers
        session.run([], {"x:0": np.full(SIZE, np.nan, np.float32)}, targets=["start"])
        assert session.error("total:0", feeds, targets=["add"]).node == "good"


def test_concurrent_donation_does_not_deadlock_or_lose_updates_s11():
    graph = graph_def(
        *TWO,
        "one = Const(dtype=float32, value='float32[32768] fill 1')",
        "old_w = ReadVariableOp(w, dtype=float32)",
        "old_v = ReadVariableOp(v, dtype=float32)",
        "more_v = Maximum(one, old_w)",
        "less_v = Minimum(one, more_v)",
        "add_v = AssignAddVariableOp(v, less_v)",
        "more_w = Maximum(one, old_v)",
        "less_w = Minimum(one, more_w)",
        "add_w = AssignAddVariableOp(w, less_w)",
        x="float32[32768]",
    )
    feeds = {"x:0": FEEDS["x:0"]}
    with HotSession(graph) as session:
        session.run([], feeds, targets=["start"])
        targets = ["add_v", "add_w"]
        for target in targets * 4:
            session.run([], feeds, targets=[target])
        failed = []

        def count(target):
            try:
                for _ in range(100):
                    session.session.run([], feeds, targets=[target])
            except OpError as error:  # told below, in the thread of the test
                failed.append(error)

        torn, done = [], threading.Event()

        def read():
            while not done.is_set():
                value = variable_of(session, "v").value
                torn.extend([1] if value.min() != value.max() else [])

        reader = threading.Thread(target=read)
        reader.start()
        threads = [threading.Thread(target=count, args=[t]) for t in targets * 2]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(TIMEOUT)
            assert not thread.is_alive()
        done.set()
        reader.join(TIMEOUT)
        assert not failed
        assert not torn
        for name in "vw":
            assert (variable_of(session, name).value == 205).all()


@pytest.mark.usefixtures("no_cache_of_jax")
def test_a_program_from_the_cache_writes_in_place_too(tmp_path, monkeypatch):
    monkeypatch.setenv("GRAPHMILL_JIT_CACHE_DIR", str(tmp_path / "cache"))
    for _ in range(2):
        with HotSession(STEP) as session:
            session.run([], FEEDS, targets=["start"])
            for count in range(2, 7):
                assert session.run("total:0", FEEDS) == count * SIZE
            variable = variable_of(session, "v")
            before = address(variable)
            session.run("total:0", FEEDS)
            assert address(variable) == before
            outcomes = {
                compile_.outcome
                for cluster in session.clusters
                for one in cluster.signatures
                for compile_ in one.compiles
            }
    assert "loaded" in outcomes


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_unfinished_donation_restores_old_values(dtype):
    variable = Variable(dtypes.as_dtype(dtype), (4,), "v")
    arrays = [jax.jit(lambda x: x + 1)(np.zeros(4, dtype))]
    before = ref(arrays[0])
    variable.value = np.asarray(arrays[0])
    remember_array(variable, variable.value, arrays[0])
    with variable.lock:
        donated_values = DonatedValues(memory_of(None), [variable], arrays, [0])
        assert type(variable) is not Variable
        donated_values.end()
    assert type(variable) is Variable
    assert variable.value.astype(np.float32).tolist() == [1] * 4
    assert array_behind(variable, variable.value) is before()
