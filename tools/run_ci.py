"""Run the commands of the README on every supported Python that this machine has.

    python tools/run_ci.py                      what `.ci/run` does
    python tools/run_ci.py --dry-run            say what would run
    python tools/run_ci.py --python 3.12 --command test --dependencies newest
    python tools/run_ci.py --compiled FOLDER    keep what JAX compiles for the next time
    python tools/run_ci.py --undivided          every run takes all tests

Each command runs with the newest dependencies that pip gives each Python, and on the lowest one
with the oldest dependencies that are declared to work. Every run has a copy of the work tree, a
HOME and an environment of its own (`run_readme.py`); they share pip's downloads, and the tests what
JAX compiles. Tests marked `divided`, which take half of the time and depend little on Python and on
the versions of dependencies, are divided among the runs of the test command: together they run each
once (tests/shares.py). As many run at once as there are cores, the longest first. The output of a
run is kept in a log, which is printed when the run ends. A table of all runs follows, and on the
last line the sum of their tests.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from pythons import MINORS, Python, find_pythons
from run_readme import ROOT, commands_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

OLDEST = ROOT / "tools" / "oldest-dependencies.txt"
OLDEST_MINORS = (11,)
"""The minor versions of Python 3 for which all of the oldest dependencies have wheels."""
COMPILED = "compiled"
"""The name of the folder beside the logs, while they are written, for what JAX compiles."""
LIMIT_SECONDS = 50 * 60
_WAIT_SECONDS = 1.0
_MINUTES = {"test": 10, "run": 1}  # about, to start the longest first
_CLOSING = re.compile(r"(?:=+ )?(?P<counts>\d+ \w+(?:, \d+ \w+)*) in \d[\d.]*s\b.*")
_COUNT = re.compile(r"(\d+) (\w+)")


@dataclass(frozen=True)
class Run:
    """A command of the README, a Python, and which dependencies pip installs for it."""

    python: Python
    dependencies: str
    command: str
    share: str = "1/1"

    def __str__(self) -> str:
        share = "" if self.share == "1/1" else f", share {self.share}"
        return f"Python {self.python}, {self.dependencies} dependencies{share}: {self.command}"

    @property
    def log_name(self) -> str:
        """The name of the file for its output."""
        return f"{self.python}-{self.dependencies}-{self.command}.log"

    @property
    def arguments(self) -> list[str]:
        """The command line that runs it."""
        tool = str(ROOT / "tools" / "run_readme.py")
        arguments = [sys.executable, tool, self.command, "--python", str(self.python.executable)]
        if self.dependencies == "oldest":
            arguments += ["--constraints", str(OLDEST)]
        if self.share != "1/1":
            arguments += ["--share", self.share]
        return arguments


@dataclass(frozen=True)
class Outcome:
    """How a run ended, and how many tests it ran."""

    run: Run
    code: int
    seconds: float
    passed: int
    failed: int


def plan(pythons: Sequence[Python], commands: Iterable[str]) -> list[Run]:
    """Return all runs, the longest first; those that find the programs of another one come last."""
    names = list(commands)
    runs = [Run(python, "newest", name) for python in pythons[:2] for name in names]
    if pythons and pythons[0].minor in OLDEST_MINORS:
        runs += [Run(pythons[0], "oldest", name) for name in names]
    # The newest JAX needs a newer Python than the lowest one; the others get that of the second.
    runs += [Run(python, "newest", name) for python in pythons[2:] for name in names]
    return sorted(runs, key=lambda run: -_MINUTES.get(run.command, 1))


def divide(runs: Iterable[Run]) -> list[Run]:
    """Return the runs, those of tests each with its share of the tests that are divided."""
    divided = list(runs)
    places = [place for place, run in enumerate(divided) if run.command == "test"]
    for number, place in enumerate(places, 1):
        divided[place] = replace(divided[place], share=f"{number}/{len(places)}")
    return divided


def tests_of(output: str, code: int) -> tuple[int, int]:
    """Return how many tests passed and failed, as pytest's last closing line in an output says.

    A run without such a line counts as one test; one that failed has at least one that failed.
    """
    closings = [found for line in output.splitlines() if (found := _CLOSING.fullmatch(line))]
    if not closings:
        return int(code == 0), int(code != 0)
    counts = {what: int(count) for count, what in _COUNT.findall(closings[-1]["counts"])}
    failed = sum(counts.get(what, 0) for what in ("failed", "error", "errors"))
    return counts.get("passed", 0), max(failed, int(code != 0))


class Running:
    """The processes that run now, to be ended with this one. Threads may share it."""

    def __init__(self) -> None:
        self._processes: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._is_over = False

    def start(self, arguments: Sequence[str], output: TextIO) -> subprocess.Popen[bytes]:
        """Start a process in a group of its own, whose output goes to a file."""
        with self._lock:
            if self._is_over:
                raise RuntimeError("no run starts while all are stopped")
            process = subprocess.Popen(
                arguments, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                start_new_session=True,
            )  # fmt: skip
            self._processes.add(process)
        return process

    def end(self, process: subprocess.Popen[bytes]) -> None:
        """End a process and its descendants, unless it has ended."""
        with self._lock:
            self._processes.discard(process)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def end_all(self) -> None:
        """End all processes; no other starts."""
        with self._lock:
            self._is_over = True
            left = list(self._processes)
        for process in left:
            self.end(process)


def execute(
    run: Run,
    logs: Path,
    running: Running,
    limit: float = LIMIT_SECONDS,
    compiled: Path | None = None,
) -> Outcome:
    """Run one of them into its log; end it and all that it started after `limit` seconds.

    Tests find what JAX compiled, and leave it, in `compiled`; by default in a folder of the logs.
    """
    print(f"started: {run}", flush=True)
    log = logs / run.log_name
    begun = time.monotonic()
    with log.open("w", encoding="utf-8") as file:
        process = running.start([*run.arguments, *_shared(run, compiled or logs / COMPILED)], file)
        try:
            code = process.wait(limit)
        except subprocess.TimeoutExpired:
            file.write(f"\nstopped: no end after {limit:g} s\n")
            code = 124
        finally:
            running.end(process)
    seconds = time.monotonic() - begun
    output = log.read_text(encoding="utf-8", errors="replace")
    return Outcome(run, code, seconds, *tests_of(output, code))


def _shared(run: Run, compiled: Path) -> list[str]:
    """Return the options for what a run shares with others; the README's answer needs nothing."""
    return ["--compiled", str(compiled)] if run.command == "test" else []


def table(outcomes: Sequence[Outcome]) -> str:
    """Return a line for each run: what it was, how it ended, how long it took."""
    rows = [("python", "dependencies", "command", "result", "seconds", "tests")]
    for one in outcomes:
        result = "passed" if one.code == 0 else "failed"
        tests = f"{one.passed} passed, {one.failed} failed"
        run = one.run
        seconds = f"{one.seconds:.0f}"
        rows.append((str(run.python), run.dependencies, run.command, result, seconds, tests))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def execute_all(
    runs: Sequence[Run], logs: Path, at_once: int, compiled: Path | None = None
) -> list[Outcome]:
    """Execute runs, `at_once` at a time, and print the log of each when it ends."""
    outcomes: dict[Run, Outcome] = {}
    running = Running()
    with ThreadPoolExecutor(at_once) as pool:
        try:  # a run that was submitted may have begun before the next line is reached
            pending = [pool.submit(execute, run, logs, running, compiled=compiled) for run in runs]
            for outcome in _as_completed(pending):
                outcomes[outcome.run] = outcome
                text = (logs / outcome.run.log_name).read_text(encoding="utf-8", errors="replace")
                print(f"\n===== {outcome.run}\n{text.rstrip()}\n", flush=True)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            running.end_all()
            raise
    return [outcomes[run] for run in runs]


def _as_completed(pending: Iterable[Future[Outcome]]) -> Iterator[Outcome]:
    """Give outcomes as they come, and handle signals meanwhile.

    A signal that arrives just before this thread blocks does not wake it, so that no wait is long.
    """
    left = set(pending)
    while left:
        done, left = wait(left, timeout=_WAIT_SECONDS, return_when=FIRST_COMPLETED)
        yield from (future.result() for future in done)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line asks for; return 1 if anything failed."""
    commands = commands_of((ROOT / "README.md").read_text(encoding="utf-8"))
    options = _parser(sorted(commands)).parse_args(arguments)
    minors = [int(name.partition(".")[2]) for name in options.python] or MINORS
    runs = [
        run
        for run in plan(find_pythons(minors=minors), options.command or commands)
        if run.dependencies in (options.dependencies or run.dependencies)
    ]
    if not options.undivided:
        runs = divide(runs)
    if not runs:
        print(f"found no Python 3.{MINORS[0]} to 3.{MINORS[-1]} to run on", file=sys.stderr)
        return 1
    for run in runs:
        print(f"{'would run' if options.dry_run else 'to run'}: {run} ({run.python.executable})")
    if not options.dependencies and all(run.dependencies != "oldest" for run in runs):
        print(f"not with the oldest dependencies: they need Python 3.{OLDEST_MINORS[0]}")
    if options.dry_run:
        return 0
    logs = Path(tempfile.mkdtemp(prefix="graphmill-ci-"))
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        outcomes = execute_all(runs, logs, options.at_once, options.compiled)
    finally:
        signal.signal(signal.SIGTERM, before)
        if (logs / COMPILED).is_dir():
            shutil.rmtree(logs / COMPILED)
    print(f"{table(outcomes)}\n\nlogs: {logs}")
    passed, failed = (sum(getattr(one, what) for one in outcomes) for what in ("passed", "failed"))
    print(f"{passed} passed, {failed} failed")
    return int(any(one.code for one in outcomes))


def _parser(commands: list[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    versions = [f"3.{minor}" for minor in MINORS]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    parser.add_argument("--dry-run", action="store_true", help="say what would run")
    parser.add_argument("--python", action="append", choices=versions, default=[])
    parser.add_argument("--command", action="append", choices=commands)
    parser.add_argument("--dependencies", choices=["newest", "oldest"])
    parser.add_argument(
        "--compiled", type=Path, help="a folder to keep what JAX compiles (default: none stays)"
    )
    parser.add_argument("--undivided", action="store_true", help="every run takes all tests")
    parser.add_argument("--at-once", type=int, default=cores, help="runs (default: one a core)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
