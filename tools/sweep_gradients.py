#!/usr/bin/env python3
"""Draw op instances, compute gradients in TensorFlow and graphmill, and print the differences.

    python tools/sweep_gradients.py --tensorflow PYTHON [--op MatMul] [--family math] [--count 20]
        [--seed 0] [--order 2] [--cases] [--strict] [--out differences.jsonl]

PYTHON is the interpreter of an environment with `tensorflow-cpu` (default: this one). Instances are
drawn as in `sweep_ops.py`, some with static shapes and some without. `--cases` uses the stored
cases, including programs, instead. `graphmill.testing.oracle.gradient_results` computes the
gradients.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import _checkout  # noqa: F401 - puts the checkout on the path

from graphmill.ops.definition.effects import effects_of
from graphmill.ops.definition.op_registry import OpRegistry
from graphmill.testing.case import Case, load_cases
from graphmill.testing.case_writer import case_text, table_of
from graphmill.testing.differential.gradients import classify
from graphmill.testing.generators.op_instances import OUTSIDE_EFFECTS, Sweep, is_swept
from graphmill.testing.oracle.gradient_results import GradientRequest
from graphmill.testing.runners.subprocess_runner import (
    CRASHED,
    GRADIENTS,
    HANGS,
    TENSORFLOW_GRADIENTS,
    CaseProcess,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--op", action="append", help="op (default: all that have cases)")
    parser.add_argument("--family", action="append", help="family of ops (default: all)")
    parser.add_argument("--count", type=int, default=20, help="instances of each op")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--order", type=int, choices=(1, 2), default=1)
    parser.add_argument("--cases", action="store_true", help="use the stored cases instead")
    parser.add_argument("--tensorflow", default=sys.executable, metavar="PYTHON")
    parser.add_argument("--strict", action="store_true", help="report accepted differences too")
    parser.add_argument("--out", help="file for the differences, one JSON object per line")
    options = parser.parse_args()
    seeds = by_op(options)
    counts: Counter[str] = Counter()
    start = time.perf_counter()
    with contextlib.ExitStack() as stack:
        theirs = stack.enter_context(CaseProcess(TENSORFLOW_GRADIENTS, python=options.tensorflow))
        ours = stack.enter_context(CaseProcess(GRADIENTS, seconds=60))
        out = stack.enter_context(Path(options.out).open("w")) if options.out else None
        for op, cases in sorted(seeds.items()):
            waited = 0
            for text in requests(op, cases, options):
                expected = theirs.run(text)
                waited += expected.error in (HANGS, CRASHED, "DeadlineExceeded")
                if waited > 2:  # the op waits for other nodes, or crashes TensorFlow
                    break
                outcome, difference = classify(text, expected, ours.run, strict=options.strict)
                counts[outcome] += 1
                if outcome != "differ":
                    continue
                print(f"\n{text}\n# {difference}", flush=True)
                if out:
                    record = {"op": op, "text": text, "difference": difference}
                    print(json.dumps(record), file=out, flush=True)
    took = time.perf_counter() - start
    summary = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
    print(f"\n{len(seeds)} ops: {summary}; {took:.0f} s")
    return int(counts["differ"] > 0)


def by_op(options: argparse.Namespace) -> dict[str, list[Case]]:
    ops = OpRegistry()
    groups: dict[str, list[Case]] = defaultdict(list)
    for case in load_cases(families=options.family):
        op_def = ops.get(case.op)
        is_meant = not options.op or case.op in options.op
        is_safe = not OUTSIDE_EFFECTS & effects_of(op_def)
        if is_meant and (is_safe if options.cases else is_swept(op_def)):
            groups[case.op].append(case)
    return groups


def requests(op: str, cases: list[Case], options: argparse.Namespace) -> Iterator[str]:
    """Yield the requests for one op, each with a case."""
    if options.cases:
        texts = (case_text(op, table_of(case)) for case in cases if not case.error)
        requests = [
            GradientRequest(options.order, shapes=has_shapes) for has_shapes in (True, False)
        ]
        for text, request in itertools.product(itertools.islice(texts, options.count), requests):
            yield request.text(text)
        return
    drawn = Sweep(OpRegistry().get(op), cases, options.seed).texts(options.count)
    for text, has_shapes in zip(drawn, itertools.cycle((True, True, False)), strict=False):
        yield GradientRequest(options.order, shapes=has_shapes).text(text)


if __name__ == "__main__":
    raise SystemExit(main())
