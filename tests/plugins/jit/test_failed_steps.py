"""A failed step leaves equal errors and variables, compiled and interpreted (clauses E8, S12)."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from tests.plugins.jit.small_graphs import HotSession, graph_def

import graphmill
from graphmill.errors import OpError
from graphmill.session.session import Session
from graphmill.testing.differential.compiled_graphs import jit_config
from graphmill.testing.timeouts import TIMEOUT

pytestmark = pytest.mark.jax

pytest.importorskip("jax")

RESOURCE = (
    "v = VarHandleOp(dtype=float32, shape=[2], shared_name='v')",
    "start = AssignVariableOp(v, one)",
    "add = AssignAddVariableOp(v, x)",
    "now = ReadVariableOp(v, dtype=float32)",
    "gone = DestroyResourceOp(v, ignore_lookup_error=False)",
)
REF = (
    "v = VariableV2(dtype=float32, shape=[2], shared_name='v')",
    "start = Assign(v, one)",
    "add = AssignAdd(v, x)",
    "now = Identity(v)",
)
ONE = "one = Const(dtype=float32, value='float32[2] fill 1')"
FAILURES = {
    "a division": ("bad = FloorDiv(n, d, after=[add])",),
    "a place": ("k = Const(dtype=int32, value='int32: 0')", "bad = GatherV2(x, d, k, after=[add])"),
    "a check": ("ok = Greater(d, n)", "bad = Assert(ok, [n], after=[add])"),
    "a number": ("r = Log(x)", "bad = CheckNumerics(r, message='of a log', after=[add])"),
}
GOOD = {"x:0": np.ones(2, np.float32), "n:0": np.int32(0), "d:0": np.int32(1)}
BAD = {"x:0": -np.ones(2, np.float32), "n:0": np.int32(3), "d:0": np.int32(-2)}
ZERO = {**BAD, "d:0": np.int32(0)}


def outcome(session, fetches, feeds, targets=()):
    """Return values, or class, code, node, op and message of the error."""
    try:
        return [np.asarray(v).tolist() for v in session.run(fetches, feeds, targets=list(targets))]
    except OpError as error:
        return type(error).__name__, error.code, error.node, error.op_type, error.message


def outcomes(graph, steps):
    """Return the outcome of each step, interpreted and compiled."""
    both = []
    for mode in ("off", "eager"):
        with Session(graph=graph, config=jit_config(mode)) as session:
            both.append([outcome(session, *step) for step in steps])
    return both


@pytest.mark.parametrize("variable", [RESOURCE, REF], ids=["resource", "reference"])
@pytest.mark.parametrize("failure", FAILURES)
def test_failed_step_leaves_interpreter_state_s12(variable, failure):
    graph = graph_def(ONE, *variable, *FAILURES[failure], x="float32[2]", n="int32", d="int32")
    step = ([], ["bad"]) if failure == "a check" else (["bad:0"], [])
    steps = [([], GOOD, ["start"])]
    for feeds in (GOOD, BAD, ZERO, GOOD, ZERO):
        steps += [(step[0], feeds, step[1]), (["now:0"], GOOD)]
    interpreted, compiled = outcomes(graph, steps)
    assert compiled == interpreted
    assert any(isinstance(one, tuple) for one in interpreted)


@pytest.mark.parametrize("variable", [RESOURCE, REF], ids=["resource", "reference"])
def test_uninitialized_variable_is_reported_in_every_step_s12(variable):
    graph = graph_def(ONE, *variable, "y = Mul(now, x)", x="float32[2]")
    feeds = {"x:0": GOOD["x:0"]}
    steps = [*[(["y:0"], feeds)] * 3, ([], feeds, ["start"]), *[(["y:0"], feeds)] * 3]
    if variable is RESOURCE:
        steps += [([], feeds, ["gone"]), *[(["y:0"], feeds)] * 3]
    interpreted, compiled = outcomes(graph, steps)
    assert compiled == interpreted


def test_shape_mismatch_is_reported_in_every_step_s12():
    graph = graph_def("y = MatMul(x, w)", "z = Neg(y)", x="float32[2,3]", w="float32[3,2]")
    good, bad = ({"x:0": np.ones((2, 3)), "w:0": np.ones((n, 2))} for n in (3, 4))
    interpreted, compiled = outcomes(graph, [(["z:0"], one) for one in (good, bad, bad, good)])
    assert compiled == interpreted


def test_a_switch_takes_scalars_only_s12():
    nodes = ("s = Switch(x, c)", "a = Identity(s[0])", "b = Neg(s[1])", "m = Merge([a, b])")
    graph = graph_def(*nodes, x="float32[2]", c="bool")
    feeds = [{"x:0": GOOD["x:0"], "c:0": np.array(one)} for one in (True, [True], [True, False])]
    interpreted, compiled = outcomes(graph, [(["m:0"], one) for one in feeds])
    assert interpreted[0] == compiled[0]
    for one in (*interpreted[1:], *compiled[1:]):
        assert one[0] == "InvalidArgumentError"
        assert "must be a scalar" in one[4]


def test_no_step_waits_for_a_compilation(monkeypatch):
    from graphmill_plugins.jit.programs import compiler

    may_go_on, has_begun = threading.Event(), threading.Event()
    compile_program = compiler.compile_program

    def wait(*args):
        has_begun.set()
        assert may_go_on.wait(TIMEOUT)
        return compile_program(*args)

    monkeypatch.setattr(compiler, "compile_program", wait)
    graph = graph_def("a = Mul(x, x)", "y = AddV2(a, x)", x="float32[2]")
    config = jit_config("tiered")
    config.graphmill.jit_after_steps = 1
    try:
        with Session(graph=graph, config=config) as session:
            feeds = {"x:0": GOOD["x:0"]}
            while not has_begun.wait(0):
                session.run("y:0", feeds)
            for _ in range(50):  # the compiler stands still
                assert session.run("y:0", feeds).tolist() == [2, 2]
            may_go_on.set()
    finally:
        may_go_on.set()
    assert graphmill.default_host().background.wait_idle(TIMEOUT)


def test_a_storm_of_shapes_is_right_and_ends_s12():
    with HotSession(graph_def("a = Mul(x, x)", "y = AddV2(a, x)", x="float32[2]")) as session:
        for size in range(1, 200):
            assert session.run("y:0", {"x:0": np.ones(size, np.float32)}).tolist() == [2] * size
        (cluster,) = session.clusters
        assert sum(len(one.compiles) for one in cluster.signatures) == 16
        reasons = [one.reason for one in cluster.signatures if one.reason]
        (reason,) = reasons
        assert reason.startswith("there are already 16 compiled signatures: ")
