"""Tracing: static values fold, unsupported semantics are refused (clauses S6, E3)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.plugins.jit.small_graphs import HotSession, body, graph_def, inputs_of

from graphmill.explain import explain_all
from graphmill.explain.compilation import COMPILED, STRAIGHT_LINE

pytestmark = pytest.mark.jax

ZERO = "zero = Const(dtype=int32, value='int32: 0')"
ONE = "one = Const(dtype=int32, value='int32: 1')"
LOOP = (
    *("e = Enter(x, frame_name='f')", "l = Enter(n, frame_name='f', is_constant=True)"),
    *("m = Merge([e, next])", "c = Less(m, l)", "p = LoopCond(c)", "s = Switch(m, p)"),
)


def test_arithmetic_of_shapes_is_done_while_it_is_traced() -> None:
    graph = graph_def(
        *(ZERO, ONE, "s = Shape(x)", "a = GatherV2(s, zero, zero)", "b = GatherV2(s, one, zero)"),
        *("c = Mul(a, b)", "d = Pack([c, one])", "n = Neg(x)", "y = Reshape(n, d)"),
        x="float32[2,3]",
    )
    with HotSession(graph) as session:
        assert session.run("y:0", {"x:0": np.ones((2, 3), np.float32)}).shape == (6, 1)
        (record,) = session.clusters[0].signatures
        assert (record.tier, len(record.compiles)) == (COMPILED, 1)


def test_required_static_values_are_traced_to_their_sources() -> None:
    from graphmill_plugins.jit.ir.errors import NeedsStatic
    from graphmill_plugins.jit.ir.scheduled_body import schedule_body
    from graphmill_plugins.jit.programs.compiler import sources_of

    made = schedule_body(
        body(
            *("k = Neg(i)", "s = Shape(z)", "t = AddV2(k, s)", "a = Neg(x)", "y = Reshape(a, t)"),
            x="float32[6]",
            i="int32[2]",
            z="float32[2,3]",
        )
    )
    (reshape,) = [node for node in made.nodes if node.op == "Reshape"]
    known = sources_of(made, NeedsStatic("", reshape, [1]), inputs_of(made))
    assert [made.arg_types[index].name for index in known] == ["int32"]


def results(graph: Any, mode: str) -> tuple[list[Any], str, str]:
    """Return the results of a graph, the outcome of its loop, and its clusters' tiers."""
    with HotSession(graph, mode) as session:
        values = [session.run("out:0", {"x:0": np.int32(x), "n:0": np.int32(9)}) for x in (0, 20)]
        (step,) = explain_all(session.session)
        regions = [region for one in step.compilations.values() for region in one.regions]
        reason = regions[0].reason if regions else ""
        tiers = [cluster.tier for cluster in session.clusters]
    return [int(value) for value in values], reason, ",".join(tiers) or STRAIGHT_LINE


def loop(*step: str) -> Any:
    return graph_def(
        *LOOP,
        *("k = Const(dtype=int32, value='int32: 2', after=[i])", "i = Identity(s[1])"),
        *(*step, "add = AddV2(u, k)", "next = NextIteration(add)", "out = Exit(s)"),
        x="int32",
        n="int32",
    )


def test_a_loop_becomes_a_function() -> None:
    graph = loop("u = Identity(i)")
    assert results(graph, "off")[0] == [10, 20]
    values, reason, tier = results(graph, "eager")
    assert (values, reason, tier) == ([10, 20], "", COMPILED)


def test_unproven_loop_is_interpreted_with_reason_e3() -> None:
    """A loop whose structure is not proven is interpreted, and the reason is reported."""
    graph = loop("u = AddV2(i, m[1])")
    values, reason, _ = results(graph, "eager")
    assert values == results(graph, "off")[0] == [11, 20]
    assert reason == "m has control inputs, or its value_index is read"


def test_a_loop_that_cannot_be_traced_is_interpreted_e3() -> None:
    graph = loop("t = AsString(i)", "u = StringToNumber(t, out_type=int32)")
    values, _, tier = results(graph, "eager")
    assert values == results(graph, "off")[0] == [10, 20]
    assert COMPILED not in tier


VARIABLE = (
    "v = VarHandleOp(dtype=float32, shape=[3,2])",
    "set = AssignVariableOp(v, x)",
    "rows = ResourceGather(v, i, dtype=float32)",
    "y = Neg(rows)",
)


def test_rows_of_a_variable_are_gathered_in_a_program() -> None:
    made = graph_def(*VARIABLE, x="float32[3,2]", i="int32[2]")
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    with HotSession(made) as session:
        session.run([], {"x:0": x}, targets=["set"])
        result = session.run("y:0", {"i:0": np.array([2, 0], np.int32)})
        np.testing.assert_array_equal(result, -x[[2, 0]])
        cluster = next(one for one in session.clusters if "rows" in one.nodes)
        assert cluster.tier == COMPILED
        error = session.error("y:0", {"i:0": np.array([2, 3], np.int32)})
        assert error.message.startswith("indices[1] = 3 is not in [0, 3)")


def test_list_is_passed_through_a_loop() -> None:
    test = (
        "c(i: int32, l: variant) -> bool: "
        "n = Const(dtype=int32, value='int32: 3'); p = Less(i, n); return p"
    )
    body = (
        "b(i: int32, l: variant) -> (int32, variant): "
        "k = Const(dtype=int32, value='int32: 1'); j = AddV2(i, k); "
        "m = TensorListSetItem(l, i, j); h = Identity(m); return j, h"
    )
    made = graph_def(
        *(
            "s = Const(dtype=int32, value='int32[0]: []')",
            "n = Const(dtype=int32, value='int32: 3')",
        ),
        "l = TensorListReserve(s, n, element_dtype=int32)",
        "w = While([x, l], T=[int32, variant], cond=c, body=b)",
        "y = TensorListStack(w[1], s, element_dtype=int32)",
        functions=(test, body),
        x="int32",
    )
    with HotSession(made) as session:
        assert session.run("y:0", {"x:0": np.int32(0)}).tolist() == [1, 2, 3]
        assert [cluster.tier for cluster in session.clusters] == [COMPILED]


@pytest.mark.parametrize(
    ("op", "expected"), [("Update", [7, 2, 7]), ("Add", [8, 2, 10]), ("Sub", [-6, 2, -4])]
)
def test_rows_of_a_variable_are_changed_in_a_program(op: str, expected: list[int]) -> None:
    made = graph_def(
        "v = VarHandleOp(dtype=float32, shape=[3])",
        "set = AssignVariableOp(v, x)",
        f"change = ResourceScatter{op}(v, i, u, dtype=float32)",
        "y = ReadVariableOp(v, dtype=float32, after=[change])",
        x="float32[3]",
        i="int32[2]",
        u="float32[2]",
    )
    feeds = {"i:0": np.array([0, 2], np.int32), "u:0": np.full(2, 7, np.float32)}
    with HotSession(made) as session:
        session.run([], {"x:0": np.arange(1, 4, dtype=np.float32)}, targets=["set"])
        assert session.run("y:0", feeds).tolist() == expected
        cluster = next(one for one in session.clusters if "change" in one.nodes)
        assert cluster.tier == COMPILED
        wrong = {**feeds, "i:0": np.array([0, 3], np.int32)}
        assert session.error("y:0", wrong).message.startswith("indices[1] = 3 is not in [0, 3)")
