"""Run all fuzz targets for a while, and report the number of their inputs and their findings.

    python tools/fuzz_nightly.py            an hour for each target, as many at a time as cores
    python tools/fuzz_nightly.py --seconds 600 --only graph_def --only image

A target runs in batches, each in a process of its own with lowest priority, so that a crash or a
hang is a finding, too: guided by coverage where atheris is installed, else with new seeds for the
mutator of `tests/fuzz/harness.py`. Findings are written to `tests/fuzz/corpus/NAME`. It exits with
1 if there is one.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from _checkout import ROOT

_FOLDER = ROOT / "tests" / "fuzz"
_BATCH = 20_000
_BATCH_SECONDS = 1_800
"""Seconds after which a batch counts as hanging."""
_SUMMARY = re.compile(r"^\w+: (\d+) inputs, (\d+) findings$", re.MULTILINE)


@dataclass
class Report:
    """The results of the runs of one target."""

    name: str
    inputs: int = 0
    findings: list[str] = field(default_factory=list)


def targets() -> list[str]:
    """Return the names of all targets."""
    return sorted(path.stem.removeprefix("fuzz_") for path in _FOLDER.glob("fuzz_*.py"))


def run_target(name: str, seconds: float, first_seed: int) -> Report:
    """Run batches of a target until the time is over."""
    report = Report(name)
    end = time.monotonic() + seconds
    seed = first_seed
    while time.monotonic() < end:
        add_batch(report, *run_batch(name, seed, end - time.monotonic()), seed)
        seed += 1
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
            text=True,
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
    parser.add_argument("--seconds", type=float, default=3_600, help="time for each target")
    parser.add_argument("--only", action="append", choices=targets(), help="a target; repeatable")
    parser.add_argument("--seed", type=int, default=int(time.time()) // 86_400 * 1_000)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    names = options.only or targets()
    with ThreadPoolExecutor(options.jobs) as pool:
        reports = list(
            pool.map(lambda name: run_target(name, options.seconds, options.seed), names)
        )
    for report in reports:
        print(f"{report.name}: {report.inputs} inputs, {len(report.findings)} findings")
        for finding in report.findings:
            print(f"    {finding}")
    return 1 if any(report.findings for report in reports) else 0


if __name__ == "__main__":
    sys.exit(main())
