"""Compare compiled steps with interpreted ones, and look for memory leaks of compilations.

    python tools/verify_jit.py --kind structured --seeds 0:3000
    python tools/verify_jit.py --cases
    python tools/verify_jit.py --values
    python tools/verify_jit.py --compilations 10000

CI checks a part of this (tests/plugins/jit/test_agreement.py, test_stress.py). The runs and their
results are documented in docs/explanation/verification.md.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import math
import os
import sys
import threading
import time
import warnings
from collections import Counter
from pathlib import Path

import _checkout  # noqa: F401 - finds graphmill in this checkout
import numpy as np

from graphmill.plugin.host import Host
from graphmill.session.executors_cache import ExecutorsCacheWarning
from graphmill.session.session import Session
from graphmill.testing.case import Case, load_cases
from graphmill.testing.case_graph import GraphMaker
from graphmill.testing.case_inputs import Input
from graphmill.testing.case_nodes import parse_node
from graphmill.testing.compare import verdict
from graphmill.testing.differential.compiled_graphs import KINDS, find_jit_difference, jit_config
from graphmill.testing.differential.compiled_ops import FLUSHED, value_differences
from graphmill.testing.runners.backends import runner
from graphmill.testing.runners.kernel_runner import NotApplicableError

TASKS = Path("/proc/self/task")
_PER_SESSION = 10
_COLUMNS = 97
_REPORT_EVERY = 250


def main() -> int:
    """Run the selected checks; return the number of wrong results, at most 100."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--kind", choices=KINDS, default="structured", help="the kind of random graphs"
    )
    parser.add_argument("--seeds", default="", help="FIRST:LAST, excluding LAST")
    parser.add_argument(
        "--deterministic", action="store_true", help="bit for bit, nothing compiled"
    )
    parser.add_argument("--cases", action="store_true", help="all op cases, each in a cluster")
    parser.add_argument("--values", action="store_true", help="all ops, unusual values")
    parser.add_argument(
        "--compilations", type=int, default=0, help="the number of small clusters to compile"
    )
    arguments = parser.parse_args()
    wrong = 0
    host = Host()
    if arguments.seeds:
        first, last = map(int, arguments.seeds.split(":"))
        wrong += check_graphs(arguments.kind, first, last, host, arguments.deterministic)
    if arguments.cases:
        wrong += check_cases(host)
    if arguments.values:
        wrong += check_values(host)
    if arguments.compilations:
        warnings.simplefilter("ignore", ExecutorsCacheWarning)
        watch_memory(arguments.compilations, host)
    return min(wrong, 100)


def check_graphs(kind: str, first: int, last: int, host: Host, deterministic: bool) -> int:
    """Check random graphs; return the number of differences."""
    start, wrong = time.monotonic(), 0
    for seed in range(first, last):
        difference = find_jit_difference(kind, seed, host, deterministic=deterministic)
        if difference:
            wrong += 1
            sys.stdout.write(difference + "\n")
        if not (seed + 1 - first) % _REPORT_EVERY:
            sys.stdout.write(f"{seed + 1 - first} {kind} graphs, {wrong} differ\n")
            sys.stdout.flush()
    seconds = time.monotonic() - start
    sys.stdout.write(f"{last - first} {kind} graphs, {wrong} differ, {seconds:.0f} s\n")
    return wrong


def check_cases(host: Host) -> int:
    """Check all op cases; return the number of wrong results."""
    start, wrong, outcomes = time.monotonic(), 0, Counter[str]()
    runner_ = runner("jit", host)
    for case in load_cases():
        try:
            difference = verdict(case, runner_.run, "jit")
        except NotApplicableError:
            outcomes["not applicable"] += 1
            continue
        outcomes["run"] += 1
        if difference:
            wrong += 1
            sys.stdout.write(f"{case.id}: {difference}\n")
    counts = ", ".join(f"{count} {what}" for what, count in outcomes.items())
    seconds = time.monotonic() - start
    sys.stdout.write(f"op cases: {counts}, {wrong} wrong, {seconds:.0f} s\n")
    return wrong


def check_values(host: Host) -> int:
    """Check special values in all ops that can be traced; return the number of differences."""
    start, wrong, count = time.monotonic(), 0, 0
    by_op: dict[str, list[Case]] = {}
    for case in load_cases():
        by_op.setdefault(case.op, []).append(case)
    for op, cases in by_op.items():
        if op in FLUSHED or not host.kernels.registrations(host.ops.get(op), ("jax",)):
            continue
        count += 1
        for difference in value_differences(op, cases, host):
            wrong += 1
            sys.stdout.write(difference + "\n")
            sys.stdout.flush()
    seconds = time.monotonic() - start
    sys.stdout.write(f"unusual values of {count} ops, {wrong} wrong, {seconds:.0f} s\n")
    return wrong


def watch_memory(count: int, host: Host) -> None:
    """Compile a small cluster for `count` different shapes; report memory and threads regularly."""
    graph = GraphMaker(host.ops)
    graph.placeholder("x", Input("float32", (1, 1), "", 0))
    for text in ("a = Mul(x, x)", "y = AddV2(a, x)"):
        graph.node(parse_node(text, {}))
    done, start, report_at = 0, time.monotonic(), 0
    while done < count:
        with Session(graph=graph.graph_def, config=jit_config("eager"), host=host) as session:
            for _ in range(_PER_SESSION):
                shape = 1 + done % _COLUMNS, 1 + done // _COLUMNS
                session.run("y:0", {"x:0": np.ones(shape, np.float32)})
                done += 1
        if done >= report_at:
            report_at += max(_PER_SESSION, count // 20)
            gc.collect()
            sys.stdout.write(
                f"{done} compilations, {time.monotonic() - start:.0f} s: {_memory():.0f} MB, "
                f"{_allocated():.1f} MB allocated in C, "
                f"{threading.active_count()} Python threads, "
                f"{sum(1 for _ in TASKS.iterdir())} threads, {len(gc.get_objects())} objects\n"
            )
            sys.stdout.flush()


def _memory() -> float:
    """Return the resident memory of this process in MB."""
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


class _Mallinfo(ctypes.Structure):
    """The result of glibc's `mallinfo2` (malloc.h)."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks"),
            *("fordblks", "keepcost"),
        )
    ]


def _allocated() -> float:
    """Return the memory in use by C's allocator, in MB; NaN if it is not glibc's.

    Unlike resident memory, this does not grow with fragmentation.
    """
    mallinfo = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if mallinfo is None:
        return math.nan
    mallinfo.restype = _Mallinfo
    usage = mallinfo()
    return float((usage.uordblks + usage.hblkhd) / 1e6)


if __name__ == "__main__":
    sys.exit(main())
