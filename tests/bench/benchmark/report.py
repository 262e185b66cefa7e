"""Show rows as a table in Markdown and as JSON."""

from __future__ import annotations

import dataclasses
import math
import os
import platform
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
_CPU_FEATURES = ("avx2", "avx512f", "avx512_bf16", "amx_tile", "asimd", "sve")


def markdown(rows: list[Row]) -> str:
    """Return the table: for each quantity ours, and TensorFlow's divided by ours."""
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


def as_json(rows: list[Row], measured: list[Measured], about: dict[str, Any]) -> dict[str, Any]:
    """Return all there is, raw rounds included."""
    return {
        "about": about,
        "rows": [dataclasses.asdict(row) for row in rows],
        "means": means(rows),
        "rounds": {item.case: item.results for item in measured},
    }


def describe_machine() -> str:
    """Return what matters of the machine for the figures, and nothing that tells whose it is."""
    cores = f"{os.cpu_count()} cores, {platform.machine()}"
    info = Path("/proc/cpuinfo")
    words = set(info.read_text("utf-8").split()) if info.exists() else set()
    features = [feature for feature in _CPU_FEATURES if feature in words]
    python = f"Python {platform.python_version()}"
    return ", ".join([cores, *features, platform.system(), python])


def versions(measured: list[Measured]) -> list[str]:
    """Return the versions of the systems that were measured."""
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
