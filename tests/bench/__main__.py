#!/usr/bin/env python3
"""Time graphmill against TensorFlow, case by case, alternating between the systems.

    python tests/bench                        # cases of our own
    python tests/bench MODELS other/case      # folders of cases (benchmark/case_folder.py)

TensorFlow may live in another environment: --tensorflow its/bin/python, or the variable
GRAPHMILL_BENCH_TENSORFLOW. Without it graphmill is timed alone. Exits with 1 if a result is wrong.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from benchmark.case_folder import case_folders
from benchmark.report import as_json, by_family, describe_machine, distribution, markdown, versions
from benchmark.rounds import PHASES, Plan, launch, run_case
from benchmark.steady import CLOCKS
from benchmark.summary import OURS, THEIRS, summarize
from benchmark.worker_pool import WorkerPool

TENSORFLOW_VARIABLE = "GRAPHMILL_BENCH_TENSORFLOW"
MODELS_VARIABLE = "GRAPHMILL_BENCH_MODELS"


def main() -> int:
    options = parser().parse_args()
    plan = make_plan(options)
    with tempfile.TemporaryDirectory() as own:
        folders = chosen_folders(options, Path(own))
        if not folders:
            print("there is no such case", file=sys.stderr)
            return 1
        pool = WorkerPool()
        run = pool.launch if options.keep_processes else launch
        rows, measured = [], []
        try:
            for folder in folders:
                measured.append(run_case(folder, plan, run))
                rows.append(summarize(measured[-1]))
                print(markdown(rows[-1:]).splitlines()[2], file=sys.stderr, flush=True)
        finally:
            pool.close()
    about = {
        "machine": describe_machine(),
        "versions": versions(measured),
        "rounds": plan.rounds,
        "config": plan.config,
    }
    print(f"{about['machine']}; {'; '.join(about['versions'])}; {plan.rounds} rounds\n")
    print(markdown(rows))
    print(distribution(rows))
    print(by_family(rows, {folder.name: family_of(folder) for folder in folders}))
    if options.json:
        options.json.write_text(json.dumps(as_json(rows, measured, about), indent=1) + "\n")
    return int(any(row.problem for row in rows))


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(
        prog="bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = result.add_argument
    add("models", nargs="*", type=Path, help="folders of cases, or cases")
    add("--only", help="names of cases, separated by commas")
    add("--systems", default=f"{THEIRS},{OURS}", help="which to run")
    add("--tensorflow", default=os.environ.get(TENSORFLOW_VARIABLE), help="a Python that has it")
    add("--rounds", type=int, default=3)
    add("--phases", default=",".join(PHASES), help="cold: cold start; warm: first run and steps")
    add("--keep-processes", action="store_true", help="one process for all cases; no cold phase")
    add("--seconds", type=float, default=1.0, help="for how long steps are timed")
    add(
        "--clock",
        choices=sorted(CLOCKS),
        default="wall",
        help="what steps are timed by; processor time is comparable on a busy machine, too",
    )
    add("--settle", type=float, default=2.0, help="for how long they may take to settle, at most")
    add("--timeout", type=float, default=600.0, help="for each process, in seconds")
    add("--config", type=json.loads, default={}, help="graphmill's ConfigProto, in JSON")
    add("--json", type=Path, help="write everything to this file")
    return result


def make_plan(options: argparse.Namespace) -> Plan:
    pythons = {}
    for system in options.systems.split(","):
        if system == OURS:
            pythons[system] = sys.executable
        elif options.tensorflow or importlib.util.find_spec("tensorflow"):
            pythons[system] = options.tensorflow or sys.executable
    return Plan(
        pythons=pythons,
        rounds=options.rounds,
        phases=("warm",) if options.keep_processes else tuple(options.phases.split(",")),
        seconds=options.seconds,
        settle_seconds=options.settle,
        clock=options.clock,
        timeout=options.timeout,
        config=options.config,
    )


def chosen_folders(options: argparse.Namespace, own: Path) -> list[Path]:
    roots = list(options.models)
    if not roots and os.environ.get(MODELS_VARIABLE):
        roots.append(Path(os.environ[MODELS_VARIABLE]))
    if not options.models:
        from benchmark.own_cases import write_own_cases

        write_own_cases(own)
        roots.insert(0, own)
    only = options.only.split(",") if options.only else None
    return [folder for folder in case_folders(roots) if only is None or folder.name in only]


def family_of(folder: Path) -> str:
    return str(json.loads((folder / "case.json").read_text("utf-8")).get("family", ""))


if __name__ == "__main__":
    raise SystemExit(main())
