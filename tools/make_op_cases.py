#!/usr/bin/env python3
"""Write TensorFlow's results of the op cases: core/graphmill/testing/cases/results/*.npz.

Needs an environment with `tensorflow-cpu`, NumPy and this checkout:

    python tools/make_op_cases.py [--file math] [--all] [--check]

Only cases that changed run again (with `--all`, every case). If the `error` of a case is not
TensorFlow's, the tool writes nothing for that file and exits with 1.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace

import _checkout  # noqa: F401 - puts the checkout on the path
import numpy as np

from graphmill.testing.case import Case, case_files, load_cases
from graphmill.testing.golden import CaseResult, Stored, read_results, write_results
from graphmill.testing.oracle import tensorflow_oracle


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--file", action="append", help="stem of a case file (default: all)")
    parser.add_argument("--all", action="store_true", help="run every case again")
    parser.add_argument("--check", action="store_true", help="report stale results, write nothing")
    options = parser.parse_args()
    stems = options.file or [path.stem for path in case_files()]
    return max(make(stem, run_all=options.all, check=options.check) for stem in stems)


def make(stem: str, *, run_all: bool, check: bool) -> int:
    path = case_files()[0].parent / "results" / f"{stem}.npz"
    cases = load_cases(stems=[stem])
    old = {} if run_all else read_results(path)
    stale = [c for c in cases if c.id not in old or old[c.id].digest != c.digest]
    removed = set(old) - {c.id for c in cases}
    if check or not (stale or removed):
        print(
            f"{stem}: {len(cases)} cases, {len(stale)} without a current result, "
            f"{len(removed)} results without a case"
        )
        return int(check and bool(stale or removed))
    start = time.perf_counter()
    new = {case.id: old[case.id] for case in cases if case not in stale}
    wrong = 0
    for case in stale:
        result = run_in_tensorflow(case)
        wrong += report_error(case, result.error, result.message)
        new[case.id] = Stored(case.digest, reproducible(case, result))
    took = time.perf_counter() - start
    if wrong:
        print(f"{stem}: {wrong} cases do not have the error in their file; nothing written")
        return 1
    write_results(path, new, tensorflow_oracle.version())
    size = path.stat().st_size
    print(f"{stem}: {len(cases)} cases, {len(stale)} run in {took:.1f} s, {size} bytes")
    return 0


def run_in_tensorflow(case: Case) -> CaseResult:
    try:
        return tensorflow_oracle.run_case(case)
    except Exception as error:
        raise SystemExit(f"{case.id}: {type(error).__name__}: {error}") from error


def reproducible(case: Case, result: CaseResult) -> CaseResult:
    """Replace outputs with undefined content by zeros, so that the file is reproducible."""
    outputs = [
        np.zeros_like(value) if case.compare == "shape" or index in case.unspecified else value
        for index, value in enumerate(result.outputs)
    ]
    return replace(result, outputs=tuple(outputs))


def report_error(case: Case, error: str, message: str) -> int:
    if case.differs or error == case.error:
        return 0
    theirs = f"{error}: {brief(message)}" if error else "a result"
    print(f"{case.id}: the file has error = {case.error!r}, TensorFlow gives {theirs}")
    return 1


def brief(message: str) -> str:
    """Remove the Python traceback of the node from TensorFlow's message."""
    text = message.partition("\nNode: ")[2].partition("\n\t [[")[0].strip() or message
    return text.partition("\nRegistered devices")[0][:300]


if __name__ == "__main__":
    raise SystemExit(main())
