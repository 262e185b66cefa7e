"""The first op of a family imports the kernels of that family only."""

from __future__ import annotations

import subprocess
import sys

import pytest

RUN = """
import sys
import graphmill
from graphmill.testing.case import parse_cases
from graphmill.testing.case_graph import case_graph
from graphmill.ops.definition.op_registry import OpRegistry

(case,) = parse_cases(sys.argv[1], "family")
graph = case_graph(case, OpRegistry())
with graphmill.Session(graph=graph.graph_def) as session:
    session.run(list(graph.steps[0][0]), graph.feeds)
parts = [name.split(".") for name in sys.modules if name.startswith("graphmill_plugins.kernels.")]
print(*sorted({part[2] for part in parts if not part[2].startswith("_")}), "jax" in sys.modules)
"""
CASES = {
    "math": '[[Neg]]\nin = ["float32[2]"]',
    "array": '[[Reshape]]\nin = ["float32[4]", [2, 2]]',
    "string": '[[StringUpper]]\nin = ["string[2]"]',
    "linalg": '[[MatrixInverse]]\nin = ["float32[3,3] spd"]',
    "parsing": '[[DecodeRaw]]\nin = ["string: [b\'abcd\']"]\nout_type = "int16"',
}


@pytest.mark.parametrize("family", CASES)
def test_the_first_op_imports_its_family_only(family):
    command = [sys.executable, "-c", RUN, CASES[family]]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [family, "False"]
