"""`graphmill ops --coverage`: the share of the ops of common graphs that have a kernel.

The survey is a folder with `op_frequency.json`:

    {"graph_op_names": ["Abs", …],
     "graphs": [{"name": "mobilenet", "synthetic": false, "ops": [[0, 12], …]}, …],
     "ops": {"Abs": {"tier": "T1", "kernels": ["cpu", "gpu"]}, …}}

Each pair in a graph's `ops` is the index of an op in `graph_op_names` and its number of nodes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from graphmill.cli.output.formatting import Block, Table
from graphmill.errors import DataLossError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

_FILE = "op_frequency.json"
_SHOWN = 12
"""The maximum number of missing ops in a line of the table; `--json` has all of them."""


@dataclass(frozen=True, slots=True)
class Tier:
    """Ops of one tier: their number, and those without a kernel."""

    name: str
    count: int
    missing: list[str]

    @property
    def share(self) -> float:
        """The percentage of its ops that have a kernel."""
        return 100.0 * (self.count - len(self.missing)) / self.count


@dataclass(frozen=True, slots=True)
class Coverage:
    """Kernel coverage of a host over a survey of graphs.

    Attributes:
        tiers: the tiers, sorted by name.
        graphs: the number of graphs, without synthetic ones.
        covered: how many of them have kernels for all their ops.
        runnable: how many have kernels for all ops for which TensorFlow has a CPU kernel; their
            other ops are in functions that never run on a CPU.
        lacking: for each of the other graphs, its ops without a kernel.
    """

    tiers: list[Tier]
    graphs: int
    covered: int
    runnable: int
    lacking: dict[str, list[str]]

    def data(self) -> dict[str, Any]:
        """Return the coverage as JSON data."""
        tiers = {
            tier.name: {"ops": tier.count, "covered": tier.count - len(tier.missing)}
            | {"missing": tier.missing}
            for tier in self.tiers
        }
        graphs = {"graphs": self.graphs, "covered": self.covered, "runnable": self.runnable}
        return {"tiers": tiers, **graphs, "lacking": self.lacking}

    def blocks(self) -> list[Block]:
        """Return the coverage as a table and text."""
        table = Table(("tier", "ops", "with a kernel", "share", "without"))
        for tier in self.tiers:
            present, share = tier.count - len(tier.missing), f"{tier.share:.1f} %"
            table.rows.append((tier.name, tier.count, present, share, _brief(tier.missing)))
        counts = (
            f"{self.covered} of {self.graphs} graphs have kernels for all their ops; "
            f"{self.runnable} for all that have a CPU kernel in TensorFlow"
        )
        lacking = [f"{name} lacks {_brief(ops)}" for name, ops in self.lacking.items()]
        return [table, "\n".join([counts, *lacking])]


def survey(folder: Path, present: Collection[str]) -> Coverage:
    """Count the ops of a survey of graphs and those with kernels.

    Args:
        folder: the folder of the survey.
        present: the ops that have a kernel.

    Raises:
        NotFoundError: the folder holds no survey.
        DataLossError: its file does not have the format described in this module's docstring.
    """
    path = folder / _FILE
    if not path.is_file():
        raise NotFoundError(
            f"there is no {_FILE} in '{folder}'; pass a folder that contains that file"
        )
    try:
        return _counted(json.loads(path.read_text("utf-8")), present)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise DataLossError(f"'{path}' is not a survey of ops: {error!r}") from error


def _counted(content: dict[str, Any], present: Collection[str]) -> Coverage:
    ops: dict[str, dict[str, Any]] = content["ops"]
    tiers: dict[str, list[str]] = {}
    for name, facts in ops.items():
        tiers.setdefault(facts["tier"], []).append(name)
    names = content["graph_op_names"]
    graphs = [graph for graph in content["graphs"] if not graph.get("synthetic")]
    missing = [
        sorted({names[index] for index, _ in graph["ops"]}.difference(present)) for graph in graphs
    ]
    lacking = [
        [op for op in lost if "cpu" in ops.get(op, {}).get("kernels", ("cpu",))] for lost in missing
    ]
    return Coverage(
        [Tier(t, len(of), sorted(set(of).difference(present))) for t, of in sorted(tiers.items())],
        len(graphs),
        missing.count([]),
        lacking.count([]),
        {g["name"]: lost for g, lost in zip(graphs, lacking, strict=True) if lost},
    )


def _brief(names: list[str]) -> str:
    rest = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {rest} more" if rest > 0 else "")
