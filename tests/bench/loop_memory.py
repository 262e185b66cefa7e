"""Show that the memory of a loop does not grow with its trip count (default: a million).

    python tests/bench/loop_memory.py [--trips 1000000] [--executor INLINE]

Prints the peak of what Python has allocated in loops of 1,000 trips and of many, and the growth of
the process. CI does the same with fewer trips (tests/integration/steps/test_executors.py).
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
import tracemalloc
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "core"), str(ROOT / "plugins")]

import graphmill  # noqa: E402


def main() -> None:
    """Run the loop with a low and a high trip count, traced in between."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trips", type=int, default=1_000_000)
    parser.add_argument("--executor", default="DEFAULT")
    arguments = parser.parse_args()
    graph = graphmill.Graph()
    with graph.as_default():
        n = graph.placeholder("int32", (), "n")
        last, _ = graphmill.while_loop(lambda i, _: i < n, lambda i, x: (i + 1, x * 0.5), [0, 1.0])
    config = graphmill.ConfigProto()
    config.experimental.executor_type = arguments.executor
    config.graph_options.optimizer_options.global_jit_level = -1
    with graphmill.Session(graph=graph, config=config) as session:
        run = session.make_callable(last.name, ["n:0"])
        run(1000)
        small, before = traced_peak(run, 1000), peak_kb()
        start = time.perf_counter()
        assert run(arguments.trips) == arguments.trips
        seconds = time.perf_counter() - start
        grown = peak_kb() - before
        large = traced_peak(run, arguments.trips // 10)
    print(f"{arguments.trips} trips: {seconds:.1f} s, the process grew by {grown} kB")
    print(f"traced peak: {small} bytes in 1000 trips, {large} in {arguments.trips // 10}")


def traced_peak(run: object, trips: int) -> int:
    """Return the peak memory that a run allocates, in bytes."""
    tracemalloc.start()
    run(trips)  # type: ignore[operator]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


def peak_kb() -> int:
    """Return the peak size of the process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    main()
