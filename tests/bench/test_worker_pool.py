"""Long-lived workers: several jobs in one process, and the failure of a worker."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest
from benchmark.own_cases import write_own_cases
from benchmark.report import distribution
from benchmark.rounds import Plan
from benchmark.summary import OURS, THEIRS, Row
from benchmark.worker_pool import WorkerPool

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PLAN = Plan(pythons={OURS: sys.executable}, seconds=0.01, settle_seconds=0.01)


@pytest.fixture
def pool() -> Iterator[WorkerPool]:
    made = WorkerPool()
    yield made
    made.close()


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("cases")
    write_own_cases(root)
    return root


def test_one_process_runs_several_jobs(pool: WorkerPool, cases: Path) -> None:
    first = pool.launch(OURS, cases / "own_one_node", "warm", PLAN)
    process = pool._processes[OURS]
    second = pool.launch(OURS, cases / "own_chain", "warm", PLAN)
    assert not first["problem"]
    assert not second["problem"]
    assert second["median_s"] > 0
    assert pool._processes[OURS] is process


def test_a_case_that_fails_leaves_the_process_for_the_next_one(
    pool: WorkerPool, cases: Path
) -> None:
    failed = pool.launch(OURS, cases / "no such case", "warm", PLAN)
    assert failed["problem"].startswith("FileNotFoundError")
    assert not pool.launch(OURS, cases / "own_one_node", "warm", PLAN)["problem"]


def test_a_process_that_ended_is_replaced(pool: WorkerPool, cases: Path) -> None:
    pool.launch(OURS, cases / "own_one_node", "warm", PLAN)
    pool._processes[OURS].kill()
    pool._processes[OURS].wait()
    assert not pool.launch(OURS, cases / "own_one_node", "warm", PLAN)["problem"]


def test_a_job_that_takes_too_long_is_a_problem(pool: WorkerPool, cases: Path) -> None:
    short = Plan(pythons=PLAN.pythons, timeout=0.0)
    problem = pool.launch(OURS, cases / "own_one_node", "warm", short)["problem"]
    assert problem == "no result within 0 s"


def test_the_distribution_names_shares_and_the_lowest() -> None:
    rows = [Row(name, ratios={"median_s": r}) for name, r in (("a", 2.0), ("b", 0.8), ("c", 0.99))]
    text = distribution([*rows, Row("wrong", problem=f"{THEIRS}: no")])
    assert "3 graphs: 66.7% below 1.0, 33.3% below 0.95, 33.3% below 0.9, 0.0% below 0.7" in text
    assert text.strip().endswith("lowest: b 0.80, c 0.99, a 2.00")
    assert distribution([]) == ""
