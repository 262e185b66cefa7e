#!/usr/bin/env python3
"""Run op cases in TensorFlow and in graphmill in one process, and print the differences.

    python tools/compare_with_tensorflow.py --family math [--op MatMul] [--backend jax] [--verbose]

Needs an environment with `tensorflow-cpu` and graphmill's dependencies; the checkout itself is put
on the path. `--stored` compares with the stored results instead, which needs no TensorFlow.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter

import _checkout

from graphmill.testing.case import FOLDER, Case, load_cases
from graphmill.testing.compare import difference
from graphmill.testing.golden import CaseResult, read_results
from graphmill.testing.runners import backends
from graphmill.testing.runners.kernel_runner import NoKernelError, NotApplicableError


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--family", action="append", help="family of ops (default: all)")
    parser.add_argument("--op", action="append", help="op (default: all)")
    parser.add_argument("--backend", default="numpy", choices=["numpy", "jax", "session"])
    parser.add_argument("--stored", action="store_true", help="compare with the stored results")
    parser.add_argument("--verbose", action="store_true", help="also print cases that do not apply")
    options = parser.parse_args()
    cases = [
        case
        for case in load_cases(families=options.family)
        if options.op is None or case.op in options.op
    ]
    expected = _stored if options.stored else _live()
    runner = backends.runner(options.backend, _checkout.host())
    counts: Counter[str] = Counter()
    start = time.perf_counter()
    for case in cases:
        outcome, text = compare(case, expected(case), runner, options.backend)
        counts[outcome] += 1
        if outcome == "differs" or (options.verbose and text):
            print(f"{case.id}: {text}")
    took = time.perf_counter() - start
    ops = len({case.op for case in cases})
    summary = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
    if missing:
        print("no kernel yet:", " ".join(sorted(missing)))
    print(f"{options.backend}: {ops} ops, {len(cases)} cases: {summary}; {took:.1f} s")
    return int(counts["differs"] > 0)


def compare(
    case: Case, expected: CaseResult | None, runner: backends.Runner, backend: str
) -> tuple[str, str]:
    if expected is None:
        return "without a stored result", ""
    if backend in case.skip:
        return "skipped", case.skip[backend]
    try:
        actual = runner.run(case)
    except NoKernelError:
        missing.add(case.op)
        return "without a kernel", ""
    except NotApplicableError as reason:
        return "not applicable", str(reason)
    if not case.differs and case.error != expected.error:
        theirs = f"{expected.error!r} {expected.message[:200]}"
        return "differs", f"the file has error = {case.error!r}, TensorFlow {theirs}"
    text = difference(case, expected, actual, backend)
    return ("differs" if text else "agree"), text


missing: set[str] = set()  # ops without any kernel


def _live():
    from graphmill.testing.oracle import tensorflow_oracle

    return tensorflow_oracle.run_case


def _stored(case: Case) -> CaseResult | None:
    stored = read_results(FOLDER / "results" / f"{case.stem}.npz").get(case.id)
    return stored.result if stored and stored.digest == case.digest else None


if __name__ == "__main__":
    raise SystemExit(main())
