"""Measure the size from which matrix products are faster with a second thread.

    OPENBLAS_NUM_THREADS=1 python tests/bench/two_cores.py [--rounds 40]

For each size: many products in a plain Python loop, the same in two such threads with half of them
each, and as nodes of a graph in INLINE and in DEFAULT. Rounds take turns; medians, in ms.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import threading
import time
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy is imported
ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "core"), str(ROOT / "plugins")]

import numpy as np  # noqa: E402

import graphmill  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

# Rows, columns and number of the products; the first are those of `wide_matmul_200`.
CASES = ((32, 64, 200), (128, 128, 100), (256, 256, 40), (512, 512, 10))


def runners(rows: int, size: int, count: int) -> dict[str, Callable[[], object]]:
    """Return the alternative functions for the products."""
    rng = np.random.default_rng(0)
    x = rng.random((rows, size), np.float32)
    weights = [rng.random((size, size), np.float32) for _ in range(count)]
    todo: SimpleQueue[list[np.ndarray]] = SimpleQueue()
    done: SimpleQueue[list[np.ndarray]] = SimpleQueue()

    def products(some: list[np.ndarray]) -> list[np.ndarray]:
        return [np.matmul(x, weight) for weight in some]

    def work() -> None:
        while True:
            done.put(products(todo.get()))

    def two_threads() -> None:
        todo.put(weights[: count // 2])
        products(weights[count // 2 :])
        done.get()

    threading.Thread(target=work, daemon=True).start()
    graph = graphmill.Graph()
    with graph.as_default():
        fed = graph.placeholder("float32", x.shape, "x")
        found = [graphmill.ops.math.mat_mul(fed, graph.constant(weight)) for weight in weights]
        graphmill.ops.math.add_n(found, name="y")
    ways: dict[str, Callable[[], object]] = {
        "one thread": lambda: products(weights),
        "two threads": two_threads,
    }
    for executor in ("INLINE", "DEFAULT"):
        config = graphmill.ConfigProto()
        config.experimental.executor_type = executor
        config.graph_options.optimizer_options.global_jit_level = -1
        call = graphmill.Session(graph=graph, config=config).make_callable("y:0", ["x:0"])
        ways[executor] = lambda call=call: call(x)
    return ways


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    rounds = parser.parse_args().rounds
    for rows, size, count in CASES:
        ways = runners(rows, size, count)
        taken: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(rounds + 5):
            for name, run in ways.items():
                start = time.perf_counter()
                run()
                taken[name].append(time.perf_counter() - start)
        figures = {name: statistics.median(times[5:]) * 1e3 for name, times in taken.items()}
        text = ", ".join(f"{name} {ms:.2f}" for name, ms in figures.items())
        print(f"{count} x [{rows},{size}]x[{size},{size}]: {text}")


if __name__ == "__main__":
    main()
