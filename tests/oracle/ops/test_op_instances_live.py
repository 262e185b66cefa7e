"""Random op instances give equal results in TensorFlow and graphmill, by family.

Each system runs in a process of its own. GRAPHMILL_SWEEP_COUNT sets the number of instances of each
op (default 3), GRAPHMILL_SWEEP_SEED the seed (default 0).
"""

from __future__ import annotations

import os
from collections import defaultdict

import pytest

from graphmill.ops.definition.op_registry import OpRegistry
from graphmill.testing.case import load_cases
from graphmill.testing.differential.op_instances import classify
from graphmill.testing.generators.op_instances import Sweep, is_swept
from graphmill.testing.runners.subprocess_runner import CaseProcess

pytestmark = pytest.mark.oracle

COUNT = int(os.environ.get("GRAPHMILL_SWEEP_COUNT", "3"))
SEED = int(os.environ.get("GRAPHMILL_SWEEP_SEED", "0"))
OPS = OpRegistry()
# Most changes to these make TensorFlow wait for seconds; tools/sweep_ops.py asks them.
WAITING = {"data_flow", "dataset"}


def by_family():
    found = defaultdict(lambda: defaultdict(list))
    for case in load_cases():
        if is_swept(OPS.get(case.op)):
            found[case.family][case.op].append(case)
    return {family: ops for family, ops in found.items() if family not in WAITING}


FAMILIES = by_family()


@pytest.fixture(scope="module")
def processes(tf):
    del tf
    with CaseProcess("tensorflow") as theirs, CaseProcess("session") as ours:
        yield theirs, ours


@pytest.mark.parametrize("family", FAMILIES)
def test_instances_have_tensorflows_results(family, processes):
    theirs, ours = processes
    wrong = []
    for op, cases in FAMILIES[family].items():
        for text in Sweep(OPS.get(op), cases, SEED).texts(COUNT):
            outcome, message = classify(text, theirs.run(text), ours.run, "session")
            wrong += [f"{text}\n# {message}"] if outcome == "differ" else []
    assert not wrong, "\n\n".join(wrong)
