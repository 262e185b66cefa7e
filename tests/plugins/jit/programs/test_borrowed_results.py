"""Large results of compiled steps belong to the caller without a copy (S9, decision 0008)."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from tests.plugins.jit.small_graphs import HotSession, graph_def

from graphmill.memory import TransferredMemory

pytestmark = pytest.mark.jax

pytest.importorskip("jax")

SIZE = 1 << 15
X = np.arange(SIZE, dtype=np.float32)
GRAPH = graph_def(
    "k = Const(dtype=float32, value='float32[32768] fill 3')",
    "v = VarHandleOp(dtype=float32, shape=[32768], shared_name='v')",
    "start = AssignVariableOp(v, x)",
    "read = ReadVariableOp(v, dtype=float32)",
    "constant = Neg(k)",
    "same = Identity(x)",
    "sum = AddV2(x, k)",
    "twice = AddV2(sum, sum)",
    "again = Identity(twice)",
    "shape = Const(dtype=int32, value='int32: [128, 256]')",
    "view = Reshape(read, shape)",
    "whole = AddV2(read, x)",
    "small = Const(dtype=int32, value='int32: 0')",
    "total = Sum(whole, small)",
    "table = HashTableV2(key_dtype=float32, value_dtype=float32, shared_name='t')",
    "size = LookupTableSizeV2(table, after=[twice])",
    x="float32[32768]",
)
_AFTER_JAX = """
import jax

jax.devices("cpu")  # from now on JAX computes in another thread

import numpy as np
from tests.plugins.jit.small_graphs import HotSession, graph_def

NODES = "square = MatMul(x, x)", "fourth = MatMul(square, square)"
GRAPH = graph_def(*NODES, x="float32[1024, 1024]")
ones = np.ones((1024, 1024), np.float32)
with HotSession(GRAPH) as session:
    for _ in range(8):
        result = session.run("fourth:0", {"x:0": ones})
        assert result.min() == result.max() == 1024.0**3, result
    assert "compiled" in [one.tier for c in session.clusters for one in c.signatures]
print(type(result.base).__name__)
"""
FETCHES = [f"{name}:0" for name in ("constant", "same", "twice", "again", "read", "view", "total")]


@pytest.fixture
def session():
    with HotSession(GRAPH) as made:
        made.run([], {"x:0": X}, targets=["start"])
        for _ in range(4):
            made.run(FETCHES, {"x:0": X})
        assert "compiled" in [one.tier for c in made.clusters for one in c.signatures]
        yield made


def test_program_results_are_not_copied(session):
    result = session.run("twice:0", {"x:0": X})
    for _ in range(4):
        result = session.run("twice:0", {"x:0": X})
    assert type(result.base) is TransferredMemory
    assert result.flags.writeable
    assert np.array_equal(result, 2 * (X + 3))


def test_writing_into_results_changes_nothing_else(session):
    feed = X.copy()
    expected = session.run(FETCHES, {"x:0": feed})
    kept = [np.array(one) for one in expected]
    for _ in range(5):
        results = session.run(FETCHES, {"x:0": feed})
        for result, one in zip(results, kept, strict=True):
            assert np.array_equal(result, one)
        for number, result in enumerate(results[:-1]):
            result += number + 1
        for number, (result, one) in enumerate(zip(results[:-1], kept, strict=False)):
            assert np.array_equal(result, one + (number + 1))
        assert np.array_equal(feed, X)


def test_results_are_computed_if_the_application_used_jax_first():
    command = [sys.executable, "-c", _AFTER_JAX]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "TransferredMemory\n"), done.stderr


def test_a_result_outlives_its_session():
    with HotSession(GRAPH) as session:
        session.run([], {"x:0": X}, targets=["start"])
        results = [session.run("twice:0", {"x:0": X}) for _ in range(5)]
        part = results[-1][5:10]
    del results
    assert part.tolist() == (2 * (X[5:10] + 3)).tolist()


def test_materialized_scalar_is_not_a_borrowed_result():
    graph = graph_def("ones = OnesLike(x)", "y = AddV2(x, ones)", x="float32")
    with HotSession(graph) as session:
        for _ in range(5):
            assert session.run(["ones:0", "y:0"], {"x:0": np.float32(2)}) == [1, 3]
        assert "compiled" in [one.tier for c in session.clusters for one in c.signatures]
