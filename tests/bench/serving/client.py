"""Read cases from stdin, and write the seconds per step of each.

It runs in TensorFlow's interpreter or in graphmill's; needs no other module of the benchmark.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

SESSIONS: dict[tuple[str, str], Any] = {}


def new_session(system: str, graph: Path, target: str) -> Any:
    """Return a session of either system with a graph."""
    if system == "graphmill":
        import graphmill

        return graphmill.Session(target, graph=graph)
    import tensorflow as tf

    graph_def = tf.compat.v1.GraphDef.FromString(graph.read_bytes())
    with tf.Graph().as_default() as built:
        tf.import_graph_def(graph_def, name="")
    return tf.compat.v1.Session(target, graph=built)


def run_steps(session: Any, value: Any, steps: int) -> None:
    """Run some steps, and check the result of the last."""
    for _ in range(steps):
        found = session.run("y:0", {"x:0": value})
    if found.shape != value.shape or found[-1] != value[-1]:
        raise AssertionError("the server returned a tensor other than the one it was fed")


def measure(session: Any, num_bytes: int, steps: int, threads: int) -> float:
    """Return the seconds per step, over all threads."""
    value = np.ones(num_bytes // 4, np.float32)
    if threads == 1:
        started = time.perf_counter()
        run_steps(session, value, steps)
        return (time.perf_counter() - started) / steps
    workers = [
        threading.Thread(target=run_steps, args=(session, value, steps)) for _ in range(threads)
    ]
    started = time.perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return (time.perf_counter() - started) / (steps * threads)


def main() -> None:
    system, folder = sys.argv[1:]
    for line in sys.stdin:
        _, graph, num_bytes, steps, threads, target = json.loads(line)
        if (graph, target) not in SESSIONS:
            SESSIONS[graph, target] = new_session(system, Path(folder, f"{graph}.pb"), target)
        print(measure(SESSIONS[graph, target], num_bytes, steps, threads), flush=True)


if __name__ == "__main__":
    main()
