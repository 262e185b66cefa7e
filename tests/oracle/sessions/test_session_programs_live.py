"""Random programs of clients return equal values and errors in TensorFlow and graphmill.

`GRAPHMILL_SESSION_PROGRAMS=10000` compares 10,000 programs,
`GRAPHMILL_SESSION_PROGRAMS=7000:7100` those of the seeds 7,000 to 7,099.
"""

from __future__ import annotations

import os

import pytest

from graphmill.testing.generators.session_programs.generate import session_program
from graphmill.testing.generators.session_programs.shrink import shrink
from graphmill.testing.runners.session_programs import (
    GraphmillSystem,
    TensorFlowSystem,
    differences,
    execute,
    wrong_waits,
)

pytestmark = pytest.mark.oracle

BLOCK = 50
"""The number of programs of a test."""


def seeds() -> range:
    first, _, end = os.environ.get("GRAPHMILL_SESSION_PROGRAMS", "300").rpartition(":")
    return range(int(first or 0), int(end))


def found_in(program, host, tf):
    """Return the differences between the systems, and from the model of the program."""
    graph_def = program.graph_def(host.ops).SerializeToString()
    theirs = execute(program, graph_def, TensorFlowSystem(tf))
    ours = execute(program, graph_def, GraphmillSystem(host))
    lines = differences(program, theirs, ours)
    return [*lines, *wrong_waits(program, theirs), *wrong_waits(program, ours)]


@pytest.mark.parametrize("start", seeds()[::BLOCK])
def test_programs_agree(start, tf, graphmill_host):
    for seed in range(start, min(start + BLOCK, seeds().stop)):
        program = session_program(seed)
        if found_in(program, graphmill_host, tf):
            small = shrink(program, lambda one: bool(found_in(one, graphmill_host, tf)))
            lines = found_in(small, graphmill_host, tf)
            pytest.fail("\n".join([small.text(), *lines]))
