"""Loops whose values change shape per iteration are unrolled if the trip count is static."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.plugins.jit.small_graphs import HotSession, graph_def

from graphmill.explain.compilation import COMPILED, STRAIGHT_LINE
from graphmill_plugins.jit.ir.errors import NotTraceable
from graphmill_plugins.jit.tracing.static_values import GUARD
from graphmill_plugins.jit.tracing.unroll import MAX_UNROLLED_ITERATIONS, unrolled

pytestmark = pytest.mark.jax

GROWING = (
    "c(i: int32, n: int32, x: float32) -> bool: p = Less(i, n); return p",
    (
        "b(i: int32, n: int32, x: float32) -> (int32, int32, float32): "
        "k = Const(dtype=int32, value='int32: 1'); j = AddV2(i, k); "
        "z = Const(dtype=int32, value='int32: 0'); y = ConcatV2([x, x], z); return j, n, y"
    ),
)


def growing(*statements: str, **more: str) -> Any:
    return graph_def(
        "i = Const(dtype=int32, value='int32: 0')",
        *statements,
        "w = While([i, n, x], T=[int32, int32, float32], cond=c, body=b, "
        "output_shapes=[[], [], unknown])",
        "y = Neg(w[2])",
        functions=GROWING,
        x="float32[1]",
        **more,
    )


def test_static_trip_count_loop_with_growing_values_is_compiled() -> None:
    made = growing("n = Const(dtype=int32, value='int32: 3')")
    with HotSession(made) as session:
        result = session.run("y:0", {"x:0": np.ones(1, np.float32)})
        np.testing.assert_array_equal(result, -np.ones(8, np.float32))
        assert [cluster.tier for cluster in session.clusters] == [COMPILED]


def test_dynamic_trip_count_loop_with_growing_values_is_interpreted() -> None:
    with HotSession(growing(n="int32")) as session:
        feeds = {"x:0": np.ones(1, np.float32), "n:0": np.int32(2)}
        np.testing.assert_array_equal(session.run("y:0", feeds), -np.ones(4, np.float32))
        (cluster,) = session.clusters
        assert cluster.tier == STRAIGHT_LINE
        assert "the trip count of a loop is unknown" in cluster.signatures[0].reason


def test_long_loops_are_not_unrolled() -> None:
    iterations = 0

    def body(args: list[Any], state: Any) -> Any:
        nonlocal iterations
        iterations += 1
        return [args[0] + np.int32(1)], state

    def cond(args: list[Any], state: Any) -> Any:
        return [args[0] >= 0], state

    with pytest.raises(NotTraceable, match="too many iterations"):
        unrolled(cond, body, [np.int32(0)], {GUARD: True}, lambda: iterations)
    assert iterations == MAX_UNROLLED_ITERATIONS
