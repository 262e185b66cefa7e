#!/usr/bin/env python3
"""Time alternatives of one computation against each other and TensorFlow, by shape.

    python tests/bench/jax_algorithms.py                     # all of them
    python tests/bench/jax_algorithms.py --only conv,cumsum  # names that contain one of these
    python tests/bench/jax_algorithms.py --tensorflow PYTHON # an interpreter that has TensorFlow

The alternatives of a shape run alternately, so that other load on the machine affects all of them.
For each: the medians of wall time and processor time in microseconds, and the ratio of the wall
time to that of the first one, XLA's own (above 1: faster). An alternative whose values differ gets
no time. A `*` marks what graphmill's kernels do for that shape. The cases are in
`jax_algorithm_cases.py`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import subprocess
import time
from typing import TYPE_CHECKING, Any

import jax
import jax_algorithm_cases
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_TENSORFLOW = """
import json, os, sys, time
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np
import tensorflow as tf
for line in sys.stdin:
    job = json.loads(line)
    if "make" in job:
        with np.load(job["arrays"]) as stored:
            given = [tf.constant(stored[name]) for name in sorted(stored.files)]
        call = tf.function(eval("lambda *a: " + job["make"], {"tf": tf, "np": np}))
        call(*given); call(*given)
        print("{}", flush=True)
    else:
        clock, cpu = time.perf_counter(), time.process_time()
        for _ in range(job["times"]):
            result = call(*given)
        result = tf.nest.flatten(result)[0].numpy()
        clock, cpu = time.perf_counter() - clock, time.process_time() - cpu
        print(json.dumps([clock / job["times"], cpu / job["times"]]), flush=True)
"""


class TensorFlow:
    """Runs expressions in another process."""

    def __init__(self, python: str, scratch: str) -> None:
        self.scratch = scratch
        self.process = subprocess.Popen(
            [python, "-c", _TENSORFLOW], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, **job: Any) -> Any:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def prepare(self, expression: str, arrays: list[Any]) -> Callable[[int], tuple[float, float]]:
        path = f"{self.scratch}/arrays.npz"
        np.savez(path, **{f"a{place:02}": array for place, array in enumerate(arrays)})
        self.ask(make=expression, arrays=path)
        return lambda times: tuple(self.ask(times=times))

    def close(self) -> None:
        self.process.communicate()


def prepare(function: Any, arrays: list[Any]) -> tuple[Callable[[int], tuple[float, float]], Any]:
    """Compile an alternative; return its timing function and its results."""
    options = {}
    if isinstance(function, tuple):
        function, options = function
    compiled = jax.jit(function).lower(*arrays).compile(compiler_options=options)
    on_device = [jax.device_put(array) for array in arrays]
    results = [np.asarray(leaf) for leaf in jax.tree.leaves(compiled(*on_device))]

    def run(times: int) -> tuple[float, float]:
        clock, cpu = time.perf_counter(), time.process_time()
        for _ in range(times):
            jax.block_until_ready(compiled(*on_device))
        return (time.perf_counter() - clock) / times, (time.process_time() - cpu) / times

    return run, results


def is_same(results: list[Any], expected: list[Any]) -> bool:
    """Return whether results agree, relative to the largest value."""
    return all(
        np.abs(a.astype(float) - b.astype(float)).max() <= 1e-4 * max(1, np.abs(b).max())
        for a, b in zip(results, expected, strict=True)
    )


def measure(case: jax_algorithm_cases.Case, rounds: int, tensorflow: TensorFlow | None) -> None:
    arrays = case.arrays()
    runs: dict[str, Callable[[int], tuple[float, float]]] = {}
    expected: list[Any] = []
    for name, function in case.alternatives.items():
        run, results = prepare(function, arrays)
        expected = expected or results
        if is_same(results, expected):
            runs[name] = run
        else:
            print(f"{case.name:34} {name:12} WRONG")
    if tensorflow is not None and case.tensorflow:
        runs["TensorFlow"] = tensorflow.prepare(case.tensorflow, arrays)
    times = max(1, min(50, int(0.01 / max(min(run(2)[0] for run in runs.values()), 1e-6))))
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            found[name].append(run(times))
    medians = {
        name: [statistics.median(column) * 1e6 for column in zip(*pairs, strict=True)]
        for name, pairs in found.items()
    }
    first = next(iter(medians.values()))[0]
    for name, (clock, cpu) in medians.items():
        mark = "*" if name == case.chosen else " "
        print(f"{case.name:34} {name:12}{mark} {clock:9.0f} {cpu:9.0f} {first / clock:7.2f}x")


@contextlib.contextmanager
def tensorflow_in(python: str | None) -> Iterator[TensorFlow | None]:
    if python is None:
        yield None
        return
    import tempfile

    with tempfile.TemporaryDirectory() as scratch:
        worker = TensorFlow(python, scratch)
        try:
            yield worker
        finally:
            worker.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="parts of names, separated by commas")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--tensorflow", metavar="PYTHON")
    options = parser.parse_args()
    parts = options.only.split(",")
    print(f"{'case':34} {'algorithm':13} {'clock us':>9} {'cpu us':>9} {'ratio':>8}")
    with tensorflow_in(options.tensorflow) as tensorflow, jax.enable_x64(True):
        for case in jax_algorithm_cases.cases():
            if any(part in case.name for part in parts):
                measure(case, options.rounds, tensorflow)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
