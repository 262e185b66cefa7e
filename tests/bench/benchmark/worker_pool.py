"""Long-lived workers for many cases, one process for each system."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from typing import TYPE_CHECKING, Any

from benchmark.rounds import WORKER, job_of, parse, worker_environment

if TYPE_CHECKING:
    from pathlib import Path

    from benchmark.rounds import Plan


class WorkerPool:
    """Runs jobs in one long-lived process for each system; a process that fails is replaced.

    A population of graphs is measured in a tenth of the time that a process for each case takes,
    because TensorFlow is imported once. Only the warm phase can be measured.
    """

    def __init__(self) -> None:
        self._processes: dict[str, subprocess.Popen[str]] = {}

    def launch(self, system: str, folder: Path, phase: str, plan: Plan) -> dict[str, Any]:
        """Run one job; a failure becomes the `problem` of the result."""
        process = self._processes.get(system)
        if process is None or process.poll() is not None:
            if process is not None:
                process.communicate()  # closes its pipes
            process = self._processes[system] = _start(plan.pythons[system], system)
        assert process.stdin is not None
        assert process.stdout is not None
        watchdog = threading.Timer(plan.timeout, process.kill)
        watchdog.start()
        started = time.monotonic()
        try:
            process.stdin.write(json.dumps(job_of(system, folder, phase, plan)) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            watchdog.cancel()
        if line:
            return parse(line, "", 0)
        if time.monotonic() - started >= plan.timeout:
            return {"problem": f"no result within {plan.timeout:.0f} s"}
        return parse("", "", process.wait())

    def close(self) -> None:
        """End the processes."""
        for process in self._processes.values():
            process.kill()
            process.communicate()


def _start(python: str, system: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [python, str(WORKER), system],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=worker_environment(),
    )
