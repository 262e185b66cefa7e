"""Run all fuzz targets for a while, and report the number of their inputs and their findings.

    python tools/fuzz_nightly.py            an hour for each target, as many at a time as cores
    python tools/fuzz_nightly.py --seconds 600 --only graph_def --only image
    python tools/fuzz_nightly.py --inputs 1000000       until each target had a million inputs

A target runs in batches, each in a process of its own with lowest priority, so that a crash or a
hang is a finding, too: guided by coverage where atheris is installed, else with new seeds for the
mutator of `tests/fuzz/harness.py`. Findings are written to `tests/fuzz/corpus/NAME`. It exits with
1 if there is one.

The counts of all runs are kept in `build/fuzz/counts.json`, so that several nights reach a number
of inputs that is too large for one. A target that has had as many as `--inputs` names is not run
again; `--counts` names another file, for a new count after a change of the code.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from _checkout import ROOT

_FOLDER = ROOT / "tests" / "fuzz"
_COUNTS = ROOT / "build" / "fuzz" / "counts.json"
_BATCH = 20_000
_BATCH_SECONDS = 1_800
"""Seconds after which a batch counts as hanging."""
_MAX_BROKEN = 20
"""How many batches of a target may crash or hang in a run."""
_SUMMARY = re.compile(r"^\w+: (\d+) inputs, (\d+) findings$", re.MULTILINE)


@dataclass
class Report:
    """The results of the runs of one target."""

    name: str
    inputs: int = 0
    findings: list[str] = field(default_factory=list)


class Counts:
    """The numbers of inputs and findings of each target in all runs, kept in a file.

    Args:
        path: the file, a JSON object by target; it is made if there is none.

    Threads: `_lock` guards the numbers and the file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = Lock()
        stored = json.loads(path.read_text("utf-8")) if path.exists() else {}
        self._numbers: dict[str, dict[str, int]] = stored

    def of(self, name: str) -> dict[str, int]:
        """Return the numbers of a target: `inputs`, `findings` and the `batches` that made them."""
        return {"inputs": 0, "findings": 0, "batches": 0, **self._numbers.get(name, {})}

    def add(self, name: str, inputs: int, findings: int) -> None:
        """Add the numbers of a batch, and write the file: a night may end at any time."""
        with self._lock:
            old = self.of(name)
            self._numbers[name] = {
                "inputs": old["inputs"] + inputs,
                "findings": old["findings"] + findings,
                "batches": old["batches"] + 1,
            }
            self._path.parent.mkdir(parents=True, exist_ok=True)
            new = self._path.with_name(f"{self._path.name}.new")
            new.write_text(json.dumps(self._numbers, indent=2, sort_keys=True) + "\n", "utf-8")
            new.replace(self._path)


def targets() -> list[str]:
    """Return the names of all targets."""
    return sorted(path.stem.removeprefix("fuzz_") for path in _FOLDER.glob("fuzz_*.py"))


def run_target(
    name: str, seconds: float, first_seed: int, counts: Counts, inputs: float = math.inf
) -> Report:
    """Run batches of a target until the time is over, or it has had enough inputs in all runs.

    Each batch has its number in all runs added to the seed, so that none is repeated. A target
    that does not start would go on for ever without a limit of time, so batches that end without
    a count are limited.
    """
    report = Report(name)
    end = time.monotonic() + seconds
    broken = 0
    while time.monotonic() < end and counts.of(name)["inputs"] < inputs and broken < _MAX_BROKEN:
        seed = first_seed + counts.of(name)["batches"]
        before = report.inputs, len(report.findings)
        add_batch(report, *run_batch(name, seed, end - time.monotonic()), seed)
        counts.add(name, report.inputs - before[0], len(report.findings) - before[1])
        broken += report.inputs == before[0]
    return report


def run_batch(name: str, seed: int, seconds: float) -> tuple[int, str]:
    """Run one batch; return the exit status of its process, and its output."""
    script = _FOLDER / f"fuzz_{name}.py"
    command = [sys.executable, str(script), *batch_options(seed, seconds)]
    folders = [str(ROOT / "core"), str(ROOT / "plugins"), os.environ.get("PYTHONPATH", "")]
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, folders))}
    nice = ["nice", "-n", "19"] if os.name == "posix" else []
    try:
        done = subprocess.run(
            [*nice, *command],
            check=False,
            capture_output=True,
            encoding="utf-8",
            errors="replace",  # a message may contain bytes of an input
            env=variables,
            timeout=_BATCH_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return 0, f"{name}: hangs\n"
    return done.returncode, done.stdout + done.stderr[-2_000:]


def batch_options(seed: int, seconds: float) -> list[str]:
    """Return the options of a batch; with atheris, which starts from its earlier findings."""
    if importlib.util.find_spec("atheris") is None:
        return ["--runs", str(_BATCH), "--seed", str(seed)]
    limit = max(min(seconds, _BATCH_SECONDS / 2), 1.0)
    return ["--seconds", f"{limit:g}", f"-seed={seed}"]


def add_batch(report: Report, status: int, output: str, seed: int) -> None:
    """Add the output of a batch to the report of its target."""
    summary = _SUMMARY.search(output)
    if summary is None:
        report.findings.append(f"seed {seed}: exit status {status}: {output.strip()[-500:]}")
        return
    report.inputs += int(summary[1])
    lines = output[: summary.start()].splitlines()
    findings = [line for line in lines if line.startswith(f"{report.name}: ")]
    report.findings += [f"seed {seed}: {line}" for line in findings]


def main() -> int:
    """Run the targets and print the report."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, help="time for each target; 3600 by default")
    parser.add_argument(
        "--inputs", type=int, help="inputs of each target in all runs; no limit of time by default"
    )
    parser.add_argument("--counts", type=Path, default=_COUNTS, help="where the counts are kept")
    parser.add_argument("--only", action="append", choices=targets(), help="a target; repeatable")
    parser.add_argument("--seed", type=int, default=int(time.time()) // 86_400 * 1_000)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    names = options.only or targets()
    seconds = options.seconds
    if seconds is None:
        seconds = 3_600 if options.inputs is None else math.inf
    inputs = math.inf if options.inputs is None else options.inputs
    counts = Counts(options.counts)
    with ThreadPoolExecutor(options.jobs) as pool:
        reports = list(
            pool.map(lambda name: run_target(name, seconds, options.seed, counts, inputs), names)
        )
    for report in reports:
        print(f"{report.name}: {report.inputs} inputs, {len(report.findings)} findings")
        total = counts.of(report.name)
        print(f"    in all runs {total['inputs']} inputs, {total['findings']} findings")
        for finding in report.findings:
            print(f"    {finding}")
    return 1 if any(report.findings for report in reports) else 0


if __name__ == "__main__":
    sys.exit(main())
