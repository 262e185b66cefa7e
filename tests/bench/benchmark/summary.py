"""Summarize the rounds of a case: medians of ratios, and no time for a wrong result."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from benchmark.statistics import geometric_mean, median, median_ratio

if TYPE_CHECKING:
    from benchmark.rounds import Measured

OURS, THEIRS = "graphmill", "tensorflow"
QUANTITIES = {
    "cold_s": "cold",
    "memory_mb": "cold",
    "first_s": "warm",
    "median_s": "warm",
    "p95_s": "warm",
}
"""The measured quantities, each with its phase."""


@dataclass(slots=True)
class Row:
    """One case: figures by system, and ratios TensorFlow to graphmill (above 1: ours is faster)."""

    case: str
    figures: dict[str, dict[str, float]] = field(default_factory=dict)
    ratios: dict[str, float] = field(default_factory=dict)
    error: float = 0.0
    tier: str = ""
    problem: str = ""


def summarize(measured: Measured) -> Row:
    """Return the row of a case."""
    row = Row(measured.case)
    systems = list(measured.results)
    row.problem = next((f"{s}: {text}" for s in systems if (text := _problem(measured, s))), "")
    warm = measured.of(OURS, "warm")
    row.error = max((r.get("error", 0.0) for r in [*warm, *measured.of(OURS, "cold")]), default=0.0)
    row.tier = next((r["tier"] for r in reversed(warm) if r.get("tier")), "")
    for system in systems:
        if not _problem(measured, system):
            row.figures[system] = {
                quantity: median([r[quantity] for r in found])
                for quantity, phase in QUANTITIES.items()
                if (found := measured.of(system, phase))
            }
    if OURS in row.figures and THEIRS in row.figures:
        for quantity in row.figures[OURS]:
            theirs, ours = (
                [r[quantity] for r in measured.of(system, QUANTITIES[quantity])]
                for system in (THEIRS, OURS)
            )
            row.ratios[quantity] = median_ratio(theirs, ours)
    return row


def means(rows: list[Row]) -> dict[str, float]:
    """Return the geometric mean over the cases of each ratio."""
    return {
        quantity: geometric_mean(row.ratios[quantity] for row in rows if quantity in row.ratios)
        for quantity in QUANTITIES
    }


def _problem(measured: Measured, system: str) -> str:
    """Return the problem with a system's results in any round, or ""."""
    for phase in ("cold", "warm"):
        for number, result in enumerate(measured.of(system, phase)):
            if result.get("problem"):
                return str(result["problem"])
            if system == OURS and result.get("late_problem") and _repeats(measured, number):
                return f"once settled: {result['late_problem']}"
    return ""


def _repeats(measured: Measured, number: int) -> bool:
    """Return whether TensorFlow repeated its first results in the steady state of a round."""
    theirs: list[dict[str, Any]] = measured.of(THEIRS, "warm")
    return number < len(theirs) and theirs[number].get("late_problem") == ""
