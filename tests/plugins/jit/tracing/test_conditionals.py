"""Conditionals over functions during tracing (clause E3)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.plugins.jit.tracer import compiled

from graphmill_plugins.jit.ir.errors import NotTraceable
from graphmill_plugins.jit.tracing.conditionals import trace_cond
from graphmill_plugins.jit.tracing.values import Absent

pytest.importorskip("jax")


@pytest.mark.parametrize(("choice", "expected"), [(0, 6), (1, -2), (7, -2), (-1, -2)])
def test_a_choice_out_of_range_is_the_last(choice: int, expected: int) -> None:
    branches = [
        lambda args, state: ([args[0] * 3], state),
        lambda args, state: ([-args[0]], state),
    ]

    def program(index: Any, x: Any) -> Any:
        return trace_cond(index, branches, [x], {})[0]

    assert compiled(program, np.int32(choice), np.int32(2)) == [expected]
    assert trace_cond(np.int32(choice), branches, [np.int32(2)], {})[0] == [expected]


def test_missing_branch_gradient_is_zeros() -> None:
    branches = [
        lambda args, state: ([Absent()], state),
        lambda args, state: ([args[0]], {**state, "v": args[0]}),
    ]

    def program(pred: Any, x: Any) -> Any:
        results, state = trace_cond(pred, branches, [x], {"v": x + 1})
        return results[0], state["v"]

    for pred, expected in ((False, (0, 4)), (True, (3, 3))):
        assert compiled(program, np.bool_(pred), np.float32(3)) == expected


def test_branches_of_different_shapes_are_not_traceable() -> None:
    branches = [
        lambda args, state: ([args[0]], state),
        lambda args, state: ([args[0][:1]], state),
    ]
    with pytest.raises(NotTraceable, match="branches"):
        compiled(lambda p, x: trace_cond(p, branches, [x], {})[0], np.bool_(True), np.ones(2))
