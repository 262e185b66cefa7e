#!/usr/bin/env python3
"""Time growing amounts of work from the first step on, against TensorFlow.

    python tests/bench/scaling.py loops --tensorflow PYTHON                # 1,000 to 1,000,000
    python tests/bench/scaling.py graphs --sizes 1000,10000 --tensorflow PYTHON

`loops`: one loop with each number of iterations (v1, functional, nested, or with a small product);
the first steps and the steady one. `graphs`: graphs with each number of nodes (a chain of
additions, blocks of eight ops that repeat, calls of a function, a mixture without repetition);
loading, the first step, the steady step, and the time until steps are as short as that. Each
runtime has one process; rounds take turns, and the figures are medians. The results of both
runtimes are compared.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

SIZES = {"loops": "1000,10000,100000,1000000", "graphs": "1000,10000,100000"}
SETTLE_SECONDS = {"loops": 3.0, "graphs": 15.0}
FIRST_STEPS = 4
INTERVAL = 0.25  # seconds of which the median counts: single steps are disturbed by other work
RUNTIMES = ("tensorflow", "graphmill")


def v1_loop(trips: int) -> Any:
    """Make a loop over two scalars in control flow v1."""
    import graphmill

    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", (), name="x")
        loop = graphmill.while_loop(
            lambda i, _: i < trips, lambda i, y: (i + 1, y * 0.999 + x), [0, x]
        )
        graphmill.ops.array.identity(loop[1], name="y")
    return graph.as_graph_def()


def nested_loop(trips: int) -> Any:
    """Make a loop in a loop; each has the square root of `trips` iterations."""
    import graphmill

    side = round(math.sqrt(trips))
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", (), name="x")

        def outer(i: Any, y: Any) -> Any:
            inner = graphmill.while_loop(
                lambda j, _: j < side, lambda j, z: (j + 1, z * 0.999 + x), [0, y]
            )
            return i + 1, inner[1]

        loop = graphmill.while_loop(lambda i, _: i < side, outer, [0, x])
        graphmill.ops.array.identity(loop[1], name="y")
    return graph.as_graph_def()


def functional_loop(trips: int) -> Any:
    """Make a functional `While` over two scalars."""
    from graphmill.testing.proto_builders import const_def, graph_def, node_def

    body = [
        const_def("one", np.int32(1)),
        const_def("factor", np.float32(0.999)),
        node_def("next", "AddV2", "i", "one:output:0", T="int32"),
        node_def("scaled", "Mul", "y", "factor:output:0", T="float32"),
        node_def("sum", "AddV2", "scaled:z:0", "x", T="float32"),
    ]
    results = ("next:z:0", "sum:z:0", "x")
    return graph_def(*_while(()), functions=_functions(trips, body, results))


def product_loop(trips: int) -> Any:
    """Make a functional `While` with a product of a 16x16 matrix in each iteration."""
    from graphmill.testing.proto_builders import const_def, graph_def, node_def

    matrix = np.random.default_rng(1).standard_normal((16, 16)).astype(np.float32) / 6
    body = [
        const_def("one", np.int32(1)),
        const_def("matrix", matrix),
        node_def("next", "AddV2", "i", "one:output:0", T="int32"),
        node_def("product", "MatMul", "y", "matrix:output:0", T="float32"),
        node_def("sum", "AddV2", "product:product:0", "x", T="float32"),
        node_def("tanh", "Tanh", "sum:z:0", T="float32"),
    ]
    results = ("next:z:0", "tanh:y:0", "x")
    return graph_def(*_while((16, 16)), functions=_functions(trips, body, results))


def _while(shape: tuple[int, ...]) -> list[Any]:
    from graphmill.testing.proto_builders import const_def, node_def

    types = ["int32", "float32", "float32"]
    functions = {"cond": _function("less"), "body": _function("update")}
    return [
        _placeholder(*shape),
        const_def("zero", np.int32(0)),
        node_def("loop", "StatelessWhile", "zero", "x", "x", T=types, **functions),
        node_def("y", "Identity", "loop:1", T="float32"),
    ]


def _placeholder(*shape: int) -> Any:
    from graphmill.ops.attrs.attr_types import ShapeAttr
    from graphmill.testing.proto_builders import node_def

    return node_def("x", "Placeholder", dtype="float32", shape=ShapeAttr(shape))


def _function(name: str) -> Any:
    from graphmill import proto

    return proto.AttrValue(func=proto.NameAttrList(name=name))


def _functions(trips: int, body: list[Any], results: Iterable[str]) -> list[Any]:
    from graphmill.testing.proto_builders import const_def, function_def, node_def

    args = {"i": "int32", "y": "float32", "x": "float32"}
    less = [
        const_def("last", np.int32(trips)),
        node_def("less", "Less", "i", "last:output:0", T="int32"),
    ]
    returned = {
        f"r{index}": (dtype, source)
        for index, (dtype, source) in enumerate(zip(args.values(), results, strict=True))
    }
    return [
        function_def("less", args, {"r": ("bool", "less:z:0")}, *less),
        function_def("update", args, returned, *body),
    ]


def chain(nodes: int) -> Any:
    """Make a chain of sums of 16 numbers."""
    from graphmill.testing.proto_builders import graph_def, node_def

    made = [_placeholder(16)]
    for index in range(nodes):
        before = f"n{index - 1}" if index else "x"
        made.append(node_def(f"n{index}", "Add", before, "x", T="float32"))
    made.append(node_def("y", "Identity", f"n{nodes - 1}", T="float32"))
    return graph_def(*made)


def blocks(nodes: int) -> Any:
    """Make a stack of equal layers of eight ops on 4x16 numbers, each with weights."""
    from graphmill.testing.proto_builders import const_def, graph_def, node_def

    made = [_placeholder(4, 16)]
    rng = np.random.default_rng(2)
    value = "x"
    float32 = {"T": "float32"}
    for n in range(nodes // 8):
        weights = rng.standard_normal((16, 16)).astype(np.float32) / 5
        made += [
            const_def(f"w{n}", weights),
            const_def(f"b{n}", np.full(16, 0.1, np.float32)),
            node_def(f"m{n}", "MatMul", value, f"w{n}", **float32),
            node_def(f"a{n}", "BiasAdd", f"m{n}", f"b{n}", **float32),
            node_def(f"t{n}", "Tanh", f"a{n}", **float32),
            node_def(f"s{n}", "Sigmoid", f"m{n}", **float32),
            node_def(f"p{n}", "Mul", f"t{n}", f"s{n}", **float32),
            node_def(f"r{n}", "AddV2", f"p{n}", "x", **float32),
        ]
        value = f"r{n}"
    made.append(node_def("y", "Identity", value, **float32))
    return graph_def(*made)


def calls(nodes: int) -> Any:
    """Make calls of one function of four nodes, each with its own scale."""
    from graphmill.testing.proto_builders import const_def, function_def, graph_def, node_def

    made = [_placeholder(16)]
    value = "x"
    types = {"Tin": ["float32", "float32"], "Tout": ["float32"]}
    for n in range(nodes // 6):
        made.append(const_def(f"c{n}", np.float32(0.5 + n % 3 / 10)))
        called = node_def(f"f{n}", "PartitionedCall", value, f"c{n}", f=_function("step"), **types)
        made.append(called)
        value = f"f{n}"
    made.append(node_def("y", "Identity", value, T="float32"))
    body = [
        const_def("half", np.float32(0.5)),
        node_def("product", "Mul", "x", "scale", T="float32"),
        node_def("sum", "AddV2", "product:z:0", "half:output:0", T="float32"),
        node_def("tanh", "Tanh", "sum:z:0", T="float32"),
    ]
    args = {"x": "float32", "scale": "float32"}
    step = function_def("step", args, {"r": ("float32", "tanh:y:0")}, *body)
    return graph_def(*made, functions=[step])


def mixed(nodes: int) -> Any:
    """Make a graph in which nothing repeats: random binary ops on recent values."""
    from graphmill.testing.proto_builders import graph_def, node_def

    rng = np.random.default_rng(3)
    made, values = [_placeholder(16)], ["x"]
    for n in range(nodes):
        op = ("AddV2", "Sub", "Maximum", "Minimum")[rng.integers(4)]
        read = [values[-1], values[-1 - int(rng.integers(min(len(values), 20)))]]
        made.append(node_def(f"n{n}", op, *read, T="float32"))
        # numbers stay small: every fourth one is between -1 and 1
        bounded = node_def(f"b{n}", "Tanh", f"n{n}", T="float32")
        made += [bounded] if n % 4 == 0 else []
        values.append(f"b{n}" if n % 4 == 0 else f"n{n}")
    made.append(node_def("y", "Identity", values[-1], T="float32"))
    return graph_def(*made)


CASES: dict[str, dict[str, Callable[[int], Any]]] = {
    "loops": {
        "v1": v1_loop,
        "functional": functional_loop,
        "nested": nested_loop,
        "product": product_loop,
    },
    "graphs": {"chain": chain, "blocks": blocks, "calls": calls, "mixed": mixed},
}


def measure(runtime: str, path: Path, shape: tuple[int, ...], settle: float) -> dict[str, Any]:
    """Load a graph and run it until `settle` seconds have passed; return the times."""
    load = {"graphmill": _graphmill_call, "tensorflow": _tensorflow_call}[runtime](path)
    x = np.full(shape, 0.5, np.float32)
    begun = time.perf_counter()
    call = load()
    loaded = time.perf_counter()
    ends, times = [], []
    while not times or ends[-1] < settle or len(times) < FIRST_STEPS + 1:
        start = time.perf_counter()
        result = call(x)
        end = time.perf_counter()
        times.append(end - start)
        ends.append(end - loaded)
    tail = times[len(times) * 3 // 4 :]
    steady = statistics.median(tail)
    return {
        "load": loaded - begun,
        "first": times[0],
        "next": statistics.median(times[1:FIRST_STEPS]),
        "worst": max(times[:FIRST_STEPS]),
        "steady": steady,
        "until steady": until_steady(ends, times, steady),
        "result": np.ravel(result).astype(float).tolist(),
    }


def until_steady(ends: list[float], times: list[float], steady: float) -> float:
    """Return when the first interval ended whose median is at most 1.5 times the steady step."""
    intervals: dict[int, list[float]] = {}
    for end, taken in zip(ends, times, strict=True):
        intervals.setdefault(int(end / INTERVAL), []).append(taken)
    reached = (n for n, steps in intervals.items() if statistics.median(steps) <= 1.5 * steady)
    return (next(reached, len(intervals)) + 1) * INTERVAL


def _graphmill_call(path: Path) -> Callable[[], Any]:
    import graphmill

    _warm_up_graphmill()
    return lambda: graphmill.Session(graph=path).make_callable("y:0", ["x:0"])


@functools.cache
def _warm_up_graphmill() -> None:
    import graphmill

    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [2, 2])
        y = x @ x
    with graphmill.Session(graph=graph) as session:
        session.run(y, {x: [[0.0, 0.0], [0.0, 0.0]]})


def _tensorflow_call(path: Path) -> Callable[[], Any]:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf

    v1 = tf.compat.v1

    def load() -> Any:
        with tf.Graph().as_default() as graph:
            tf.import_graph_def(v1.GraphDef.FromString(path.read_bytes()), name="")
        return v1.Session(graph=graph).make_callable("y:0", ["x:0"])

    with tf.Graph().as_default(), v1.Session() as session:
        session.run(tf.constant(1.0))
    return load


def serve(runtime: str) -> None:
    """Measure the graph of each job on standard input."""
    out, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        path, shape, settle = json.loads(line)
        print(json.dumps(measure(runtime, Path(path), tuple(shape), settle)), file=out, flush=True)


class Process:
    """A process that measures one graph after the other in one runtime."""

    def __init__(self, python: str, runtime: str) -> None:
        self._runtime = runtime
        self._process = subprocess.Popen(
            [python, __file__, "--serve", runtime],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def measure(self, path: Path, shape: list[int], settle: float) -> Any:
        """Return the times of a graph."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([str(path), shape, settle]) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"{self._runtime} ended with status {self._process.wait()}")
        return json.loads(line)

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def compare(name: str, found: dict[str, list[Any]]) -> dict[str, dict[str, float]]:
    """Return the medians by runtime, after comparing the results."""
    if len(found) == len(RUNTIMES):
        theirs, ours = (np.array(found[runtime][0].pop("result")) for runtime in RUNTIMES)
        if not np.allclose(ours, theirs, rtol=1e-3, atol=1e-4):
            raise SystemExit(f"{name}: {ours} is not {theirs}")
    keys = [key for key in found["graphmill"][-1] if key != "result"]
    return {
        runtime: {key: statistics.median(one[key] for one in rounds) for key in keys}
        for runtime, rounds in found.items()
    }


def row(name: str, size: int, medians: dict[str, dict[str, float]]) -> str:
    """Return a row of the table: our time and, in brackets, TensorFlow's divided by ours."""
    ours, theirs = medians["graphmill"], medians.get("tensorflow")
    cells = []
    for key, value in ours.items():
        ratio = f" ({theirs[key] / value:.2f})" if theirs and value else ""
        cells.append(f"{value * 1e3:.4g} ms{ratio}")
    return f"| {name} | {size} | " + " | ".join(cells) + " |"


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", nargs="?", choices=sorted(CASES))
    parser.add_argument("--tensorflow", help="its interpreter; without it, graphmill alone")
    parser.add_argument("--only", default="", help="kinds, separated by commas")
    parser.add_argument("--sizes", help="iterations or nodes, separated by commas")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--settle", type=float, help="seconds of steps")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve)
        return
    if not options.what:
        parser.error("say what to measure")
    pythons = {"tensorflow": options.tensorflow, "graphmill": sys.executable}
    processes = {name: Process(python, name) for name, python in pythons.items() if python}
    try:
        print_table(options, processes)
    finally:
        for process in processes.values():
            process.close()


def print_table(options: argparse.Namespace, processes: dict[str, Process]) -> None:
    """Measure all cases."""
    settle = options.settle or SETTLE_SECONDS[options.what]
    only = set(filter(None, options.only.split(",")))
    header = ["load", "first", "next", "worst", "steady", "until steady"]
    print(f"| case | size | {' | '.join(header)} |\n|{'---|' * (len(header) + 2)}")
    with tempfile.TemporaryDirectory() as folder:
        for size in map(int, (options.sizes or SIZES[options.what]).split(",")):
            for name, build in CASES[options.what].items():
                if only and name not in only:
                    continue
                message = build(size)
                path = Path(folder, f"{name}_{size}.pb")
                path.write_bytes(message.SerializeToString())
                fed = next(node for node in message.node if node.name == "x")
                shape = [dim.size for dim in fed.attr["shape"].shape.dim]
                found: dict[str, list[Any]] = {}
                for _ in range(options.rounds):
                    for runtime, process in processes.items():
                        found.setdefault(runtime, []).append(process.measure(path, shape, settle))
                print(row(name, size, compare(name, found)), flush=True)


if __name__ == "__main__":
    main()
