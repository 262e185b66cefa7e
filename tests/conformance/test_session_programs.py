"""Random programs of clients return the same whether graphs are interpreted or compiled."""

from __future__ import annotations

import numpy as np
import pytest

from graphmill import errors
from graphmill.testing.generators.session_programs.generate import session_program
from graphmill.testing.generators.session_programs.program import Run, Step
from graphmill.testing.runners.session_programs import (
    Failure,
    GraphmillSystem,
    agree,
    caught,
    differences,
    execute,
    wrong_waits,
)

SEEDS = range(24)
JIT_SEEDS = range(6)


def results(seed, host, jit):
    program = session_program(seed)
    graph_def = program.graph_def(host.ops).SerializeToString()
    return program, execute(program, graph_def, GraphmillSystem(host, jit))


@pytest.mark.divided
@pytest.mark.parametrize("seed", SEEDS)
def test_programs_wait_where_their_models_say(seed, graphmill_host):
    program, found = results(seed, graphmill_host, "off")
    assert wrong_waits(program, found) == []
    again = results(seed, graphmill_host, "off")[1]
    assert differences(program, found, again) == []


@pytest.mark.jax
@pytest.mark.parametrize("jit", ["tiered", "eager"])
@pytest.mark.parametrize("seed", JIT_SEEDS)
def test_compiled_and_interpreted_programs_return_the_same(seed, jit, graphmill_host):
    pytest.importorskip("jax")
    program, interpreted = results(seed, graphmill_host, "off")
    _, compiled = results(seed, graphmill_host, jit)
    assert differences(program, interpreted, compiled) == []


def failure(error: Exception) -> Failure:
    def action():
        raise error

    return caught(action)


def test_error_of_a_subclass_agrees_and_others_do_not():
    expected, found = failure(ValueError("x")), failure(errors.InvalidValueError("y"))
    assert agree(expected, found)
    assert not agree(found, expected)
    assert not agree(failure(RuntimeError("x")), found)
    assert not agree(expected, [1])
    assert not agree([1], found)


@pytest.mark.parametrize(
    "other",
    [[1.0], (1.0, None), {"a": 1.0}, None, [1.0, 2.0], [np.float32(1), None], [2.0, None]],
)
def test_other_structures_dtypes_and_values_do_not_agree(other):
    assert agree([np.float64(1.0), None], [np.float64(1.0), None])
    assert not agree([np.float64(1.0), None], other)


def test_unexpected_wait_is_reported():
    program = session_program(0)
    call = Run((Step(program.resources[-1].name, ("ok",), ("m_fixed:0",)),))
    one = type(program)("one", program.resources, (call,))
    assert wrong_waits(one, [[1.0]]) == []
    assert len(wrong_waits(one, [failure(errors.DeadlineExceededError("late"))])) == 1
