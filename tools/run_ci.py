"""Run the commands of the README on every supported Python that this machine has.

    python tools/run_ci.py                      the same as `.ci/run`
    python tools/run_ci.py --dry-run            print what would run
    python tools/run_ci.py --python 3.12 --command test --dependencies newest
    python tools/run_ci.py --compiled FOLDER    keep JAX's compiled programs for the next time
    python tools/run_ci.py --command lite        try the installation without JAX
    python tools/run_ci.py --undivided          each run executes all tests

Each command runs on every Python with the newest dependencies that pip selects, and on the lowest
Python also with the oldest dependencies that are allowed. Every run has its own copy of the work
tree, HOME and environment (`run_readme.py`). The runs share pip's downloads, and the tests share
JAX's compiled programs. Tests marked `divided` take half of the time and depend little on the
versions of Python and of dependencies; they are divided among the runs of the test command, so that
each runs once in total (tests/shares.py). There are as many runs at a time as cores, the longest
first. The output of a run is written to a log, which is printed when the run ends. At the end the
tool prints a table of all runs, the ends of the logs of those that failed (for systems that keep
only the end of a long output), and on the last line the total number of tests. Without --command
it also checks the messages of new commits (`check_commits.py`).
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

import check_commits
from pythons import MINORS, Python, find_pythons
from run_readme import ROOT, commands_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

OLDEST = ROOT / "tools" / "oldest-dependencies.txt"
OLDEST_MINORS = (11,)
"""The minor versions of Python 3 that all of the oldest dependencies have wheels for."""
COMPILED = "compiled"
"""The name of the temporary folder for JAX's compiled programs, next to the logs."""
LITE = "lite"
"""The command of the run that tries graphmill-lite."""
OTHER_COMMANDS: tuple[str, ...] = (LITE,)
"""Commands that are not in the README."""
LIMIT_SECONDS = 50 * 60
_END_CHARACTERS = 6000
"""Number of characters of a failed run's log to repeat; the stacks of a crash are long."""
_WAIT_SECONDS = 1.0
_MINUTES = {"test": 10, "lite": 3, "run": 1}  # approximate, to start the longest first
_CLOSING = re.compile(r"(?:=+ )?(?P<counts>\d+ \w+(?:, \d+ \w+)*) in \d[\d.]*s\b.*")
_PROGRESS = re.compile(r"[.sxFEX]*(?: *\[ *\d+%\])?")
_COUNT = re.compile(r"(\d+) (\w+)")


@dataclass(frozen=True)
class Run:
    """A command of the README, a Python, and the kind of dependencies: newest or oldest."""

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
        if self.command == LITE:
            tool = str(ROOT / "tools" / "try_lite.py")
            return [sys.executable, tool, "--python", str(self.python.executable)]
        tool = str(ROOT / "tools" / "run_readme.py")
        arguments = [sys.executable, tool, self.command, "--python", str(self.python.executable)]
        if self.dependencies == "oldest":
            arguments += ["--constraints", str(OLDEST)]
        if self.share != "1/1":
            arguments += ["--share", self.share]
        return arguments


@dataclass(frozen=True)
class Outcome:
    """The exit code, time and number of tests of a run."""

    run: Run
    code: int
    seconds: float
    passed: int
    failed: int


def plan(pythons: Sequence[Python], commands: Sequence[str]) -> list[Run]:
    """Return all runs, the longest first; those that reuse others' programs come last."""
    names = [name for name in commands if name != LITE]
    runs = [Run(python, "newest", name) for python in pythons[:2] for name in names]
    if pythons and pythons[0].minor in OLDEST_MINORS:
        runs += [Run(pythons[0], "oldest", name) for name in names]
    # The Python with the fewest other runs tries the small installation (tools/try_lite.py).
    runs += [Run(python, "newest", LITE) for python in pythons[-1:] if LITE in commands]
    # The newest JAX needs a newer Python than the lowest one, so these share the second one's JAX.
    runs += [Run(python, "newest", name) for python in pythons[2:] for name in names]
    return sorted(runs, key=lambda run: -_MINUTES.get(run.command, 1))


def divide(runs: Iterable[Run]) -> list[Run]:
    """Return the runs; each run of the tests gets a share of the tests that are divided."""
    divided = list(runs)
    indices = [index for index, run in enumerate(divided) if run.command == "test"]
    for number, index in enumerate(indices, 1):
        divided[index] = replace(divided[index], share=f"{number}/{len(indices)}")
    return divided


def tests_of(output: str, code: int) -> tuple[int, int]:
    """Return the numbers of passed and failed tests, from pytest's last summary line in an output.

    A run without such a line counts as one test. A run that failed has at least one failed test.
    """
    closings = [closing for line in output.splitlines() if (closing := _CLOSING.fullmatch(line))]
    if not closings:
        return int(code == 0), int(code != 0)
    counts = {what: int(count) for count, what in _COUNT.findall(closings[-1]["counts"])}
    failed = sum(counts.get(what, 0) for what in ("failed", "error", "errors"))
    return counts.get("passed", 0), max(failed, int(code != 0))


class Running:
    """The running processes, which end with this process; thread-safe."""

    def __init__(self) -> None:
        self._processes: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._is_over = False

    def start(self, arguments: Sequence[str], output: TextIO) -> subprocess.Popen[bytes]:
        """Start a process in a process group of its own; its output goes to a file."""
        with self._lock:
            if self._is_over:
                raise RuntimeError("no run can start after all were stopped")
            process = subprocess.Popen(
                arguments, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                start_new_session=True,
            )  # fmt: skip
            self._processes.add(process)
        return process

    def end(self, process: subprocess.Popen[bytes]) -> None:
        """Kill a process and its descendants, unless it has ended."""
        with self._lock:
            self._processes.discard(process)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def end_all(self) -> None:
        """Kill all processes, and prevent new ones."""
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
    """Execute a run with its output in a log; kill it and its descendants after `limit` seconds.

    `compiled` is the folder of JAX's compiled programs; by default it is in the folder of the logs.
    """
    print(f"started: {run}", flush=True)
    log = logs / run.log_name
    begun = time.monotonic()
    with log.open("w", encoding="utf-8") as file:
        process = running.start([*run.arguments, *_shared(run, compiled or logs / COMPILED)], file)
        try:
            code = process.wait(limit)
        except subprocess.TimeoutExpired:
            file.write(f"\nstopped: the run did not end within {limit:g} s\n")
            code = 124
        finally:
            running.end(process)
    seconds = time.monotonic() - begun
    output = log.read_text(encoding="utf-8", errors="replace")
    return Outcome(run, code, seconds, *tests_of(output, code))


def _shared(run: Run, compiled: Path) -> list[str]:
    """Return the options for resources that a run shares with others; only tests have any."""
    return ["--compiled", str(compiled)] if run.command == "test" else []


def table(outcomes: Sequence[Outcome]) -> str:
    """Return a table with the result, time and number of tests of each run."""
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


def end_of(text: str) -> str:
    """Return the last lines of a log, without those that only show pytest's progress."""
    lines = [line for line in text.splitlines() if not _PROGRESS.fullmatch(line)]
    return "\n".join(lines)[-_END_CHARACTERS:].strip()


def execute_all(
    runs: Sequence[Run], logs: Path, at_once: int, compiled: Path | None = None
) -> list[Outcome]:
    """Execute runs, `at_once` at a time, and print the log of each when it ends."""
    outcomes: dict[Run, Outcome] = {}
    running = Running()
    with ThreadPoolExecutor(at_once) as pool:
        try:  # a submitted run may start before the next line
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
    """Yield outcomes as runs end, and handle signals meanwhile.

    A signal that arrives just before this thread blocks does not wake it, so each wait is short.
    """
    left = set(pending)
    while left:
        done, left = wait(left, timeout=_WAIT_SECONDS, return_when=FIRST_COMPLETED)
        yield from (future.result() for future in done)


def main(arguments: Sequence[str] | None = None) -> int:
    """Execute the runs that the command line selects; return 1 if anything failed."""
    commands = commands_of((ROOT / "README.md").read_text(encoding="utf-8"))
    options = _parser([*sorted(commands), LITE]).parse_args(arguments)
    minors = [int(name.partition(".")[2]) for name in options.python] or MINORS
    chosen = options.command or [*commands, *OTHER_COMMANDS]
    runs = [
        run
        for run in plan(find_pythons(minors=minors), chosen)
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
        print(f"without the oldest dependencies, which need Python 3.{OLDEST_MINORS[0]}")
    if options.dry_run:
        return 0
    has_faults = not options.command and check_commits.main([]) != 0
    logs = Path(tempfile.mkdtemp(prefix="graphmill-ci-"))
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        outcomes = execute_all(runs, logs, options.at_once, options.compiled)
    finally:
        signal.signal(signal.SIGTERM, before)
        if (logs / COMPILED).is_dir():
            shutil.rmtree(logs / COMPILED)
    print(f"{table(outcomes)}\n\nlogs: {logs}")
    for one in outcomes:
        if one.code:
            print(f"\n===== last lines of the failed {one.run} (exit code {one.code})")
            print(end_of((logs / one.run.log_name).read_text(encoding="utf-8", errors="replace")))
    passed, failed = (sum(getattr(one, what) for one in outcomes) for what in ("passed", "failed"))
    if has_faults:
        print("commit messages break the rules of CONTRIBUTING.md; they are listed at the top")
    print(f"{passed} passed, {failed} failed")
    return int(has_faults or any(one.code for one in outcomes))


def _parser(commands: list[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    versions = [f"3.{minor}" for minor in MINORS]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    parser.add_argument("--dry-run", action="store_true", help="print what would run")
    parser.add_argument("--python", action="append", choices=versions, default=[])
    parser.add_argument("--command", action="append", choices=commands)
    parser.add_argument("--dependencies", choices=["newest", "oldest"])
    parser.add_argument(
        "--compiled",
        type=Path,
        help="folder for JAX's compiled programs (default: a temporary one)",
    )
    parser.add_argument("--undivided", action="store_true", help="each run executes all tests")
    parser.add_argument(
        "--at-once",
        type=int,
        default=cores,
        help="number of concurrent runs (default: one per core)",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
