"""Slices with a traced start are compiled if their size is static (clause E3)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.plugins.jit.small_graphs import HotSession, graph_def

from graphmill.explain.compilation import COMPILED

pytestmark = pytest.mark.jax

X = np.arange(24, dtype=np.float32).reshape(4, 6)
CONSTANTS = (
    "zero = Const(dtype=int32, value='int32: 0')",
    "one = Const(dtype=int32, value='int32: 1')",
    "two = Const(dtype=int32, value='int32: 2')",
    "ones = Const(dtype=int32, value='int32[2]: [1, 1]')",
    "shape = Const(dtype=int32, value='int32[2]: [4, 6]')",
    # Computed, so that no signature has its value.
    "i = Mul(n, one)",
    "next = AddV2(i, one)",
)
ROW = ("b = Pack([i])", "e = Pack([next])", "s = Pack([one])")
COLUMN = ("b = Pack([zero, i])", "e = Pack([zero, next])")
COLUMN_MASKS = "begin_mask=1, end_mask=1, shrink_axis_mask=2"


def run(nodes: tuple[str, ...], n: int, **more: Any) -> tuple[Any, list[str], int]:
    """Return a result, the tiers of its clusters, and the number of compilations."""
    types: dict[str, Any] = {"dy": "float32[4]"} if "dy" in more else {}
    made = graph_def(*CONSTANTS, *nodes, x="float32[4,6]", n="int32", **types)
    feeds = {"x:0": X, "n:0": np.int32(n), **{f"{k}:0": v for k, v in more.items()}}
    with HotSession(made) as session:
        result = session.run("y:0", feeds)
        session.run("y:0", {**feeds, "n:0": np.int32(0)})
        compiles = sum(len(one.compiles) for c in session.clusters for one in c.signatures)
        return result, [cluster.tier for cluster in session.clusters], compiles


@pytest.mark.parametrize("place", [0, 2, -1])
def test_a_row_at_a_traced_index_is_compiled(place: int) -> None:
    result, tiers, compiles = run((*ROW, "y = StridedSlice(x, b, e, s, shrink_axis_mask=1)"), place)
    np.testing.assert_array_equal(result, X[place])
    assert (tiers, compiles) == ([COMPILED], 1)


def test_a_column_at_a_traced_index_is_compiled() -> None:
    nodes = (*COLUMN, f"y = StridedSlice(x, b, e, ones, {COLUMN_MASKS})")
    result, tiers, _ = run(nodes, 4)
    np.testing.assert_array_equal(result, X[:, 4])
    assert tiers == [COMPILED]


def test_a_range_of_static_length_is_compiled() -> None:
    nodes = (
        *("b = Pack([i, one])", "t = AddV2(two, i)", "u = AddV2(two, two)", "e = Pack([t, u])"),
        "y = StridedSlice(x, b, e, ones)",
    )
    result, tiers, compiles = run(nodes, 1)
    np.testing.assert_array_equal(result, X[1:3, 1:4])
    assert (tiers, compiles) == ([COMPILED], 1)


def test_computed_range_length_is_specialized() -> None:
    nodes = (
        "b = Pack([zero])",
        "e = Pack([next])",
        "s = Pack([one])",
        "y = StridedSlice(x, b, e, s)",
    )
    result, tiers, _ = run(nodes, 1)
    np.testing.assert_array_equal(result, X[:2])
    assert tiers == [COMPILED]


def test_a_slice_with_a_traced_start_is_compiled() -> None:
    nodes = ("b = Pack([i, one])", "l = Const(dtype=int32, value='int32[2]: [2, -1]')")
    result, tiers, compiles = run((*nodes, "y = Slice(x, b, l)"), 1)
    np.testing.assert_array_equal(result, X[1:3, 1:])
    assert (tiers, compiles) == ([COMPILED], 1)


def test_the_gradient_of_a_slice_is_compiled() -> None:
    nodes = (*COLUMN, f"y = StridedSliceGrad(shape, b, e, ones, dy, {COLUMN_MASKS})")
    result, tiers, _ = run(nodes, 3, dy=np.ones(4, np.float32))
    np.testing.assert_array_equal(result, np.where(np.arange(6) == 3, 1, 0) * np.ones((4, 1)))
    assert tiers == [COMPILED]


@pytest.mark.parametrize(
    "nodes",
    [
        (*ROW, "y = StridedSlice(x, b, e, s, shrink_axis_mask=1)"),
        ("b = Pack([i, one])", "l = Pack([two, two])", "y = Slice(x, b, l)"),
    ],
)
def test_out_of_range_index_is_reported_by_the_interpreter(nodes: tuple[str, ...]) -> None:
    made = graph_def(*CONSTANTS, *nodes, x="float32[4,6]", n="int32")
    with HotSession(made) as session:
        assert session.run("y:0", {"x:0": X, "n:0": np.int32(1)}).size
        error = session.error("y:0", {"x:0": X, "n:0": np.int32(5)})
        assert type(error).__name__ == "InvalidArgumentError"
        assert session.clusters[0].tier == COMPILED
