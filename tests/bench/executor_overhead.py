"""Measure the executor's overhead per node against TensorFlow's.

    python tests/bench/executor_overhead.py [--tensorflow PYTHON] [--executor INLINE] [--rounds 9]

Kernels are scalar additions and the like, so that nearly all of the time is the executor's; the
column "kernels" says what calling these kernels alone takes, one after the other. Each runtime has
a process of its own with one thread; rounds take turns, and the figures are medians. TensorFlow is
left out where `PYTHON` (by default this one) has none; its graph optimizer is off.
"""

from __future__ import annotations

import argparse
import operator
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "core"), str(ROOT / "plugins")]

import numpy as np  # noqa: E402

from graphmill.testing.proto_builders import const_def, graph_def, node_def  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

SIZE = 1000
SECONDS = 0.25  # of each measurement


def chain() -> tuple[Any, str, int]:
    """Make a chain of additions."""
    nodes = [node_def("x", "Placeholder", dtype="float32")]
    for index in range(SIZE):
        before = f"n{index - 1}" if index else "x"
        nodes.append(node_def(f"n{index}", "AddV2", before, "x", T="float32"))
    return graph_def(*nodes), f"n{SIZE - 1}:0", SIZE


def wide() -> tuple[Any, str, int]:
    """Make independent additions, and a node that waits for all of them."""
    nodes = [node_def("x", "Placeholder", dtype="float32")]
    names = [f"n{index}" for index in range(SIZE)]
    nodes += [node_def(name, "AddV2", "x", "x", T="float32") for name in names]
    waits = [f"^{name}" for name in names]
    return graph_def(*nodes, node_def("y", "Identity", "x", *waits, T="float32")), "y:0", SIZE + 1


def conditional() -> tuple[Any, str, int]:
    """Make consecutive conditionals with one node in each branch; half of the nodes are dead."""
    nodes = [node_def("x", "Placeholder", dtype="float32"), const_def("zero", np.float32(0))]
    nodes.append(node_def("p", "Less", "x", "zero", T="float32"))
    value = "x"
    for index in range(SIZE // 4):
        nodes += [
            node_def(f"s{index}", "Switch", value, "p", T="float32"),
            node_def(f"a{index}", "AddV2", f"s{index}", f"s{index}", T="float32"),
            node_def(f"b{index}", "AddV2", f"s{index}:1", f"s{index}:1", T="float32"),
            node_def(f"m{index}", "Merge", f"a{index}", f"b{index}", T="float32", N=2),
        ]
        value = f"m{index}"
    return graph_def(*nodes), f"{value}:0", SIZE // 4 * 4 + 1


def loop() -> tuple[Any, str, int]:
    """Make a counting loop."""
    frame = {"frame_name": b"loop", "parallel_iterations": 10}
    nodes = [
        node_def("x", "Placeholder", dtype="float32"),
        const_def("limit", np.float32(SIZE)),
        const_def("one", np.float32(1)),
        node_def("e", "Enter", "x", T="float32", **frame),
        node_def("el", "Enter", "limit", T="float32", is_constant=True, **frame),
        node_def("eo", "Enter", "one", T="float32", is_constant=True, **frame),
        node_def("m", "Merge", "e", "n", T="float32", N=2),
        node_def("l", "Less", "m", "el", T="float32"),
        node_def("c", "LoopCond", "l"),
        node_def("s", "Switch", "m", "c", T="float32"),
        node_def("a", "AddV2", "s:1", "eo", T="float32"),
        node_def("n", "NextIteration", "a", T="float32"),
        node_def("y", "Exit", "s", T="float32"),
    ]
    return graph_def(*nodes), "y:0", SIZE * 6


CASES: dict[str, Callable[[], tuple[Any, str, int]]] = {
    "chain": chain,
    "wide": wide,
    "conditional": conditional,
    "loop": loop,
}
# Kernels that run for each 1000 nodes; the rest of a node's time is the executor's own.
KERNELS = {"chain": 1000, "wide": 1000, "conditional": 250, "loop": 333}


def graphmill_call(message: Any, fetch: str, executor: str) -> Callable[[Any], Any]:
    """Return a function that runs one step in graphmill."""
    import graphmill
    from graphmill import proto

    config = proto.ConfigProto(inter_op_parallelism_threads=-1)
    config.graph_options.optimizer_options.opt_level = -1
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.experimental.executor_type = executor
    config.graph_options.optimizer_options.global_jit_level = -1
    call: Callable[[Any], Any] = graphmill.Session(graph=message, config=config).make_callable(
        fetch, ["x:0"]
    )
    return call


def tensorflow_call(message: Any, fetch: str) -> Callable[[Any], Any]:
    """Return a function that runs one step in TensorFlow."""
    import tensorflow as tf

    v1 = tf.compat.v1
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(v1.GraphDef.FromString(message.SerializeToString()), name="")
    config = v1.ConfigProto(inter_op_parallelism_threads=1, intra_op_parallelism_threads=1)
    config.graph_options.optimizer_options.opt_level = -1
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    call: Callable[[Any], Any] = v1.Session(graph=graph, config=config).make_callable(
        fetch, ["x:0"]
    )
    return call


def kernels_ns(count: int) -> float:
    """Return the time of `count` scalar additions in a Python loop."""
    x, add = np.float32(1), operator.add  # what the kernel of AddV2 calls
    start = time.perf_counter_ns()
    for _ in range(count):
        add(x, x)
    return time.perf_counter_ns() - start


def serve(runtime: str, executor: str) -> None:
    """Answer each case name on stdin with the time per node in ns."""
    calls: dict[str, Callable[[Any], Any]] = {}
    x = np.float32(0)
    for line in sys.stdin:
        case = line.strip()
        message, fetch, nodes = CASES[case]()
        if runtime == "kernels":
            print(min(kernels_ns(KERNELS[case]) for _ in range(20)) / 1000, flush=True)
            continue
        if case not in calls:
            is_ours = runtime == "graphmill"
            calls[case] = (
                graphmill_call(message, fetch, executor)
                if is_ours
                else tensorflow_call(message, fetch)
            )
            calls[case](x)
        call = calls[case]
        taken = []
        end = time.perf_counter() + SECONDS
        while time.perf_counter() < end:
            start = time.perf_counter_ns()
            call(x)
            taken.append(time.perf_counter_ns() - start)
        print(statistics.median(taken) / nodes, flush=True)


class Child:
    """A measuring process."""

    def __init__(self, python: str, runtime: str, executor: str) -> None:
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "3"}
        self.runtime = runtime
        self._process = subprocess.Popen(
            [python, __file__, "--serve", runtime, "--executor", executor],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
        )

    def ask(self, case: str) -> float:
        """Return the time per node of a case in ns."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(case + "\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def has_tensorflow(python: str) -> bool:
    """Return whether an interpreter can import TensorFlow."""
    code = "import importlib.util as u, sys; sys.exit(u.find_spec('tensorflow') is None)"
    return subprocess.run([python, "-c", code], check=False).returncode == 0


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tensorflow", default=sys.executable, help="its interpreter")
    parser.add_argument("--executor", default="DEFAULT")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.serve, arguments.executor)
        return
    children = [
        Child(sys.executable, name, arguments.executor) for name in ("graphmill", "kernels")
    ]
    if has_tensorflow(arguments.tensorflow):
        children.append(Child(arguments.tensorflow, "tensorflow", ""))
    found: dict[tuple[str, str], list[float]] = {}
    for _ in range(arguments.rounds):
        for case in CASES:
            for child in children:
                found.setdefault((case, child.runtime), []).append(child.ask(case))
    for child in children:
        child.close()
    print(f"ns a node, medians of {arguments.rounds} rounds, executor {arguments.executor}")
    print("| graph | " + " | ".join(child.runtime for child in children) + " |")
    for case in CASES:
        row = [statistics.median(found[case, child.runtime]) for child in children]
        print(f"| {case} | " + " | ".join(f"{ns:.0f}" for ns in row) + " |")


if __name__ == "__main__":
    main()
