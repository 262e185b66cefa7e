"""Failing steps raise the same error before and after compilation (clauses E8, S6, S12).

Each graph succeeds until it is compiled, then fails five times. The errors have the class, node, op
and message of the interpreter's.
"""

from __future__ import annotations

import numpy as np
import pytest

import graphmill
from graphmill import ops
from graphmill.errors import DeadlineExceededError, OpError
from graphmill.ops import array, linalg, math, state

pytestmark = pytest.mark.jax

MODES = {
    "off": {"jit": "off"},
    "eager": {"jit": "eager"},
    "tiered": {"jit": "tiered", "jitAfterSteps": 1},
}
CONFIGS = {name: {"graphmill": options} for name, options in MODES.items()}
ENOUGH = 20  # steps after which what is tiered has been compiled


def a_number_out_of_range(graph, x):
    return array.gather(np.arange(4.0), x) * 2.0


def a_division_by_zero(graph, x):
    return math.floor_div(100, 3 - x) + 1


def a_check(graph, x):
    with graph.control_dependencies([graphmill.Assert(x < 3, ["x is", x])]):
        return (x + 1) * 2


def not_a_number(graph, x):
    value = math.sqrt(math.cast(2 - x, DstT="float32"))
    return array.check_numerics(value + 1.0, message="of a root") * 2.0


def a_shape(graph, x):
    return math.mat_mul(array.fill([x, 2], 1.0), array.fill([2, 3], 1.0)) + array.fill([2, 3], 1.0)


def a_singular_matrix(graph, x):
    number = math.cast(x - 3, DstT="float64")
    return linalg.matrix_inverse(array.diag([number, number - 1.0])) * 2.0


def a_turn_of_a_loop(graph, x):
    return graphmill.while_loop(lambda i: i < 3, lambda i: i + math.floor_div(3, 3 - x), [0]) + 1


def the_test_of_a_loop(graph, x):
    def test(i):
        return math.floor_div(6, 3 - x) > i

    return graphmill.while_loop(test, lambda i: i + 1, [0]) + 1


def a_branch(graph, x):
    return graphmill.cond(x > 2, lambda: math.floor_div(6, 3 - x), lambda: x * 2) + 1


def a_branch_in_a_loop(graph, x):
    def turn(i):
        return graphmill.cond(i > 1, lambda: i + math.floor_div(3, 3 - x), lambda: i + 1)

    return graphmill.while_loop(lambda i: i < 3, turn, [0]) + 1


def a_dead_fetch(graph, x):
    found = array.identity(math.exp(math.cast(x, DstT="float32")) + 1.0)
    _, taken = ops.control_flow.switch(found, x < 3)
    return array.identity(taken) * 2.0


def a_variable_without_value(graph, x):
    handle = state.var_handle_op(dtype="int32", shape=[], shared_name="never", name="never")
    return graphmill.cond(
        x > 2,
        lambda: state.read_variable_op(handle, dtype="int32"),
        lambda: array.identity(x) * 2,
    )


FAILING = [
    *(a_number_out_of_range, a_division_by_zero, a_check, not_a_number, a_shape),
    *(a_singular_matrix, a_turn_of_a_loop, the_test_of_a_loop, a_branch, a_branch_in_a_loop),
    *(a_dead_fetch, a_variable_without_value),
]


BAD = {a_number_out_of_range: 9}
"""The fed values of scenarios whose failure is not caused by 3."""


def told(session, fetch, number):
    with pytest.raises(OpError) as caught:
        session.run(fetch, {"x:0": number})
    error = caught.value
    return type(error), error.node, error.op_type, error.device, error.message


def warm_up(session, host, fetch, mode):
    for _ in range(ENOUGH if mode == "tiered" else 1):
        session.run(fetch, {"x:0": 2})
        assert host.background.wait_idle(60)


@pytest.mark.parametrize("build", FAILING)
def test_hot_steps_fail_as_cold_ones_do_e8(build, graphmill_host):
    graph = graphmill.Graph()
    with graph.as_default():
        fetch = build(graph, graph.placeholder("int32", (), "x"))
    found = {}
    for mode, config in CONFIGS.items():
        with graphmill.Session(graph=graph, host=graphmill_host, config=config) as session:
            warm_up(session, graphmill_host, fetch, mode)
            found[mode] = [told(session, fetch, BAD.get(build, 3)) for _ in range(5)]
            session.run(fetch, {"x:0": 2})
    assert found["eager"] == found["off"]
    assert found["tiered"] == found["off"]


@pytest.mark.parametrize("mode", ["eager", "tiered"])
def test_infinite_compiled_loop_is_stopped_by_timeout_s6(mode, graphmill_host):
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("int32", (), "x")
        last = graphmill.while_loop(lambda i: math.not_equal(i, x), lambda i: i + 1, [0])
    with graphmill.Session(graph=graph, host=graphmill_host, config=CONFIGS[mode]) as session:
        warm_up(session, graphmill_host, last, mode)
        with pytest.raises(DeadlineExceededError):
            session.run(last, {x: -1}, options={"timeout_in_ms": 50})
        assert session.run(last, {x: 5}) == 5
