"""Run cases in processes of their own, the systems taking turns."""

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
_WORKER = Path(__file__).with_name("worker.py")


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run: the interpreters of the systems by name, and how."""

    pythons: dict[str, str]
    rounds: int = 3
    phases: tuple[str, ...] = PHASES
    seconds: float = 1.0
    settle_seconds: float = 2.0
    timeout: float = 600.0
    config: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Measured:
    """What the rounds of one case gave: a list for each system and phase, one entry a round."""

    case: str
    results: dict[str, dict[str, list[dict[str, Any]]]]

    def of(self, system: str, phase: str) -> list[dict[str, Any]]:
        return self.results.get(system, {}).get(phase, [])


def run_case(folder: Path, plan: Plan, launch: Callable[..., dict[str, Any]]) -> Measured:
    """Run a case in all rounds and phases; who is first alternates.

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
    """Run one worker; what goes wrong in it is the result's `problem`."""
    job = {
        "system": system,
        "folder": str(folder),
        "phase": phase,
        "config": plan.config if system == "graphmill" else {},
        "seconds": plan.seconds,
        "settle_seconds": plan.settle_seconds,
        "started_ns": time.monotonic_ns(),
    }
    try:
        done = subprocess.run(
            [plan.pythons[system], str(_WORKER), json.dumps(job)],
            capture_output=True,
            text=True,
            timeout=plan.timeout,
            env=worker_environment(),
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"problem": f"no result within {plan.timeout:.0f} s"}
    return parse(done.stdout, done.stderr, done.returncode)


def worker_environment() -> dict[str, str]:
    """Return the environment of a worker: Python may keep its byte code, as where it is installed.

    A fixed seed for hashes takes one source of noise away.
    """
    kept = {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return kept | {"PYTHONHASHSEED": "0"}


def parse(output: str, errors: str, status: int) -> dict[str, Any]:
    """Return what a worker printed, or why it printed nothing."""
    for line in reversed(output.splitlines()):
        if line.startswith(RESULT):
            return dict(json.loads(line.removeprefix(RESULT)))
    last = errors.strip().splitlines()[-1:] or ["nothing on standard error"]
    return {"problem": f"the process ended with status {status}: {last[0][:300]}"}
