"""Clusters in the functions of loops that cannot be compiled as a whole (clause E3)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.plugins.jit.small_graphs import HotSession, graph_def

from graphmill.explain.compilation import COMPILED

pytestmark = pytest.mark.jax

LAST = 9
TURN = (
    "b(i: int32, n: int32, x: int32) -> (int32, int32, int32): "
    # What no compiler takes: text.
    "t = AsString(i); u = StringToNumber(t, out_type=int32); "
    "k = Const(dtype=int32, value='int32: 1'); j = AddV2(u, k); left = Sub(n, u); "
    "d0 = FloorDiv(x, left); "
    + "".join(f"d{m + 1} = AddV2(d{m}, k); " for m in range(LAST))
    + f"return j, n, d{LAST}"
)
TEST = (
    "c(i: int32, n: int32, x: int32) -> bool: "
    "k = Const(dtype=int32, value='int32: 5'); p = Less(i, k); return p"
)
LOOP = "w = While([i, n, x], T=[int32, int32, int32], cond=c, body=b)"


def made() -> Any:
    return graph_def(
        "i = Const(dtype=int32, value='int32: 0')",
        *(LOOP, "y = Neg(w[2])"),
        functions=(TEST, TURN),
        x="int32[3]",
        n="int32",
    )


def feeds(n: int) -> dict[str, Any]:
    return {"x:0": np.array([7, 800, 90_000], np.int32), "n:0": np.int32(n)}


def test_traceable_part_of_iteration_is_compiled() -> None:
    with HotSession(made(), "off") as off, HotSession(made()) as session:
        for n in (9, 6):
            expected = off.run("y:0", feeds(n))
            np.testing.assert_array_equal(session.run("y:0", feeds(n)), expected)
        (inner,) = (one for one in session.clusters if "d0" in one.nodes)
        assert inner.tier == COMPILED
        assert {"left", f"d{LAST}"} <= set(inner.nodes)
        assert "t" not in inner.nodes


def test_an_error_in_an_inner_cluster_is_that_of_the_interpreter() -> None:
    with HotSession(made(), "off") as off, HotSession(made()) as session:
        session.run("y:0", feeds(9))
        error, expected = (one.error("y:0", feeds(3)) for one in (session, off))
        assert (type(error), error.node) == (type(expected), expected.node)
        assert error.message.partition("\n")[0] == expected.message.partition("\n")[0]


def test_deterministic_session_is_not_compiled() -> None:
    with HotSession(made(), "deterministic") as session:
        session.run("y:0", feeds(9))
        assert not [one for one in session.clusters if one.tier == COMPILED]


def test_loop_with_growing_list_returns_the_list() -> None:
    """A straight-line loop returns its growing list to a reader outside of it."""
    test = (
        "c(i: int32, l: variant) -> bool: "
        "n = Const(dtype=int32, value='int32: 3'); p = Less(i, n); return p"
    )
    body = (
        "b(i: int32, l: variant) -> (int32, variant): "
        "k = Const(dtype=int32, value='int32: 1'); j = AddV2(i, k); "
        "m = TensorListSetItem(l, i, j, resize_if_index_out_of_bounds=True); return j, m"
    )
    graph = graph_def(
        *(
            "s = Const(dtype=int32, value='int32[0]: []')",
            "n = Const(dtype=int32, value='int32: 0')",
        ),
        "l = TensorListReserve(s, n, element_dtype=int32)",
        "w = While([x, l], T=[int32, variant], cond=c, body=b)",
        "y = TensorListStack(w[1], s, element_dtype=int32)",
        functions=(test, body),
        x="int32",
    )
    with HotSession(graph) as session:
        assert session.run("y:0", {"x:0": np.int32(0)}).tolist() == [1, 2, 3]
        (loop,) = (one for one in session.clusters if "w" in one.nodes)
        assert "while _holds" in loop.source
