"""Generated code: one line per node, early release of locals, errors that name the node."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.plugins.jit.small_graphs import HotSession, body, graph_def, straight_line

from graphmill.errors import CancelledError, InvalidArgumentError

GOING_ON: Any = SimpleNamespace(is_cancelled=False, stats_collector=None)
NUMBER = "k = Const(dtype=int32, value='int32: {}')"
LESS = f"less(i: int32, v: float32) -> bool: {NUMBER.format(3)}; y = Less(i, k); return y"
STEP = (
    f"step(i: int32, v: float32) -> (int32, float32): {NUMBER.format(1)}; "
    "j = AddV2(i, k); w = AddV2(v, v); return j, w"
)
LOOP = "l = While([i, x], cond=less, body=step)"
ONE = np.float32(1)


def test_locals_go_at_their_last_use() -> None:
    made = straight_line(body("a = Neg(x)", "b = Abs(a)", "c = AddV2(b, b)", x="float32"))
    lines = [line.strip() for line in made.source.splitlines()]
    assert lines == [
        "def cluster(args, a0):",
        "v0 = k0(a0)  # a: Neg",
        "v1 = k1(v0); del v0  # b: Abs",
        "v0 = k2(v1, v1); del v1  # c: AddV2",
        "return (v0, )",
    ]
    assert made.call(GOING_ON, ONE) == (2,)


def test_long_code_has_few_local_variables() -> None:
    nodes = [f"n{i} = AddV2({f'n{i - 1}' if i else 'x'}, x)" for i in range(2000)]
    made = straight_line(body(*nodes, x="float32"))
    assert set(re.findall(r"\bv\d+\b", made.source)) == {"v0", "v1"}
    assert made.call(GOING_ON, ONE) == (2001,)


def test_result_keeps_its_name_though_it_is_read_early() -> None:
    nodes = "a = Neg(x)", "u = Unique(a)", "b = Abs(a)", "c = Tanh(b)", "d = Neg(c)"
    made = straight_line(body(*nodes, x="float32[1]"))
    a, d = made.call(GOING_ON, np.float32([0]))
    assert (list(a), list(d)) == ([0], [0])
    assert "return (v0, " in made.source


def test_unread_output_is_dropped_immediately() -> None:
    made = straight_line(body("u = Unpack(x, num=2)", "a = Neg(u)", x="float32[2]"))
    assert "v0, v1 = k0(a0)" in made.source
    assert made.call(GOING_ON, np.array([1, 2], np.float32)) == (2, -1)


def test_an_error_names_its_node_s12() -> None:
    nodes = NUMBER.format(0), "a = Neg(x)", "g = GatherV2(a, i, k)"
    made = straight_line(body(*nodes, "y = Abs(g)", x="float32[3]", i="int32[2]"))
    with pytest.raises(InvalidArgumentError) as raised:
        made.call(GOING_ON, np.zeros(3, np.float32), np.array([0, 7], np.int32))
    error = made.error_of(raised.value)
    assert (error.node, error.op_type) == ("g", "GatherV2")


def test_a_loop_is_a_loop_that_can_be_cancelled() -> None:
    made = straight_line(body(LOOP, functions=(LESS, STEP), i="int32", x="float32"))
    assert "while" in made.source
    assert made.call(GOING_ON, np.int32(0), ONE) == (3, 8)
    reason = SimpleNamespace(message="enough")
    args = SimpleNamespace(is_cancelled=True, cancel_reason=lambda: reason)
    with pytest.raises(CancelledError, match="cancelled: enough"):
        made.call(args, np.int32(0), ONE)


@pytest.mark.parametrize(("index", "expected"), [(0, -1), (1, 2), (9, 2), (-1, 2)])
def test_a_branch_out_of_range_is_the_last_one(index: int, expected: int) -> None:
    branches = (
        "f(x: float32) -> float32: y = Neg(x); return y",
        "g(x: float32) -> float32: y = AddV2(x, x); return y",
    )
    text = "c = Case(i, [x], Tout=[float32], branches=[f, g])"
    made = straight_line(body(text, functions=branches, i="int32", x="float32"))
    assert made.call(GOING_ON, np.int32(index), ONE) == (expected,)


def test_fetched_reference_is_returned_as_a_value_r2() -> None:
    """The fetched result of an interpreted Assign is the variable's value, not the reference."""
    made = graph_def("v = VariableV2(dtype=float32, shape=[])", "a = Assign(v, x)", x="float32")
    with HotSession(made) as session:
        assert session.run("a:0", {"x:0": ONE}) == 1
