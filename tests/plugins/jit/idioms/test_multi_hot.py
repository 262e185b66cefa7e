"""Sums of one-hot vectors are replaced by counts, with equal results (P4)."""

from __future__ import annotations

import numpy as np
import pytest
from tests.plugins.jit.small_graphs import OPS, fetch_unread, graph

import graphmill
from graphmill import errors
from graphmill.lowering.passes import PassOptions
from graphmill.ops import array, math
from graphmill_plugins.jit.idioms.multi_hot import count_one_hots

HOST = graphmill.default_host()


def ops_after(*nodes: str) -> set[str]:
    made = graph(*nodes, i="int32[2]")
    fetch_unread(made)
    count_one_hots(made, PassOptions(None, [], HOST))
    return {node.op for node in made.nodes if node.op in ("Sum", "OneHot", "_MultiHot")}


ONE_HOT = (
    "d = Const(dtype=int32, value='int32: 4')",
    "on = Const(dtype=float32, value='float32: 1')",
    "off = Const(dtype=float32, value='float32: 0')",
)
HOT = "h = OneHot(i, d, on, off)"
AXIS = "a = Const(dtype=int32, value='int32: 0')"


def bag(shape, axes, keep_dims=False, dtype="float32", values=(1, 0)):
    made = graphmill.Graph()
    with made.as_default():
        indices = array.placeholder(dtype="int64", shape=shape, name="i")
        numbers = [made.constant(np.asarray(value, dtype)) for value in values]
        hot = array.one_hot(indices, np.int32(4), *numbers)
        math.sum(hot, np.asarray(axes, np.int32), keep_dims=keep_dims, name="bag")
    return made


@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        *[((3, 5), [1]), ((3, 5), [-2]), ((3, 5), [0, 1]), ((2, 3, 2), [1]), ((3, 5), [2])],
        *[((3,), 0), ((), [0]), ((0, 3), [1]), ((3, 0), [1]), ((3, 5), [])],
    ],
    ids=str,
)
@pytest.mark.parametrize("keep_dims", [False, True])
@pytest.mark.parametrize("jit", ["eager", "tiered"])
def test_counts_are_the_sums(shape, axes, keep_dims, jit) -> None:
    made = bag(shape, axes, keep_dims)
    indices = np.random.default_rng(5).integers(-1, 6, shape)
    results = []
    for config in ({"jit": "off"}, {"jit": jit, "jit_after_steps": 1}):
        with graphmill.Session(graph=made, config={"graphmill": config}) as session:
            for _ in range(3):
                result = session.run("bag:0", {"i:0": indices})
                HOST.background.wait_idle(60)
            results.append(result)
    expected, got = results
    assert got.dtype == expected.dtype
    np.testing.assert_array_equal(got, expected)


def test_a_sum_of_one_hots_is_replaced() -> None:
    assert ops_after(*ONE_HOT, AXIS, HOT, "s = Sum(h, a)") == {"_MultiHot"}


@pytest.mark.parametrize(
    "nodes",
    [
        (*ONE_HOT, AXIS, HOT, "s = Sum(h, a)", "n = Neg(h)"),
        (*ONE_HOT, AXIS, "h = OneHot(i, d, on, off, axis=0)", "s = Sum(h, a)"),
        (
            *ONE_HOT[:2],
            "off = Const(dtype=float32, value='float32: 0.5')",
            AXIS,
            HOT,
            "s = Sum(h, a)",
        ),
        (
            ONE_HOT[0],
            *ONE_HOT[2:],
            "on = Const(dtype=float32, value='float32: 2')",
            AXIS,
            HOT,
            "s = Sum(h, a)",
        ),
        (*ONE_HOT[1:], "d = Size(i)", AXIS, HOT, "s = Sum(h, a)"),
        (*ONE_HOT, "a = Rank(i)", HOT, "s = Sum(h, a)"),
    ],
    ids=["two readers", "another axis", "off is not 0", "on is not 1", "depth", "axes"],
)
def test_others_are_left(nodes) -> None:
    assert ops_after(*nodes) == {"Sum", "OneHot"}


def test_missing_axis_is_reported_for_the_sum() -> None:
    made = bag((None, None), [2])
    config = {"graphmill": {"jit": "eager"}}
    with graphmill.Session(graph=made, config=config) as session:
        assert session.run("bag:0", {"i:0": [[1, 1], [0, 9]]}).tolist() == [[1, 1], [1, 0]]
    made = bag(None, [3])
    with graphmill.Session(graph=made, config=config) as session:
        assert session.run("bag:0", {"i:0": np.zeros((1, 1, 1), np.int64)}).shape == (1, 1, 1)
        with pytest.raises(errors.InvalidArgumentError, match="reduction dimension = 3") as caught:
            session.run("bag:0", {"i:0": [1]})
    assert caught.value.node == "bag"
    assert OPS.get("_MultiHot").family == "array"
