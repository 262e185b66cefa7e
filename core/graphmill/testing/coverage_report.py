"""Report which conformance suites, clauses of the semantics and ops a plugin passes."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any, Final

_OUTCOMES: Final = ("passed", "skipped", "failed")  # from the best to the worst
_MAX_LISTED: Final = 12


class CoverageReport:
    """Collects the results of the suites' tests.

    Attributes:
        suites: the number of tests by outcome, for each suite.
        clauses: the worst outcome of each clause of the semantics; passed and skipped tests
            count as passed.
        ops: the same for each op.
        reasons: the reason why an op was skipped.
    """

    def __init__(self) -> None:
        self.suites: dict[str, Counter[str]] = {}
        self.clauses: dict[str, str] = {}
        self.ops: dict[str, str] = {}
        self.reasons: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Record the outcome of a suite's test; a pytest hook."""
        properties = next((v for k, v in report.user_properties if k == "graphmill"), None)
        if properties is None or (report.when != "call" and report.outcome == "passed"):
            return
        outcome = report.outcome
        self.suites.setdefault(properties["suite"], Counter())[outcome] += 1
        for clause in properties["clauses"]:
            self.clauses[clause] = _worse(self.clauses.get(clause), outcome)
        if properties["op"]:
            self.ops[properties["op"]] = _worse(self.ops.get(properties["op"]), outcome)
            if outcome == "skipped" and isinstance(report.longrepr, tuple):
                self.reasons[properties["op"]] = report.longrepr[2].removeprefix("Skipped: ")

    def as_dict(self) -> dict[str, Any]:
        """Return the report as JSON data."""
        clauses = dict(sorted(self.clauses.items()))
        return {
            "suites": {name: dict(counts) for name, counts in sorted(self.suites.items())},
            "clauses": clauses,
            "rows": clauses,  # the old name, which the next version removes
            "ops": {outcome: self._ops(outcome) for outcome in _OUTCOMES},
            "reasons": {op: self.reasons[op] for op in self._ops("skipped") if op in self.reasons},
        }

    def write(self, path: str) -> None:
        """Write the report as JSON."""
        Path(path).write_text(json.dumps(self.as_dict(), indent=1) + "\n", encoding="utf-8")

    def lines(self) -> list[str]:
        """Return the report as text."""
        lines = [
            f"{name}: {', '.join(f'{n} {outcome}' for outcome, n in sorted(counts.items()))}"
            for name, counts in sorted(self.suites.items())
        ]
        for outcome in _OUTCOMES:
            names = [name for name, worst in sorted(self.clauses.items()) if worst == outcome]
            if names:
                lines.append(f"clauses {outcome}: {' '.join(names)}")
        for outcome in _OUTCOMES:
            ops = self._ops(outcome)
            if ops:
                more = f" and {len(ops) - _MAX_LISTED} more" if len(ops) > _MAX_LISTED else ""
                listed = "" if outcome == "passed" else f": {', '.join(ops[:_MAX_LISTED])}{more}"
                lines.append(f"ops {outcome}: {len(ops)}{listed}")
        return lines

    def _ops(self, outcome: str) -> list[str]:
        return sorted(op for op, worst in self.ops.items() if worst == outcome)


def _worse(previous: str | None, outcome: str) -> str:
    if previous is None:
        return outcome
    if {previous, outcome} == {"passed", "skipped"}:
        return "passed"
    return max(previous, outcome, key=_OUTCOMES.index)
