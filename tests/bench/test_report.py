"""Reports of rounds and rows omit the times of wrong results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from benchmark.report import as_json, by_family, describe_machine, markdown, versions
from benchmark.rounds import Measured, Plan, in_turn, launch, parse, run_case, worker_environment
from benchmark.summary import OURS, THEIRS, means, summarize
from benchmark.worker import RESULT


def result(speed: float, **more: Any) -> dict[str, list[dict[str, Any]]]:
    """Return two rounds of a system, the second on a machine half as fast."""
    cold = [{"cold_s": speed * n, "memory_mb": 100 * speed, "error": 0.1} for n in (1, 2)]
    warm = [
        {
            "first_s": speed * n,
            "median_s": speed * n,
            "p95_s": speed * n,
            "error": 0.2,
            "late_problem": "",
            "versions": "v 1",
            "tier": "interpreter",
            **more,
        }
        for n in (1, 2)
    ]
    return {"cold": cold, "warm": warm}


def measured(**ours: Any) -> Measured:
    return Measured("c", {THEIRS: result(3.0), OURS: result(1.0, **ours)})


def test_a_row_has_medians_and_ratios() -> None:
    row = summarize(measured())
    assert row.figures[OURS]["median_s"] == 1.5
    assert row.ratios == dict.fromkeys(row.figures[OURS], 3.0)
    assert (row.error, row.tier, row.problem) == (0.2, "interpreter", "")


def test_a_wrong_result_gets_no_time() -> None:
    row = summarize(measured(problem="y:0: largest error 3"))
    assert OURS not in row.figures
    assert row.ratios == {}
    assert "wrong" in markdown([row])
    assert "largest error 3" in markdown([row])


def test_wrong_result_after_settling_is_not_timed() -> None:
    assert summarize(measured(late_problem="y:0: differs")).problem


def test_a_graph_with_state_may_differ_once_settled() -> None:
    both = Measured(
        "c",
        {
            THEIRS: result(3.0, late_problem="y:0: differs"),
            OURS: result(1.0, late_problem="y:0: differs"),
        },
    )
    assert summarize(both).ratios["median_s"] == 3


def test_ours_alone_has_figures_without_ratios() -> None:
    row = summarize(Measured("c", {OURS: result(1.0)}))
    assert row.figures[OURS]["cold_s"] == 1.5
    assert row.ratios == {}
    assert "geometric mean" not in markdown([row])


def test_the_table_ends_with_geometric_means() -> None:
    rows = [summarize(measured()), summarize(Measured("d", {OURS: result(1), THEIRS: result(27)}))]
    assert means(rows)["median_s"] == pytest.approx(9)
    lines = markdown(rows).splitlines()
    assert len(lines) == 5
    assert lines[-1].startswith("| geometric mean |")
    assert len({line.count("|") for line in lines}) == 1


def test_each_family_has_its_distribution() -> None:
    slower = summarize(Measured("d", {OURS: result(4.0), THEIRS: result(1.0)}))
    alone = summarize(Measured("e", {OURS: result(1.0)}))
    no_family = summarize(Measured("f", {OURS: result(1.0), THEIRS: result(9.0)}))
    rows = [summarize(measured()), slower, alone, no_family]
    lines = by_family(rows, {"c": "strings", "d": "signal", "e": "signal"}).splitlines()
    assert lines[2:] == [
        "| signal | 1 | 0.25 | 1 | 1 | 1 | 1 |",
        "| strings | 1 | 3.00 | 0 | 0 | 0 | 0 |",
        "| all of these | 2 | 0.87 | 1 | 1 | 1 | 1 |",
    ]


def test_one_family_has_no_table_of_families() -> None:
    assert by_family([summarize(measured())], {"c": "strings"}) == ""


def test_everything_goes_into_the_json() -> None:
    item = measured()
    text = json.dumps(as_json([summarize(item)], [item], {"machine": describe_machine()}))
    assert json.loads(text)["rounds"]["c"][OURS]["warm"][1]["median_s"] == 2
    assert versions([item]) == ["v 1"]


def test_systems_alternate_which_runs_first() -> None:
    assert in_turn("ab", 0) == ["a", "b"]
    assert in_turn("ab", 1) == ["b", "a"]


def test_each_round_runs_each_system_and_phase() -> None:
    runs: list[tuple[str, str]] = []

    def record(system: str, folder: Path, phase: str, plan: Plan) -> dict[str, Any]:
        runs.append((system, phase))
        return {}

    run_case(Path("c"), Plan({"a": "", "b": ""}, rounds=2), record)
    untimed, rounds = runs[:2], runs[2:]
    assert untimed == [("a", "cold"), ("b", "cold")]
    assert rounds == [
        *(("a", "cold"), ("b", "cold"), ("a", "warm"), ("b", "warm")),
        *(("b", "cold"), ("a", "cold"), ("b", "warm"), ("a", "warm")),
    ]


def test_dead_worker_is_reported_with_its_output() -> None:
    assert parse("noise\n", "Traceback\nValueError: x\n", 1) == {
        "problem": "the process ended with status 1: ValueError: x"
    }
    assert parse(f"noise\n{RESULT}" + '{"a": 1}\nmore\n', "", 0) == {"a": 1}


def test_workers_may_keep_byte_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    assert "PYTHONDONTWRITEBYTECODE" not in worker_environment()


def test_worker_timeout_is_reported(tmp_path: Path) -> None:
    import sys

    plan = Plan({OURS: sys.executable}, timeout=0.001)
    assert "no result within" in launch(OURS, tmp_path, "cold", plan)["problem"]


def test_whole_case_runs_in_subprocesses(tmp_path: Path) -> None:
    import sys

    from benchmark.own_cases import write_own_cases

    write_own_cases(tmp_path)
    plan = Plan({OURS: sys.executable}, rounds=1, seconds=0.01, settle_seconds=0.01)
    row = summarize(run_case(tmp_path / "own_one_node", plan, launch))
    assert row.problem == ""
    assert 0 < row.figures[OURS]["median_s"] < row.figures[OURS]["cold_s"]
    assert row.figures[OURS]["memory_mb"] > 1
