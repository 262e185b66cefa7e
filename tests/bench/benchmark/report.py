"""Format rows as a Markdown table and as JSON."""

from __future__ import annotations

import dataclasses
import math
import os
import platform
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmark.statistics import geometric_mean
from benchmark.summary import OURS, THEIRS, means

if TYPE_CHECKING:
    from benchmark.rounds import Measured
    from benchmark.summary import Row

_TIMES = (
    ("cold start", "cold_s"),
    ("first run", "first_s"),
    ("step", "median_s"),
    ("p95", "p95_s"),
)
_LIMITS = (1.0, 0.95, 0.9, 0.7)
_CPU_FEATURES = ("avx2", "avx512f", "avx512_bf16", "amx_tile", "asimd", "sve")


def markdown(rows: list[Row]) -> str:
    """Return the table: for each quantity graphmill's value, and TensorFlow's divided by it."""
    titles = [title for title, _ in _TIMES] + ["memory"]
    head = ["case", *(cell for title in titles for cell in (title, "ratio")), "error", "tier"]
    lines = [_line(head), _line(["---", *["---:"] * (len(head) - 2), "---"])]
    lines += [_line(_cells(row)) for row in rows]
    ratios = means(rows)
    if not all(math.isnan(ratio) for ratio in ratios.values()):
        keys = [key for _, key in _TIMES] + ["memory_mb"]
        cells = [cell for key in keys for cell in ("", _ratio(ratios[key]))]
        lines.append(_line(["geometric mean", *cells, "", ""]))
    return "\n".join(lines)


def distribution(rows: list[Row]) -> str:
    """Return the distribution of the ratios of the step, and the ten lowest."""
    ratios = {row.case: row.ratios["median_s"] for row in rows if "median_s" in row.ratios}
    if not ratios:
        return ""
    shares = [
        f"{sum(ratio < limit for ratio in ratios.values()) / len(ratios):.1%} below {limit}"
        for limit in _LIMITS
    ]
    lowest = sorted(ratios, key=lambda name: ratios[name])[:10]
    names = ", ".join(f"{name} {ratios[name]:.2f}" for name in lowest)
    return f"\nStep, {len(ratios)} graphs: {', '.join(shares)}; lowest: {names}\n"


def by_family(rows: list[Row], families: dict[str, str]) -> str:
    """Return a table with the distribution of the steps' ratios in each family of cases.

    `families` gives a case's family; cases without one are left out.
    """
    measured = [row for row in rows if "median_s" in row.ratios and families.get(row.case)]
    names = sorted({families[row.case] for row in measured})
    if len(names) < 2:
        return ""
    head = ["family", "measured", "geometric mean", *(f"below {limit}" for limit in _LIMITS)]
    lines = [_line(head), _line(["---", *["---:"] * (len(head) - 1)])]
    lines += [_family(n, [r for r in measured if families[r.case] == n]) for n in names]
    return "\n".join([*lines, _family("all of these", measured)])


def _family(name: str, rows: list[Row]) -> str:
    ratios = [row.ratios["median_s"] for row in rows]
    below = [str(sum(ratio < limit for ratio in ratios)) for limit in _LIMITS]
    return _line([name, str(len(ratios)), f"{geometric_mean(ratios):.2f}", *below])


def as_json(rows: list[Row], measured: list[Measured], about: dict[str, Any]) -> dict[str, Any]:
    """Return all data, including the raw rounds."""
    return {
        "about": about,
        "rows": [dataclasses.asdict(row) for row in rows],
        "means": means(rows),
        "rounds": {item.case: item.results for item in measured},
    }


def describe_machine() -> str:
    """Return the properties of the machine that affect the figures, without identifying it."""
    cores = f"{os.cpu_count()} cores, {platform.machine()}"
    info = Path("/proc/cpuinfo")
    words = set(info.read_text("utf-8").split()) if info.exists() else set()
    features = [feature for feature in _CPU_FEATURES if feature in words]
    python = f"Python {platform.python_version()}"
    return ", ".join([cores, *features, platform.system(), python])


def versions(measured: list[Measured]) -> list[str]:
    """Return the versions of the measured systems."""
    found: dict[str, None] = {}
    for item in measured:
        for system in (OURS, THEIRS):
            for result in item.of(system, "warm"):
                if result.get("versions"):
                    found[result["versions"]] = None
    return list(found)


def _cells(row: Row) -> list[str]:
    ours = row.figures.get(OURS) or row.figures.get(THEIRS, {})
    if row.problem and OURS not in row.figures:
        return [row.case, *[""] * (2 * len(_TIMES) + 2), "wrong", row.problem.replace("|", "\\|")]
    cells = [row.case]
    for _, key in _TIMES:
        cells += [_time(ours.get(key)), _ratio(row.ratios.get(key))]
    memory = ours.get("memory_mb")
    cells += ["" if memory is None else f"{memory:.0f} MB", _ratio(row.ratios.get("memory_mb"))]
    return [*cells, f"{row.error:.2g}", row.problem.replace("|", "\\|") or row.tier]


def _time(seconds: float | None) -> str:
    if seconds is None:
        return ""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} µs"


def _ratio(ratio: float | None) -> str:
    return "" if ratio is None or math.isnan(ratio) else f"{ratio:.2f}"


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"
