#!/usr/bin/env python3
"""Write TensorFlow's answers to the op cases: core/graphmill/testing/cases/results/*.npz.

Needs an environment with `tensorflow-cpu`, NumPy and this checkout:

    python tools/make_op_cases.py [--file math] [--all] [--check]

Only cases whose question changed are asked again (`--all`: every one). Exits with 1 and writes
nothing for a file in which a case's `error` is not what TensorFlow says.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace

import _checkout  # noqa: F401 - puts the checkout on the path
import numpy as np

from graphmill.testing.case import Case, case_files, load_cases
from graphmill.testing.golden import Answer, Stored, read_answers, write_answers
from graphmill.testing.oracle import tensorflow_oracle


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--file", action="append", help="stem of a case file (default: all)")
    parser.add_argument("--all", action="store_true", help="ask everything again")
    parser.add_argument("--check", action="store_true", help="say what is stale, write nothing")
    options = parser.parse_args()
    stems = options.file or [path.stem for path in case_files()]
    return max(make(stem, ask_all=options.all, check=options.check) for stem in stems)


def make(stem: str, *, ask_all: bool, check: bool) -> int:
    path = case_files()[0].parent / "results" / f"{stem}.npz"
    cases = load_cases(stems=[stem])
    old = {} if ask_all else read_answers(path)
    stale = [c for c in cases if c.id not in old or old[c.id].digest != c.digest]
    gone = set(old) - {c.id for c in cases}
    if check or not (stale or gone):
        print(f"{stem}: {len(cases)} cases, {len(stale)} without a fresh answer, {len(gone)} gone")
        return int(check and bool(stale or gone))
    start = time.perf_counter()
    new = {case.id: old[case.id] for case in cases if case not in stale}
    wrong = 0
    for case in stale:
        answer = ask(case)
        wrong += complain(case, answer.error, answer.message)
        new[case.id] = Stored(case.digest, without_chance(case, answer))
    took = time.perf_counter() - start
    if wrong:
        print(f"{stem}: {wrong} cases are not as their file says; nothing written")
        return 1
    write_answers(path, new, tensorflow_oracle.version())
    size = path.stat().st_size
    print(f"{stem}: {len(cases)} cases, {len(stale)} asked in {took:.1f} s, {size} bytes")
    return 0


def ask(case: Case) -> Answer:
    try:
        return tensorflow_oracle.ask(case)
    except Exception as error:
        raise SystemExit(f"{case.id}: {type(error).__name__}: {error}") from error


def without_chance(case: Case, answer: Answer) -> Answer:
    """Put zeros where TensorFlow left what was in memory, so that the file is always the same."""
    outputs = [
        np.zeros_like(value) if case.compare == "shape" or index in case.unspecified else value
        for index, value in enumerate(answer.outputs)
    ]
    return replace(answer, outputs=tuple(outputs))


def complain(case: Case, error: str, message: str) -> int:
    if case.differs or error == case.error:
        return 0
    said = f"{error}: {brief(message)}" if error else "an answer"
    print(f"{case.id}: the file says error = {case.error!r}, TensorFlow gives {said}")
    return 1


def brief(message: str) -> str:
    """Leave out where in Python the node was made."""
    told = message.partition("\nNode: ")[2].partition("\n\t [[")[0].strip() or message
    return told.partition("\nRegistered devices")[0][:300]


if __name__ == "__main__":
    raise SystemExit(main())
