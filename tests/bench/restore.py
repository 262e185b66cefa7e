"""Measure the restore of checkpoints against TensorFlow.

    python tests/bench/restore.py --tensorflow PYTHON [--rounds 2] [--only large,small] [--folder F]

TensorFlow writes the checkpoints, and a graph that restores each of them into resource variables.
Each restore has a process of its own; both systems take turns. A row is the first restore of a
process, one into variables that have values, and the memory that the first one added at its peak.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "core"), str(ROOT / "plugins")]
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

# The number of variables and the shape of each, in float32.
CASES: dict[str, tuple[int, tuple[int, int]]] = {
    "large": (20, (3277, 4000)),
    "medium": (400, (160, 4000)),
    "small": (2000, (10, 10)),
}
RESTORES = 2  # in one process


def write(name: str, folder: Path) -> None:
    """Write a checkpoint and the graph that restores it."""
    import numpy as np
    import tensorflow as tf

    tf1, raw = tf.compat.v1, tf.raw_ops
    count, shape = CASES[name]
    names, whole = [f"v{index:05d}" for index in range(count)], [""] * count
    value = np.random.default_rng(0).random(shape, np.float32)
    with tf.Graph().as_default(), tf1.Session() as session:
        prefix = tf1.placeholder(tf.string, [])
        fed = tf1.placeholder(tf.float32, shape)
        save = raw.SaveV2(
            prefix=prefix, tensor_names=names, shape_and_slices=whole, tensors=[fed] * count
        )
        session.run(save, {prefix: str(folder / name), fed: value})
    with tf.Graph().as_default() as graph:
        prefix = tf1.placeholder(tf.string, [], name="prefix")
        restored = raw.RestoreV2(
            prefix=prefix, tensor_names=names, shape_and_slices=whole, dtypes=[tf.float32] * count
        )
        handles = [
            raw.VarHandleOp(dtype=tf.float32, shape=shape, shared_name=each) for each in names
        ]
        pairs = zip(handles, restored, strict=True)
        tf.group(*(raw.AssignVariableOp(resource=h, value=v) for h, v in pairs), name="restore")
        (folder / f"{name}.pb").write_bytes(graph.as_graph_def().SerializeToString())


def graphmill_restore(graph: Path, prefix: str) -> Any:
    """Return a function that restores in graphmill."""
    import graphmill

    allow = [f"fs.read:{graph.parent}"]
    session = graphmill.Session(graph=graph, config={"graphmill": {"allow": allow}})
    return lambda: session.run([], {"prefix:0": prefix}, targets=["restore"])


def tensorflow_restore(graph: Path, prefix: str) -> Any:
    """Return a function that restores in TensorFlow."""
    import tensorflow as tf

    tf1 = tf.compat.v1
    tf1.disable_eager_execution()
    tf.import_graph_def(tf1.GraphDef.FromString(graph.read_bytes()), name="")
    session = tf1.Session()
    return lambda: session.run("restore", {"prefix:0": prefix})


def memory_mb(field: str) -> float:
    """Return a figure of this process in MB: `VmRSS`, or `VmHWM` for its peak."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) / 1024


def measure(system: str, graph: Path) -> dict[str, Any]:
    """Restore a checkpoint several times; return seconds and the memory of the first restore."""
    start = graphmill_restore if system == "graphmill" else tensorflow_restore
    restore = start(graph, str(graph.with_suffix("")))
    before, peak, seconds = memory_mb("VmRSS"), 0.0, []
    for _ in range(RESTORES):
        begun = time.perf_counter()
        restore()
        seconds.append(time.perf_counter() - begun)
        peak = peak or memory_mb("VmHWM") - before
    return {"seconds": seconds, "peak_mb": peak}


def ask(python: str, *arguments: str) -> str:
    """Run this script in a process of an interpreter; return its output."""
    from benchmark.rounds import worker_environment  # the measured processes need none of it

    command, environment = [python, __file__, *arguments], worker_environment()
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return done.stdout


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tensorflow", default=sys.executable, help="its interpreter")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--only", default=",".join(CASES))
    parser.add_argument("--folder", type=Path, help="where the checkpoints are kept (2 GB)")
    parser.add_argument("--serve", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        system, graph = arguments.serve[0], Path(arguments.serve[1])
        if system == "write":
            write(graph.stem, graph.parent)
        else:
            print(json.dumps(measure(system, graph)))
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.folder or Path(scratch)
        folder.mkdir(exist_ok=True)
        compare(folder, arguments.only.split(","), arguments.tensorflow, arguments.rounds)


def compare(folder: Path, cases: list[str], tensorflow: str, rounds: int) -> None:
    """Measure the cases in both systems alternately, and print a row for each."""
    pythons = {"graphmill": sys.executable, "tensorflow": tensorflow}
    print("| checkpoint | system | first restore, s | again, s | memory added, MB |")
    for case in cases:
        graph = folder / f"{case}.pb"
        if not graph.exists():
            ask(tensorflow, "--serve", "write", str(graph))
        found: dict[str, list[dict[str, Any]]] = {system: [] for system in pythons}
        for _ in range(rounds):
            for system, python in pythons.items():
                answer = ask(python, "--serve", system, str(graph)).splitlines()[-1]
                found[system].append(json.loads(answer))
        for system, rows in found.items():
            first, again = (statistics.median(r["seconds"][i] for r in rows) for i in range(2))
            peak = statistics.median(row["peak_mb"] for row in rows)
            print(f"| {case} | {system} | {first:.2f} | {again:.2f} | {peak:.0f} |", flush=True)


if __name__ == "__main__":
    main()
