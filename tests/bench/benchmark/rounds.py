"""Run cases in separate processes, alternating between the systems."""

from __future__ import annotations

import json
import os
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmark.worker import RESULT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

PHASES = ("cold", "warm")
WORKER = Path(__file__).with_name("worker.py")


@dataclass(frozen=True, slots=True)
class Plan:
    """The interpreters of the systems by name, and the parameters of the runs."""

    pythons: dict[str, str]
    rounds: int = 3
    phases: tuple[str, ...] = PHASES
    seconds: float = 1.0
    settle_seconds: float = 2.0
    clock: str = "wall"
    timeout: float = 600.0
    config: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Measured:
    """The results of one case: a list for each system and phase, one entry per round."""

    case: str
    results: dict[str, dict[str, list[dict[str, Any]]]]

    def of(self, system: str, phase: str) -> list[dict[str, Any]]:
        return self.results.get(system, {}).get(phase, [])


def run_case(folder: Path, plan: Plan, launch: Callable[..., dict[str, Any]]) -> Measured:
    """Run a case in all rounds and phases, alternating the first system.

    Each system runs it once before, untimed, so that byte code is compiled and files are cached.
    """
    results: dict[str, dict[str, list[dict[str, Any]]]] = {
        system: {phase: [] for phase in plan.phases} for system in plan.pythons
    }
    for system in plan.pythons if "cold" in plan.phases else ():
        launch(system, folder, "cold", plan)
    for number in range(plan.rounds):
        for phase in plan.phases:
            for system in in_turn(tuple(plan.pythons), number):
                results[system][phase].append(launch(system, folder, phase, plan))
    return Measured(folder.name, results)


def in_turn(systems: Sequence[str], number: int) -> list[str]:
    """Return the systems in the order of a round."""
    return list(systems) if number % 2 == 0 else list(reversed(systems))


def launch(system: str, folder: Path, phase: str, plan: Plan) -> dict[str, Any]:
    """Run one worker; a failure becomes the `problem` of the result."""
    job = job_of(system, folder, phase, plan)
    try:
        done = subprocess.run(
            [plan.pythons[system], str(WORKER), json.dumps(job)],
            capture_output=True,
            text=True,
            timeout=plan.timeout,
            env=worker_environment(),
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"problem": f"no result within {plan.timeout:.0f} s"}
    return parse(done.stdout, done.stderr, done.returncode)


def job_of(system: str, folder: Path, phase: str, plan: Plan) -> dict[str, Any]:
    """Return the job description for a worker."""
    return {
        "system": system,
        "folder": str(folder),
        "phase": phase,
        "config": plan.config if system == "graphmill" else {},
        "seconds": plan.seconds,
        "settle_seconds": plan.settle_seconds,
        "clock": plan.clock,
        "started_ns": time.monotonic_ns(),
    }


def worker_environment() -> dict[str, str]:
    """Return the environment of a worker, in which Python caches byte code.

    A fixed seed for hashes removes a source of noise.
    """
    variables = {
        name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
    }
    return variables | {"PYTHONHASHSEED": "0"}


def parse(output: str, errors: str, status: int) -> dict[str, Any]:
    """Parse the output of a worker; return a problem if there is none."""
    for line in reversed(output.splitlines()):
        if line.startswith(RESULT):
            return dict(json.loads(line.removeprefix(RESULT)))
    last = errors.strip().splitlines()[-1:] or ["nothing on standard error"]
    return {"problem": f"the process ended with status {status}: {last[0][:300]}"}
