#!/usr/bin/env python3
"""Search for kernels that run long, or take much memory, on small input with large values.

    python tools/sweep_limits.py [--op Conv2D] [--family nn] [--cases 2] [--out found.jsonl]
    python tools/sweep_limits.py --grow --deadline 0.2 --late 1
    python tools/sweep_limits.py --sample 100 --seed 1

Takes op cases and makes one value of an attr or input large at a time, or inputs that have no
elements, but large sizes; with `--grow`, makes all inputs large instead: more elements, and longer
strings. Each instance runs in a child process with
a limit for its memory, under a deadline (of 2 s) and a small memory budget. Reported are

- `late`: the step took some seconds of processor time (2 s) beyond its deadline, or had not ended
  `GIVE_UP_SECONDS` after it;
- `memory`: it took much more than the budget, and was not refused by the budget;
- `internal`: its error is a fault of graphmill: an internal one that no kernel raises itself, or
  no error of graphmill;
- `crash`: the child process ended.

The instances are the same in each run with the same options.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import itertools
import json
import math
import os
import queue
import random
import resource
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import _checkout  # noqa: F401 - puts the checkout on the path
import numpy as np

import graphmill
from graphmill import errors, proto
from graphmill.testing.case import load_cases
from graphmill.testing.case_graph import case_graph

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphmill.testing.case import Case

GIVE_UP_SECONDS: Final = 30.0
"""Seconds after its deadline at which a child process is killed."""
START_SECONDS: Final = 300.0
"""Seconds in which a child process must be ready, even on a busy machine."""
BUDGET: Final = 64 << 20
EXCESS: Final = 4
"""The multiple of the budget that a step may use: all arrays are checked one by one."""
ADDRESS_SPACE: Final = 8 << 30
LARGE: Final = (1000, 100_000, 10**7, 2**31 - 1, 2**40, 2**62)
LARGE_FLOATS: Final = (1e-30, 1e5, 1e9, 1e30)
LARGE_SIZES: Final = (30_000, 2**31 - 1)
"""Sizes of inputs without elements: a product of two is large, or one alone."""
SMALL_INPUT: Final = 64
"""Inputs with more elements are not changed."""
GROWN_ELEMENTS: Final = 1 << 20
"""Maximum number of elements of a grown input."""
GROWN_TEXT: Final = 1 << 22
"""Maximum number of bytes of all strings of a grown input together."""
FAULTS: Final = ("late", "memory", "internal", "crash")
"""The outcomes that are reported."""
UNCHANGED: Final = frozenset({"seed", "seed2", "SleepOp", "SleepIdentityOp", "SleepDataset"})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--op", action="append", help="op (default: all that have cases)")
    parser.add_argument("--family", action="append", help="family of cases (default: all)")
    parser.add_argument("--cases", type=int, default=2, help="cases of each op and set of attrs")
    parser.add_argument("--out", help="file for what is found, one JSON object per line")
    parser.add_argument("--grow", action="store_true", help="make all inputs large instead")
    parser.add_argument("--deadline", type=float, default=2.0, help="of each step, in seconds")
    parser.add_argument("--late", type=float, default=2.0, help="seconds that are late")
    parser.add_argument("--sample", type=int, help="number of random instances (default: all)")
    parser.add_argument("--seed", type=int, default=0, help="of the random instances")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return child(options)
    counts: Counter[str] = Counter()
    with contextlib.ExitStack() as stack:
        out = stack.enter_context(Path(options.out).open("w")) if options.out else None
        runner = Child(options)
        stack.callback(runner.stop)
        for case, change in instances(options):
            found = runner.run(case.id, change)
            counts[found["outcome"]] += 1
            if found["outcome"] in FAULTS:
                found |= {"op": case.op, "case": case.id, "change": change}
                print(json.dumps(found), flush=True)
                if out:
                    print(json.dumps(found), file=out, flush=True)
    print(", ".join(f"{count} {name}" for name, count in sorted(counts.items())))
    return int(any(counts[name] for name in FAULTS))


def instances(options: argparse.Namespace) -> Iterator[tuple[Case, list[Any]]]:
    """Return pairs of a case and a change of it: all of them, or a sample."""
    if options.sample is None:
        for case in chosen(options):
            for change in changes(case, options):
                yield case, change
        return
    rng = random.Random(options.seed)
    cases = list(chosen(options))
    left = options.sample
    while left:
        case = rng.choice(cases)
        if found := changes(case, options):
            yield case, rng.choice(found)
            left -= 1


def changes(case: Case, options: argparse.Namespace) -> list[list[Any]]:
    """Return the changes of a case that the options ask for."""
    return list(map(list, GROWTH)) if options.grow else changes_of(case)


def chosen(options: argparse.Namespace) -> Iterator[Case]:
    """Return the cases to change: a few of each op."""
    by_op: defaultdict[str, list[Case]] = defaultdict(list)
    for case in load_cases():
        if options.family and not any(case.stem.startswith(name) for name in options.family):
            continue
        if case.op not in UNCHANGED and not case.error:
            by_op[case.op].append(case)
    for op in options.op or sorted(by_op):
        cases = by_op[op]
        step = max(1, len(cases) // options.cases)
        yield from itertools.islice(cases[::step], options.cases)


# ------------------------------------------------------------------------------------ the changes


GROWTH: Final = (["grow", "sizes"], ["grow", "first"], ["grow", "count"], ["grow", "length"])
"""Larger inputs: all axes, the first axis, more strings, longer strings."""


def changes_of(case: Case) -> list[list[Any]]:
    """Return the changes of a case, as JSON: where a value is, and what it becomes."""
    graph = case_graph(case, graphmill.default_host().ops)
    return [
        *_feed_changes(graph.feeds),
        *_empty_changes(graph.feeds),
        *_attr_changes(graph.graph_def),
    ]


def _feed_changes(feeds: dict[str, Any]) -> Iterator[list[Any]]:
    for name, value in feeds.items():
        if not isinstance(value, np.ndarray) or not 0 < value.size <= SMALL_INPUT:
            continue
        places = (0, value.size - 1, "all") if value.size > 1 else ("all",)
        if value.dtype.kind in "iu":
            most = np.iinfo(value.dtype).max
            numbers: list[Any] = sorted({min(int(most), number) for number in LARGE})
        elif value.dtype.kind == "f":
            numbers = list(LARGE_FLOATS)
        else:
            continue
        for place, number in itertools.product(places, numbers):
            yield ["feed", name, place, number]


def _empty_changes(feeds: dict[str, Any]) -> Iterator[list[Any]]:
    """Yield the sizes that become 0, while others become large."""
    arrays = [value for value in feeds.values() if isinstance(value, np.ndarray)]
    sizes = {size for value in arrays if value.ndim > 1 for size in value.shape if size > 1}
    for size, large in itertools.product(sorted(sizes), LARGE_SIZES):
        yield ["empty", size, large]


def _attr_changes(graph_def: Any) -> Iterator[list[Any]]:
    for index, node in enumerate(graph_def.node):
        for name, attr in node.attr.items():
            if name in UNCHANGED or name.startswith("_"):
                continue
            if attr.HasField("i"):
                yield from (["i", index, name, number] for number in LARGE)
            elif attr.HasField("f"):
                yield from (["f", index, name, number] for number in LARGE_FLOATS)
            elif (
                attr.HasField("shape") and not attr.shape.unknown_rank and node.op != "Placeholder"
            ):
                for place in range(len(attr.shape.dim)):
                    yield from (["shape", index, name, place, number] for number in LARGE)
            elif attr.HasField("list") and attr.list.i:
                for place in (*range(len(attr.list.i)), "inner"):
                    yield from (["ints", index, name, place, number] for number in LARGE)


def changed(case: Case, change: list[Any]) -> Any:
    """Return the graph of a case with a change."""
    graph = case_graph(case, graphmill.default_host().ops)
    kind, where, *rest = change
    if kind == "grow":
        graph.feeds.update(grown(graph.feeds, where))
        return graph
    if kind == "empty":
        graph.feeds.update(emptied(graph.feeds, where, *rest))
        return graph
    if kind == "feed":
        place, number = rest
        value = np.array(graph.feeds[where])
        value.reshape(-1)[slice(None) if place == "all" else place] = number
        graph.feeds[where] = value
        return graph
    name, *rest = rest
    attr = graph.graph_def.node[where].attr[name]
    if kind == "i":
        attr.i = rest[0]
    elif kind == "f":
        attr.f = rest[0]
    elif kind == "shape":
        attr.shape.dim[rest[0]].size = rest[1]
    elif rest[0] == "inner":  # height and width, or rows and columns
        for place in range(1, max(2, len(attr.list.i) - 1)):
            attr.list.i[place % len(attr.list.i)] = rest[1]
    else:
        attr.list.i[rest[0]] = rest[1]
    return graph


def emptied(feeds: dict[str, Any], zero: int, large: int) -> dict[str, np.ndarray[Any, Any]]:
    """Return the inputs that have a dimension of size `zero`, which becomes 0.

    Their other sizes become `large`, except 1.
    """
    found = {}
    for name, value in feeds.items():
        if isinstance(value, np.ndarray) and zero in value.shape:
            sizes = [0 if size == zero else large if size > 1 else 1 for size in value.shape]
            found[name] = np.empty(sizes, value.dtype)
    return found


def grown(feeds: dict[str, Any], kind: str) -> dict[str, np.ndarray[Any, Any]]:
    """Return larger inputs; sizes that were equal are equal afterwards.

    Raises:
        ValueError: no input can be larger.
    """
    arrays = {name: value for name, value in feeds.items() if isinstance(value, np.ndarray)}
    texts = {name: value for name, value in arrays.items() if value.dtype.kind == "O"}
    if kind == "length":
        return {
            name: _longer(value) for name, value in texts.items() if value.size
        } or _cannot_grow()
    chosen = texts if kind == "count" else arrays
    found = {}
    for factor in (1 << power for power in range(20, 0, -1)):
        for name, value in chosen.items():
            axes = value.ndim if kind == "sizes" else min(value.ndim, 1)
            repeats = [factor if size > 1 else 1 for size in value.shape[:axes]]
            if value.size * math.prod(repeats) > GROWN_ELEMENTS:
                break
            if set(repeats) == {factor}:
                found[name] = np.tile(value, (*repeats, *[1] * (value.ndim - axes)))
        else:
            return found or _cannot_grow()
        found.clear()
    return _cannot_grow()


def _longer(value: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    longer = np.empty_like(value)
    for index, text in np.ndenumerate(value):
        content = text.encode() if isinstance(text, str) else bytes(text)
        longer[index] = content * (GROWN_TEXT // value.size // max(len(content), 1))
    return longer


def _cannot_grow() -> Any:
    raise ValueError("no input can be larger")


# -------------------------------------------------------------------------------------- the child


class Child:
    """A process that runs instances, and is replaced when it hangs or ends."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._times = options.deadline, options.late
        self._process: Any = None
        self._lines: queue.Queue[str] = queue.Queue()
        self._folder = tempfile.TemporaryDirectory()  # some ops write files

    def run(self, case: str, change: list[Any]) -> dict[str, Any]:
        """Run an instance; return its outcome."""
        if self._process is None:
            self._start()
        started = time.monotonic()
        try:
            self._process.stdin.write(json.dumps([case, change]) + "\n")
            self._process.stdin.flush()
            text = self._lines.get(timeout=self._times[0] + GIVE_UP_SECONDS)
        except queue.Empty:
            self.stop()
            return {"outcome": "late", "seconds": GIVE_UP_SECONDS, "error": "killed"}
        except BrokenPipeError:
            text = ""
        if not text:
            code = self._process.wait()
            self.stop()
            return {"outcome": "crash", "code": code, "seconds": time.monotonic() - started}
        return dict(json.loads(text))

    def stop(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _start(self) -> None:
        deadline, late = map(str, self._times)
        script = str(Path(__file__).resolve())
        command = [sys.executable, script, "--child", "--deadline", deadline, "--late", late]
        environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
            cwd=self._folder.name,
        )
        self._lines = queue.Queue()
        threading.Thread(
            target=_forward, args=(self._process.stdout, self._lines), daemon=True
        ).start()
        self._lines.get(timeout=START_SECONDS)  # it is ready


def _forward(stream: Any, lines: queue.Queue[str]) -> None:
    for line in stream:
        lines.put(line)
    lines.put("")


def child(options: argparse.Namespace) -> int:
    """Run instances that are read from the standard input."""
    results = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # the output of kernels must not mix with the results
    cases = {case.id: case for case in load_cases()}
    for name in ("scipy.special", "scipy.stats.qmc", "jax.numpy"):  # imports are not what is timed
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    run_instance(next(iter(cases.values())), None, options)
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    print("ready", file=results, flush=True)
    for line in sys.stdin:
        name, change = json.loads(line)
        print(json.dumps(run_instance(cases[name], change, options)), file=results, flush=True)
    return 0


def run_instance(
    case: Case, change: list[Any] | None, options: argparse.Namespace
) -> dict[str, Any]:
    """Run an instance in this process; return its outcome, time, memory and error."""
    try:
        graph = case_graph(case, graphmill.default_host().ops)
        if change is not None:
            graph = changed(case, change)
    except (ValueError, OverflowError, errors.OpError) as error:
        return {"outcome": "not made", "error": str(error)[:200]}
    config = proto.ConfigProto(operation_timeout_in_ms=int(options.deadline * 1000))
    config.graphmill.jit = "off"
    config.graphmill.memory_budget_bytes = BUDGET
    config.graph_options.optimizer_options.opt_level = -1
    before = _reset_peak()
    started, processor_time = time.monotonic(), time.process_time()
    failure: BaseException | None = None
    try:
        with graphmill.Session(graph=graph.graph_def, config=config) as session:
            for fetches, targets in graph.steps:
                session.run(list(fetches), graph.feeds, targets=list(targets))
    except Exception as error:  # noqa: BLE001 - errors are outcomes
        failure = error
    seconds = time.monotonic() - started
    processor_time = time.process_time() - processor_time
    taken = _peak() - before
    text = "" if failure is None else f"{type(failure).__name__}: {failure}"[:300]
    outcome = "error" if failure is not None else "done"
    if isinstance(failure, errors.DeadlineExceededError):
        outcome = "stopped"
    if processor_time > options.deadline + options.late:
        outcome = "late"
    elif taken > EXCESS * BUDGET or _is_out_of_memory(failure):
        outcome = "memory"
    elif _is_internal(failure):
        outcome = "internal"
    return {"outcome": outcome, "seconds": round(seconds, 1), "mb": taken >> 20, "error": text}


def _is_internal(failure: BaseException | None) -> bool:
    """Return whether a failure is a fault of graphmill.

    Some kernels raise an `InternalError` for invalid arguments, as TensorFlow's do.
    """
    if not isinstance(failure, errors.InternalError):
        return failure is not None and not isinstance(failure, errors.OpError)
    place = Path(traceback.extract_tb(failure.__traceback__)[-1].filename)
    return failure.__cause__ is not None or Path(graphmill.__file__).parent in place.parents


def _is_out_of_memory(failure: BaseException | None) -> bool:
    """Return whether an allocation failed without a check against the memory budget."""
    is_exhausted = isinstance(failure, errors.ResourceExhaustedError)
    return (
        is_exhausted
        and "memory_budget_bytes" not in str(failure)
        and "out of memory" in str(failure)
    )


def _reset_peak() -> int:
    Path("/proc/self/clear_refs").write_text("5")
    return _peak()


def _peak() -> int:
    with Path("/proc/self/status").open() as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))


if __name__ == "__main__":
    sys.exit(main())
