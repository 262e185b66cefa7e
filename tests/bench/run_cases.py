#!/usr/bin/env python3
"""Run models with known results and print which are right, and how long a step takes.

    python tests/bench/run_cases.py MODELS [--only identity,resnet50_b1] [--executor INLINE]

MODELS is a folder of case folders (see graphmill.testing.model_case). Exits with 1 if one is wrong.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from graphmill.testing.model_case import ModelCase, model_folders


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", type=Path)
    parser.add_argument("--only", help="names, separated by commas")
    parser.add_argument("--seconds", type=float, default=0.0, help="time steps for so long each")
    parser.add_argument("--executor", default="", help="executor_type of the sessions")
    options = parser.parse_args()
    only = options.only.split(",") if options.only else None
    print(f"{'case':24} {'':5} {'load s':>7} {'first s':>8} {'step ms':>9} {'error':>8}  remarks")
    folders = [path for path in model_folders(options.models) if only is None or path.name in only]
    return max([run(folder, options) for folder in folders], default=1)


def run(folder: Path, options: argparse.Namespace) -> int:
    with tempfile.TemporaryDirectory() as scratch:
        try:
            case = ModelCase(folder, Path(scratch))
            start = time.perf_counter()
            session = case.session(executor_type=options.executor)
            loaded = time.perf_counter()
            results = [case.run_step(session, 0)]
            first = time.perf_counter()
            results += [case.run_step(session, step) for step in range(1, case.steps)]
            step_ms = time_steps(case, session, options.seconds)
            session.close()
        except Exception as error:  # noqa: BLE001 - one broken case must not hide the others
            print(f"{folder.name:24} FAIL  {type(error).__name__}: {str(error)[:300]}")
            return 1
    problem = next((f"step {i}: {r.problem}" for i, r in enumerate(results) if r.problem), "")
    worst = max(result.worst for result in results)
    print(
        f"{folder.name:24} {'FAIL' if problem else 'ok':5} {loaded - start:7.3f} "
        f"{first - loaded:8.3f} {step_ms:9.3f} {worst:8.2g}  {problem}"
    )
    return int(bool(problem))


def time_steps(case: ModelCase, session, seconds: float) -> float:
    """Median time of a step in milliseconds."""
    names = list(case.feeds(0))
    call = session.make_callable(
        list(case.spec["fetches"]), names, targets=case.spec.get("targets") or ()
    )
    times = []
    end = time.perf_counter() + seconds
    step = case.steps
    while not times or time.perf_counter() < end:
        fed = case.feeds(step).values()
        start = time.perf_counter()
        call(*fed)
        times.append(time.perf_counter() - start)
        step += 1
    return sorted(times)[len(times) // 2] * 1e3


if __name__ == "__main__":
    raise SystemExit(main())
