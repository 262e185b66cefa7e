"""A failing step leaves all variables unchanged, for every failing op case."""

from __future__ import annotations

import numpy as np
import pytest

import graphmill
from graphmill import errors
from graphmill.ops.definition.op_registry import OpRegistry
from graphmill.runtime.resources.variables import Variable
from graphmill.testing.case import load_cases
from graphmill.testing.case_graph import case_graph

OPS = OpRegistry()
FAILING = [
    case
    for case in load_cases(families=["state", "training", "array"])
    if case.error and case.program is not None and "{tmp}" not in str(case.program.feed)
]


@pytest.fixture
def made(monkeypatch) -> list[Variable]:
    """Return the list of all variables created in the test."""
    found: list[Variable] = []
    init = Variable.__init__

    def remember(variable, *args, **keywords):
        init(variable, *args, **keywords)
        found.append(variable)

    monkeypatch.setattr(Variable, "__init__", remember)
    return found


@pytest.mark.parametrize("case", FAILING, ids=lambda case: case.id)
def test_a_failed_update_changes_no_variable(case, made):
    graph = case_graph(case, OPS)
    with graphmill.Session(graph=graph.graph_def) as session:
        for fetches, targets in graph.steps:
            before = [(one, np.array(one.value)) for one in made if one.is_initialized]
            try:
                session.run(list(fetches), graph.feeds, targets=list(targets))
            except errors.OpError:
                break
        else:
            pytest.fail("no step failed")
        if len(fetches) + len(targets) == 1:
            for variable, value in before:
                np.testing.assert_array_equal(np.asarray(variable.value), value)
    if any("Variable" in node.op or node.op == "VarHandleOp" for node in graph.graph_def.node):
        assert made
