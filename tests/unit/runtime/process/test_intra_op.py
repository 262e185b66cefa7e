"""The limit of threads that compute one kernel."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from graphmill.runtime.process import intra_op
from graphmill.runtime.process.blas_threads import SingleThreaded, _Threads

PROGRAM = """
import json, os, sys, warnings
import numpy as np
import graphmill
from graphmill.runtime.process.blas_threads import find_blas_threads

graph = graphmill.Graph()
with graph.as_default():
    x = graph.placeholder("float32", [4, 4], name="x")
    graphmill.ops.math.neg(graphmill.ops.math.mat_mul(x, x), name="y")
config = {"intra_op_parallelism_threads": int(sys.argv[1]), "graphmill": {"jit": "eager"}}
found = {}
with graphmill.Session(graph=graph, config=config) as session:
    session.run("y:0", {"x:0": np.ones((4, 4))})
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    graphmill.Session(graph=graph, config={"intra_op_parallelism_threads": 3}).close()
found["warnings"] = [str(entry.message) for entry in caught]
blas = find_blas_threads()
found["blas"] = None if blas is None else blas._threads.get()
found["variable"] = os.environ.get("NPROC")
threads = [open(f"/proc/self/task/{task}/comm").read() for task in os.listdir("/proc/self/task")]
found["xla"] = sum(name.startswith("tf_XLAEigen") for name in threads)
print(json.dumps(found))
"""


def outcome(limit: int, effects: str = "") -> Any:
    variables = {name: value for name, value in os.environ.items() if name != "NPROC"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(limit)],
        env={**variables, "GRAPHMILL_PROCESS_EFFECTS": effects},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


@pytest.mark.jax
@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="counts threads in /proc")
def test_blas_and_xla_start_no_more_threads_than_the_first_session_allows() -> None:
    found = outcome(1)
    assert found["xla"] == 1
    assert found["blas"] in (1, None)
    assert found["variable"] is None
    (warning,) = found["warnings"]
    assert "intra_op_parallelism_threads=3 has no effect" in warning


@pytest.mark.jax
@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="counts threads in /proc")
def test_the_effect_can_be_switched_off() -> None:
    found = outcome(1, "-intra_op_threads")
    assert not found["warnings"]
    assert found["xla"] == len(os.sched_getaffinity(0))


def test_a_limit_during_a_product_holds_after_it() -> None:
    numbers = [4]
    blas = SingleThreaded(_Threads(lambda: numbers[-1], numbers.append))
    with blas:
        assert numbers[-1] == 1
        blas.limit(2)
        assert numbers[-1] == 1
    assert numbers[-1] == 2
    blas.limit(3)
    assert numbers[-1] == 2


def test_a_variable_of_the_user_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = intra_op.IntraOpThreads()
    threads.limit = 2
    monkeypatch.setenv("NPROC", "5")
    with threads.of_xla():
        assert os.environ["NPROC"] == "5"
    monkeypatch.delenv("NPROC")
    with threads.of_xla():
        assert os.environ["NPROC"] == "2"
    assert "NPROC" not in os.environ
