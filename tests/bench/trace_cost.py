"""Measure the cost of tracing an interpreted step, for small nodes and for large products.

    OPENBLAS_NUM_THREADS=1 python tests/bench/trace_cost.py [--rounds 300]

Steps that are not traced, fill in a `StepTrace` and fill in a `RunMetadata` take turns. The figures
are 20th percentiles of the CPU time of the process, so other work on the machine changes them
little. The line "check of a node" is what a step that is not traced pays.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from functools import partial
from math import inf
from typing import TYPE_CHECKING

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy is imported

import numpy as np

import graphmill
from graphmill.ops import math
from graphmill.timeline import StepTrace

if TYPE_CHECKING:
    from collections.abc import Callable

OPTIONS = {"trace_level": "FULL_TRACE"}


def small_nodes(count: int) -> tuple[graphmill.Graph, np.ndarray]:
    """Return a chain of sums and negations of four numbers, and its input."""
    graph = graphmill.Graph()
    with graph.as_default():
        x = y = graph.placeholder("float32", [4], name="x")
        for index in range(count - 1):
            y = math.add_v2(y, x) if index % 2 else math.neg(y)
        math.neg(y, name="y")
    return graph, np.ones(4, np.float32)


def products(count: int, size: int) -> tuple[graphmill.Graph, np.ndarray]:
    """Return a chain of matrix products, and its input."""
    graph = graphmill.Graph()
    with graph.as_default():
        x = y = graph.placeholder("float32", [size, size], name="x")
        for _ in range(count):
            y = math.mat_mul(y, x)
        math.neg(y, name="y")
    return graph, np.eye(size, dtype=np.float32)


SMALL = "1,000 small nodes"
CASES = {
    "1 small node": small_nodes(1),
    SMALL: small_nodes(1_000),
    "20 products of 256 x 256": products(20, 256),
}


def milliseconds(step: Callable[[], object]) -> float:
    """Return the CPU time of a step."""
    began = time.process_time_ns()
    step()
    return (time.process_time_ns() - began) / 1e6


def steps_of(session: graphmill.Session, value: np.ndarray) -> dict[str, Callable[[], object]]:
    """Return the step without a trace, and traced in both ways."""
    feeds = {"x:0": value}

    def fill_in() -> None:
        session.run("y:0", feeds, options=OPTIONS, run_metadata=graphmill.RunMetadata())

    return {
        "off": lambda: session.run("y:0", feeds),
        "StepTrace": lambda: session.run("y:0", feeds, run_metadata=StepTrace()),
        "RunMetadata": fill_in,
    }


def _with_check(recorder: object, count: int) -> None:
    result = 0
    for index in range(count):
        if recorder is None:
            result = index
        else:
            result = -index
    del result


def _without_check(recorder: object, count: int) -> None:
    result = 0
    for index in range(count):
        result = index
    del recorder, result


def check_nanoseconds() -> float:
    """Return the time of a node's check for a recorder, as in the executor's loop."""
    shortest = dict.fromkeys((_with_check, _without_check), inf)
    for _ in range(100):
        for loop in shortest:
            took = milliseconds(partial(loop, None, 100_000))
            shortest[loop] = min(shortest[loop], took)
    return (shortest[_with_check] - shortest[_without_check]) * 1e6 / 100_000


def main() -> None:
    """Print a line for each graph, and one for the check."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=300)
    rounds = parser.parse_args().rounds
    for title, (graph, value) in CASES.items():
        with graphmill.Session(graph=graph, config={"graphmill": {"jit": "off"}}) as session:
            steps = steps_of(session, value)
            times: dict[str, list[float]] = {kind: [] for kind in steps}
            for _ in range(rounds):
                for kind, step in steps.items():
                    times[kind].append(milliseconds(step))
        low = {kind: statistics.quantiles(one, n=5)[0] for kind, one in times.items()}
        print(title, *(f"{k}: {t:.3f} ms ({t / low['off']:.2f})" for k, t in low.items()), sep=", ")
        if title == SMALL:
            node, check = low["off"] * 1e6 / 1_000, check_nanoseconds()
            print(f"check of a node: {check:.1f} ns of {node:.0f} ns ({check / node:.2%})")


if __name__ == "__main__":
    main()
