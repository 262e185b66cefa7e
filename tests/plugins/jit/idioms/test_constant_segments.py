"""Sparse segment sums with constant segments are compiled, also in training (P4)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.plugins.jit.small_graphs import OPS, HotSession, fetch_unread, graph, graph_def

import graphmill
from graphmill.lowering.passes import PassOptions
from graphmill_plugins.jit.idioms.constant_segments import count_constant_segments

IDS = "ids = Const(dtype=int32, value='int32: [0, 0, 1, 1, 1, 3]')"
SIZE = "size = Const(dtype=int32, value='int32: 5')"
UPDATE = (
    "u = Unique(g[1])",
    "shape = Shape(u[0])",
    "zero = Const(dtype=int32, value='int32: [0]')",
    "one = Const(dtype=int32, value='int32: [1]')",
    "count = StridedSlice(shape, zero, one, one, shrink_axis_mask=1)",
    "sum = UnsortedSegmentSum(g[0], u[1], count)",
)
START = [[0.5 * row - column for column in range(3)] for row in range(5)]
INPUTS = {"rows": "int64[6]", "x": "float32[4, 3]"}


def ops_after(*nodes: str, **inputs: str) -> set[str]:
    made = graph(*nodes, **{**INPUTS, **inputs})
    fetch_unread(made)
    count_constant_segments(made, PassOptions(None, [], graphmill.default_host()))
    return {node.op for node in made.nodes if "Segment" in node.op}


def training(scale: str) -> Any:
    return graph_def(
        f"start = Const(dtype=float32, value='float32: {START}')",
        "ones = OnesLike(start)",
        *(
            "v = VariableV2(dtype=float32, shape=[5, 3])",
            "a = VariableV2(dtype=float32, shape=[5, 3])",
        ),
        *("set_v = Assign(v, start)", "set_a = Assign(a, ones)", "read = Identity(v)"),
        *(IDS, SIZE, f"y = SparseSegment{scale}(read, rows, ids)", "grad = Mul(y, x)"),
        f"g = SparseSegment{scale}GradV2(grad, rows, ids, size)",
        *UPDATE,
        "lr = Const(dtype=float32, value='float32: 0.1')",
        "train = SparseApplyAdagrad(v, a, lr, sum, u[0])",
        **INPUTS,
    )


@pytest.mark.jax
@pytest.mark.parametrize("scale", ["Sum", "Mean", "SqrtN"])
def test_a_step_with_constant_segments_is_one_program(scale: str) -> None:
    generator = np.random.default_rng(3)
    batches = [(generator.integers(0, 5, 6), generator.normal(size=(4, 3))) for _ in range(3)]
    values = []
    for mode in ("off", "eager"):
        with HotSession(training(scale), mode) as hot:
            hot.run([], targets=["set_v", "set_a"])
            for rows, x in batches:
                hot.run("y:0", {"rows:0": rows, "x:0": x.astype(np.float32)}, ["train"])
            clusters = [c for c in hot.clusters if "train" in c.nodes]
            values.append(hot.run("read:0"))
    np.testing.assert_allclose(*values, rtol=3e-6, atol=1e-6)
    (cluster,) = clusters
    assert "y" in cluster.nodes
    assert [record.tier for record in cluster.signatures] == ["compiled"]


@pytest.mark.parametrize(
    "ids",
    [
        "ids = Const(dtype=int32, value='int32: [0, 0, 2, 1, 1, 3]')",
        "ids = Const(dtype=int32, value='int32: [-1, 0, 2, 2, 2, 3]')",
        "ids = Cast(rows, DstT=int32)",
    ],
    ids=["not in order", "negative", "not constant"],
)
def test_other_segments_are_left(ids: str) -> None:
    forward = "y = SparseSegmentMean(data, rows, ids)"
    backward = "g = SparseSegmentMeanGradV2(x, rows, ids, size)"
    left = ops_after(ids, SIZE, forward, backward, *UPDATE, data="float32[5, 3]")
    assert left == {"SparseSegmentMean", "SparseSegmentMeanGradV2", "UnsortedSegmentSum"}


@pytest.mark.parametrize(
    "nodes",
    [
        ("y = Neg(g[0])", *UPDATE),
        ("y = Neg(g[1])", *UPDATE),
        (*UPDATE[:-1], "sum = UnsortedSegmentMax(g[0], u[1], count)"),
        (*UPDATE[:-1], "sum = UnsortedSegmentSum(g[0], places, count)"),
    ],
    ids=["sums are read", "numbers are read", "not added", "by other numbers"],
)
def test_gradients_that_others_read_are_left(nodes: tuple[str, ...]) -> None:
    backward = "g = SparseSegmentSumGradV2(x, rows, ids, size)"
    assert "SparseSegmentSumGradV2" in ops_after(IDS, SIZE, backward, *nodes, places="int32[6]")


def test_the_op_is_of_the_family_of_segments() -> None:
    assert OPS.get("_SegmentRows").family == OPS.get("SparseSegmentSum").family
