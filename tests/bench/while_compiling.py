"""Measure step times during background compilation.

    python tests/bench/while_compiling.py FOLDER [CASE ...]

FOLDER has cases as `tests/bench` takes them. For each case: the median of steps with nothing
compiled; how long compiling takes and how many steps run meanwhile; their median as a multiple of
the first figure; the longest of them as a multiple of it; and the median step afterwards. Times in
ms. On a busy machine, the figures mean nothing.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "core"), str(ROOT / "plugins"), str(Path(__file__).parent)]

from benchmark import graphmill_system  # noqa: E402
from benchmark.case_folder import CaseFolder  # noqa: E402

import graphmill  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

_INTERPRETED_SECONDS = 2.0
_QUIET_SECONDS = 2.0  # without anything to compile, after which there will be nothing more
_ROW = "{:24s} {:>11s} {:>9s} {:>6s} {:>7s} {:>8s} {:>9s}\n"


class Steps:
    """The steps of a case in a separate session, with a sequence of feeds."""

    def __init__(self, case: CaseFolder, config: dict[str, Any]) -> None:
        self._runner = graphmill_system.Runner(case, config)
        self._feeds = [case.feeds(number) for number in range(min(4, case.batches))]
        self._count = 0

    def seconds(self) -> float:
        """Run a step; return its time."""
        feeds = self._feeds[self._count % len(self._feeds)]
        self._count += 1
        began = time.perf_counter()
        self._runner.step(*feeds)
        return time.perf_counter() - began

    def close(self) -> None:
        self._runner.close()


def interpreted(case: CaseFolder) -> float:
    """Return the median step time without compilation, after a warm-up."""
    steps = Steps(case, {"graphmill": {"jit": "off"}})
    found, end = [], time.monotonic() + _INTERPRETED_SECONDS
    while time.monotonic() < end or len(found) < 20:
        found.append(steps.seconds())
    steps.close()
    return statistics.median(found[len(found) // 4 :])


def compiled(case: CaseFolder, is_idle: Callable[[], bool]) -> tuple[list[float], list[float]]:
    """Return the step times during compilation, and after the last one."""
    steps = Steps(case, {})
    during: list[float] = []
    after: list[float] = []
    end = time.monotonic() + _QUIET_SECONDS
    while time.monotonic() < end:
        was_idle = is_idle()
        took = steps.seconds()
        if was_idle:
            after.append(took)
        else:
            during.append(took)
            after.clear()
            end = time.monotonic() + _QUIET_SECONDS
    steps.close()
    return during, after


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("cases", nargs="*")
    arguments = parser.parse_args()
    names = arguments.cases or sorted(p.parent.name for p in arguments.folder.glob("*/case.json"))
    background = graphmill.default_host().background
    graphmill_system.warm_up()
    write = sys.stdout.write
    write(_ROW.format("", "interpreted", "compiling", "steps", "median", "longest", "compiled"))
    for name in names:
        with tempfile.TemporaryDirectory() as scratch:
            case = CaseFolder(arguments.folder / name, Path(scratch))
            before = interpreted(case)
            during, after = compiled(case, lambda: background.wait_idle(0))
        median, longest = statistics.median(during or [0.0]), max(during, default=0.0)
        write(
            _ROW.format(
                name,
                f"{before * 1e3:.3f}",
                f"{sum(during) * 1e3:.0f}",
                str(len(during)),
                f"{median / before:.2f}",
                f"{longest / before:.1f}",
                f"{statistics.median(after) * 1e3:.3f}",
            )
        )
        sys.stdout.flush()


if __name__ == "__main__":
    main()
