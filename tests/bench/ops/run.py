"""Compare ops on a million elements and on scalars with TensorFlow, in one table.

    python tests/bench/ops/run.py [--tensorflow PYTHON] [--only AddV2,Exp] [--rounds 3] [--jit off]

Each side runs in a process of its own, as a callable of a session with one node, or of the last
step of a program, fed with arrays. Ours has been called twenty times before, so that clusters are
compiled; `--jit off` measures the interpreter's kernels, which run the first steps. The two run
alternately, round by round, and the best of all rounds counts. PYTHON is the interpreter of an
environment with `tensorflow-cpu`, NumPy and protobuf; without it only our times are printed. An op
that is more than three times slower has a reason in `slower.toml`; a row without one ends with
`WHY?`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
import tomllib
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).parents[3]
sys.path[:0] = [str(ROOT / "core"), str(ROOT / "plugins")]

if TYPE_CHECKING:
    from collections.abc import Callable

CASE_FILE = Path(__file__).with_name("ops.toml")
REASONS = tomllib.loads(Path(__file__).with_name("slower.toml").read_text("utf-8"))
LIMIT = 3  # times slower than TensorFlow; a slower case needs a reason
MIN_SECONDS = 0.05  # for each measurement
_SETTLING = 20  # calls until a compiled program has replaced the executor, or was found slower


def cases() -> dict[str, Any]:
    from graphmill.testing.case import parse_cases

    return {case.id: case for case in parse_cases(CASE_FILE.read_text("utf-8"), "bench")}


def ours(jit: str, graph: Any) -> Callable[..., Any]:
    import graphmill

    session = graphmill.Session(graph=graph.graph_def, config={"graphmill": {"jit": jit}})
    call = last_step(session, graph)
    for _ in range(_SETTLING if jit != "off" else 0):
        call(*graph.feeds.values())
        graphmill.default_host().background.wait_idle()
    return call


def tensorflow(graph: Any) -> Callable[..., Any]:
    import tensorflow as tf

    theirs = tf.compat.v1.GraphDef.FromString(graph.graph_def.SerializeToString())
    tf_graph = tf.Graph()
    with tf_graph.as_default():
        tf.import_graph_def(theirs, name="")
    return last_step(tf.compat.v1.Session(graph=tf_graph), graph)


def last_step(session: Any, graph: Any) -> Callable[..., Any]:
    """Run all steps except the last; return a callable for that one."""
    *before, (fetches, targets) = graph.steps
    for expected, run in before:
        session.run([*expected, *run], dict(graph.feeds))
    return session.make_callable([*fetches, *targets], list(graph.feeds))


def worker(make: Callable[[Any], Callable[..., Any]]) -> int:
    """Answer each case id on stdin with the seconds per call, or with the error."""
    from graphmill.ops.definition.op_registry import OpRegistry
    from graphmill.testing.case_graph import case_graph

    ops, known, made = OpRegistry(), cases(), {}
    for line in sys.stdin:
        case_id = line.strip()
        try:
            if case_id not in made:
                graph = case_graph(known[case_id], ops)
                made[case_id] = (make(graph), list(graph.feeds.values()))
                made[case_id][0](*made[case_id][1])
            print("SECONDS", seconds(*made[case_id]), flush=True)
        except Exception as error:  # noqa: BLE001 - a case that one side refuses is reported
            text = " ".join(str(error).split())[:100]
            print("SECONDS nan", type(error).__name__, text, flush=True)
    return 0


def seconds(call: Callable[..., Any], values: list[Any]) -> float:
    """Return the shortest time of as many calls as fit in a short period."""
    best, end = float("inf"), time.perf_counter() + MIN_SECONDS
    while time.perf_counter() < end:
        start = time.perf_counter()
        call(*values)
        best = min(best, time.perf_counter() - start)
    return best


class Side:
    """A measuring process."""

    def __init__(self, python: str, name: str, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [python, __file__, "--worker", name, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def ask(self, case_id: str) -> float:
        """Return the seconds of a call."""
        stdin, stdout = self._process.stdin, self._process.stdout
        if stdin is None or stdout is None:
            raise SystemExit("the process has no pipes")
        print(case_id, file=stdin, flush=True)
        for line in stdout:
            if line.startswith("SECONDS nan"):
                print(f"{case_id}: {line[12:].strip()}", file=sys.stderr)
            if line.startswith("SECONDS"):
                return float(line.split()[1])
        raise SystemExit(f"{case_id}: the measuring process ended")

    def close(self) -> None:
        """End the process."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tensorflow", help="interpreter of an environment with tensorflow-cpu")
    parser.add_argument("--only", default="", help="ops, separated by commas")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--jit", default="tiered", choices=("tiered", "off", "eager"))
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        is_ours = options.worker == "ours"
        return worker(partial(ours, options.jit) if is_ours else tensorflow)
    sides = [Side(sys.executable, "ours", "--jit", options.jit)]
    if options.tensorflow:
        sides.append(Side(options.tensorflow, "tensorflow"))
    print(f"{'case':44} {'ours':>12} {'TensorFlow':>12} {'ratio':>6}")
    for case_id, case in cases().items():
        if options.only and case.op not in options.only.split(","):
            continue
        best = [min(times) for times in zip(*rounds(sides, case_id, options.rounds), strict=True)]
        print(row(case_id, best, has_reasons=options.jit != "off"), flush=True)
    for side in sides:
        side.close()
    return 0


def rounds(sides: list[Side], case_id: str, count: int) -> list[list[float]]:
    return [[side.ask(case_id) for side in sides] for _ in range(count)]


def row(case_id: str, best: list[float], *, has_reasons: bool) -> str:
    cells = [f"{case_id:44}", *(f"{1e6 * value:9.1f} µs" for value in best)]
    if len(best) == 2:
        ratio = best[0] / best[1]
        cells.append(f"{ratio:6.2f}")
        if ratio > LIMIT and has_reasons:
            cells.append(REASONS.get(case_id) or REASONS.get(case_id.split("/")[0], "WHY?"))
    return " ".join(cells)


if __name__ == "__main__":
    raise SystemExit(main())
