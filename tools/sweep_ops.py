#!/usr/bin/env python3
"""Draw op instances that no case covers, run them in TensorFlow and graphmill, and compare.

    python tools/sweep_ops.py --tensorflow PYTHON [--op MatMul] [--family math] [--count 20]
        [--seed 0] [--backends session,jax] [--strict] [--out differences.jsonl]

PYTHON is the interpreter of an environment with `tensorflow-cpu` (default: this one). Each system
runs in a process of its own; if it crashes or hangs, this is reported and the process is restarted.
The printed differences can be pasted into a case file. The instances are drawn by
`graphmill.testing.generators.op_instances`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path

import _checkout  # noqa: F401 - puts the checkout on the path
from make_op_cases import brief

from graphmill.ops.definition.op_registry import OpRegistry
from graphmill.testing.case import Case, load_cases
from graphmill.testing.differential.op_instances import classify
from graphmill.testing.generators.op_instances import Sweep, is_swept
from graphmill.testing.runners.subprocess_runner import HANGS, CaseProcess


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--op", action="append", help="op (default: all that have cases)")
    parser.add_argument("--family", action="append", help="family of ops (default: all)")
    parser.add_argument("--count", type=int, default=20, help="instances of each op")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--backends", default="session", help="session, numpy, jax")
    parser.add_argument("--tensorflow", default=sys.executable, metavar="PYTHON")
    parser.add_argument("--strict", action="store_true", help="report accepted differences too")
    parser.add_argument("--out", help="file for the differences, one JSON object per line")
    options = parser.parse_args()
    seeds = by_op(options.family)
    counts: Counter[str] = Counter()
    start = time.perf_counter()
    with contextlib.ExitStack() as stack:
        theirs = stack.enter_context(CaseProcess("tensorflow", python=options.tensorflow))
        ours = {
            name: stack.enter_context(CaseProcess(name)) for name in options.backends.split(",")
        }
        out = stack.enter_context(Path(options.out).open("w")) if options.out else None
        ops = options.op or sorted(seeds)
        for op in ops:
            for record in sweep(op, seeds[op], options, theirs, ours, counts):
                print(
                    f"\n{record['text']}\n# {record['backend']}: {record['difference']}", flush=True
                )
                if out:
                    print(json.dumps(record), file=out, flush=True)
    took = time.perf_counter() - start
    summary = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
    print(f"\n{len(ops)} ops: {summary}; {took:.0f} s")
    return int(counts["differ"] > 0)


def by_op(families: list[str] | None) -> dict[str, list[Case]]:
    ops = OpRegistry()
    groups: dict[str, list[Case]] = defaultdict(list)
    for case in load_cases(families=families):
        if is_swept(ops.get(case.op)):
            groups[case.op].append(case)
    return groups


def sweep(op, seeds, options, theirs, ours, counts):
    """Yield the differences of one op."""
    hung = 0
    for text in Sweep(OpRegistry().get(op), seeds, options.seed).texts(options.count):
        expected = theirs.run(text)
        hung += expected.error in (HANGS, "DeadlineExceeded")
        if hung > 2:  # the op waits for other nodes, so most instances would hang
            return
        for backend, process in ours.items():
            outcome, difference = classify(
                text, expected, process.run, backend, strict=options.strict
            )
            counts[outcome] += 1
            if outcome == "differ":
                yield {
                    "op": op,
                    "backend": backend,
                    "text": text,
                    "difference": difference,
                    "tensorflow": brief(expected.message),
                }


if __name__ == "__main__":
    raise SystemExit(main())
