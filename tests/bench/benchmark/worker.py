#!/usr/bin/env python3
"""Run one case in one system, alone in this process; print the measurements as JSON.

The only argument is a job in JSON, or the name of a system, for jobs that follow as lines of
standard input. A job: `system`, `folder`, `phase` ("cold" or "warm"), `config`,
`started_ns` (the monotonic clock when the process was requested), `seconds`, `settle_seconds`,
`clock` (of the steps: "wall" or "processor").
Imports count towards the cold start, so there are few of them, inside functions.
"""

from __future__ import annotations

import importlib
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

RESULT = "benchmark result: "


def main() -> int:
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    if not sys.argv[1].startswith("{"):
        return serve()
    print(RESULT + json.dumps(run(json.loads(sys.argv[1]))), flush=True)
    return 0


def serve() -> int:
    """Run the jobs of standard input, one after the other."""
    out, sys.stdout = sys.stdout, sys.stderr  # what a graph prints is not a result
    for line in sys.stdin:
        try:
            measured = run(json.loads(line))
        except Exception as error:  # noqa: BLE001 - the next case may still be measured
            measured = {"problem": f"{type(error).__name__}: {str(error)[:300]}"}
        print(RESULT + json.dumps(measured), file=out, flush=True)
    return 0


def run(job: dict[str, Any]) -> dict[str, Any]:
    """Return the measurements of a job."""
    system = importlib.import_module(f"benchmark.{job['system']}_system")
    with tempfile.TemporaryDirectory() as scratch:
        return (cold if job["phase"] == "cold" else warm)(job, system, Path(scratch))


def cold(job: dict[str, Any], system: Any, scratch: Path) -> dict[str, Any]:
    """Measure time and memory from the start of the process to its first result."""
    from benchmark.case_folder import CaseFolder

    case = CaseFolder(Path(job["folder"]), scratch)
    runner = system.Runner(case, job["config"])
    results = runner.step(*case.feeds(0))
    seconds = (time.monotonic_ns() - job["started_ns"]) / 1e9
    memory = peak_memory()
    error, problem = case.check(results, 0)
    runner.close()
    return {"cold_s": seconds, "memory_mb": memory, "error": error, "problem": problem}


def warm(job: dict[str, Any], system: Any, scratch: Path) -> dict[str, Any]:
    """Measure the first run in a warm process, and the steady state."""
    from benchmark.case_folder import CaseFolder
    from benchmark.steady import measure

    system.warm_up()
    folder = Path(job["folder"])
    CaseFolder(folder, scratch).expected(0)  # the archive is in the file cache, for both systems
    start = time.perf_counter()
    case = CaseFolder(folder, scratch)
    runner = system.Runner(case, job["config"])
    results = runner.step(*case.feeds(0))
    first = time.perf_counter() - start
    checks = [case.check(results, 0)]
    checks += [case.check(runner.step(*case.feeds(step)), step) for step in range(1, case.steps)]
    error = max(error for error, _ in checks)
    problem = next((problem for _, problem in checks if problem), "")
    measured = {"first_s": first, "error": error, "problem": problem, "versions": system.versions()}
    if not problem:
        feeds = [case.feeds(batch) for batch in range(case.batches)]
        measured |= measure(runner.step, feeds, job["seconds"], job["settle_seconds"], job["clock"])
        measured |= late_check(case, runner.step)
        measured["tier"] = runner.tier()
    runner.close()
    return measured


def late_check(case: Any, step: Any) -> dict[str, Any]:
    """Compare again in the steady state, when another tier may serve.

    A graph with state rightly gives other results by then; where TensorFlow's still are the first
    ones, ours must be.
    """
    checks = [
        case.check(step(*case.feeds(number)), number)
        for number in range(min(case.steps, case.batches))
    ]
    return {
        "late_error": max(error for error, _ in checks),
        "late_problem": next((problem for _, problem in checks if problem), ""),
    }


def peak_memory() -> float:
    """Return the largest resident memory of this process so far, in MB."""
    status = Path("/proc/self/status")
    if status.exists():  # not getrusage: that counts what the parent was before it began this one
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 1024


if __name__ == "__main__":
    raise SystemExit(main())
