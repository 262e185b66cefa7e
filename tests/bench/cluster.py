#!/usr/bin/env python3
"""Time small and large steps over gRPC, for graphmill's and TensorFlow's servers.

    python tests/bench/cluster.py [--tensorflow PYTHON] [--client graphmill] [--rounds 7]
    python tests/bench/cluster.py --stubs 1000

Each system has one server that stands alone and a cluster of two tasks, each in its own process.
One client runs each case on the systems in turns; figures are medians of the rounds. The client is
TensorFlow's where `PYTHON` (or the variable GRAPHMILL_BENCH_TENSORFLOW) names an interpreter that
has it, unless `--client graphmill` is given. `--stubs` times the control plane of a master alone,
with workers in its own process that reply at once.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parents[2]
PATHS = [str(ROOT / "core"), str(ROOT / "plugins")]
sys.path[:0] = [str(Path(__file__).resolve().parent), *PATHS]

from serving.cases import CASES, Case, write_graphs  # noqa: E402
from serving.processes import Client, Cluster, start_cluster  # noqa: E402
from serving.stub_cluster import measure_stubs  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

OURS, THEIRS = "graphmill", "TensorFlow"
TENSORFLOW_VARIABLE = "GRAPHMILL_BENCH_TENSORFLOW"


def main() -> None:
    options = parser().parse_args()
    if options.stubs:
        print(measure_stubs(options.stubs))
        return
    cases = [case for case in CASES if options.only in case.name]
    pythons = {OURS: sys.executable}
    if options.tensorflow:
        pythons[THEIRS] = options.tensorflow
    client = OURS if options.client == OURS or THEIRS not in pythons else THEIRS
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        write_graphs(Path(folder))
        clusters = {
            name: stack.enter_context(start_cluster(python, name == OURS, PATHS))
            for name, python in pythons.items()
        }
        session_client = stack.enter_context(
            Client(pythons[client], client == OURS, Path(folder), PATHS)
        )
        print(f"client: {client}; {options.rounds} rounds\n")
        print(markdown(measure(cases, clusters, session_client, options.rounds), clusters))


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(
        prog="cluster", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    result.add_argument("--tensorflow", default=os.environ.get(TENSORFLOW_VARIABLE), metavar="PY")
    result.add_argument("--client", choices=(OURS, THEIRS), default=THEIRS)
    result.add_argument("--rounds", type=int, default=7)
    result.add_argument("--only", default="", metavar="TEXT", help="cases whose name contains this")
    result.add_argument("--stubs", type=int, default=0, metavar="TASKS")
    return result


def measure(
    cases: Sequence[Case], clusters: Mapping[str, Cluster], client: Client, rounds: int
) -> dict[Case, dict[str, float]]:
    """Return the median seconds of a step by case and system."""
    found = {}
    for case in cases:
        times: dict[str, list[float]] = {name: [] for name in clusters}
        for number in range(rounds + 1):
            for name, cluster in clusters.items():
                seconds = client.measure(case, cluster.target(case))
                if number:  # the first round warms up
                    times[name].append(seconds)
        found[case] = {name: statistics.median(values) for name, values in times.items()}
    return found


def markdown(found: dict[Case, dict[str, float]], clusters: Mapping[str, Cluster]) -> str:
    """Return a table; ratios above 1 mean that graphmill's server is faster."""
    names = list(clusters)
    lines = [f"| case | {' | '.join(names)} | ratio |", "|---|" + "---:|" * (len(names) + 1)]
    for case, times in found.items():
        cells = [f"{times[name] * 1e3:.3f} ms" for name in names]
        lines.append(_row(case.name, cells, [times[name] for name in names]))
    ready = [clusters[name].ready_seconds for name in names]
    lines.append(_row("server ready", [f"{seconds:.2f} s" for seconds in ready], ready))
    idle = [clusters[name].idle_megabytes for name in names]
    lines.append(_row("idle memory", [f"{size:.0f} MB" for size in idle], idle))
    return "\n".join(lines)


def _row(name: str, cells: Sequence[str], values: Sequence[Any]) -> str:
    ratio = f"{values[1] / values[0]:.2f}" if len(values) > 1 else ""
    return f"| {name} | {' | '.join(cells)} | {ratio} |"


if __name__ == "__main__":
    main()
