"""Tensor lists in programs: growing in loops, constants, lists as values (clause E3)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.plugins.jit.small_graphs import HotSession, graph_def

from graphmill import errors

pytestmark = pytest.mark.jax

LESS = "c(i: int32, n: int32, l: variant, x: float32) -> bool: y = Less(i, n); return y"
PUSH = """b(i: int32, n: int32, l: variant, x: float32) -> (int32, int32, variant, float32):
    one = Const(dtype=int32, value='int32: 1'); j = AddV2(i, one); m = Identity(n)
    grown = TensorListPushBack(l, {pushed}); y = AddV2(x, x)
    return j, m, grown, y"""
POP = """d(i: int32, n: int32, l: variant, x: float32) -> (int32, int32, variant, float32):
    one = Const(dtype=int32, value='int32: 1'); j = AddV2(i, one); m = Identity(n)
    none = Const(dtype=int32, value='int32: -1')
    popped = TensorListPopBack(l, none, element_dtype=int32)
    y = Reshape(x, popped[1]); rest = Identity(popped[0])
    return j, m, rest, y"""
TYPES = "T=[int32, int32, variant, float32]"
LOOPS = (
    "i = Const(dtype=int32, value='int32: 0')",
    "n = Const(dtype=int32, value='int32: 3')",
    "none = Const(dtype=int32, value='int32: -1')",
    "l = EmptyTensorList(none, none, element_dtype=int32)",
    f"w = While([i, n, l, x], {TYPES}, cond=c, body=b)",
    f"v = While([i, n, w[2], flat], {TYPES}, cond=c, body=d)",
    "y = Neg(v[3])",
)


def both(made: Any, feeds: Any) -> list[Any]:
    """Return the interpreted and compiled results of a graph, and its clusters' tiers."""
    values, tiers = [], []
    for mode in ("off", "eager"):
        with HotSession(made, mode) as hot:
            values.append(hot.run("y:0", feeds))
            tiers += [signature.tier for c in hot.clusters for signature in c.signatures]
    np.testing.assert_array_equal(*values)
    return tiers


def test_loop_invariant_shapes_are_static_in_next_loop() -> None:
    """Static shapes of loop invariants stay static in the next loop, where `Reshape` needs them."""
    push = PUSH.replace("grown =", "shape = Shape(x); grown =").format(pushed="shape")
    made = graph_def(*LOOPS, functions=(LESS, push, POP), x="float32[2, 3]", flat="float32[6]")
    x = np.arange(6, dtype=np.float32)
    assert both(made, {"x:0": x.reshape(2, 3), "flat:0": x}) == ["compiled"]


def test_values_that_vary_per_iteration_are_not_static() -> None:
    push = PUSH.replace("grown =", "shape = Pack([i, j]); grown =").format(pushed="shape")
    size = POP.replace(
        "y = Reshape(x, popped[1])", "s = Cast(popped[1], DstT=float32); y = AddV2(x, s)"
    )
    made = graph_def(*LOOPS, functions=(LESS, push, size), x="float32[2]", flat="float32[2]")
    feeds = {"x:0": np.ones(2, np.float32), "flat:0": np.zeros(2, np.float32)}
    assert both(made, feeds) == ["compiled"]


def test_a_different_constant_makes_the_value_unknown() -> None:
    """A constant pushed before the loop that differs from those in it makes the value unknown."""
    before = (
        "other = Const(dtype=int32, value='int32: [3, 2]')",
        "first = TensorListPushBack(l, other)",
    )
    nodes = [text.replace("[i, n, l, x]", "[i, n, first, x]") for text in LOOPS]
    nodes[4:4] = before
    nodes[1] = nodes[1].replace(": 3", ": 2")  # one turn less than there are elements
    push = PUSH.replace("grown =", "shape = Shape(x); grown =").format(pushed="shape")
    size = POP.replace(
        "y = Reshape(x, popped[1])", "s = Cast(popped[1], DstT=float32); y = AddV2(x, s)"
    )
    pick = "last = TensorListPopBack(v[2], none, element_dtype=int32)"
    nodes[-1] = "y = Cast(last[1], DstT=float32)"
    made = graph_def(
        *nodes[:-1],
        pick,
        nodes[-1],
        functions=(LESS, push, size),
        x="float32[2, 3]",
        flat="float32[2]",
    )
    feeds = {"x:0": np.ones((2, 3), np.float32), "flat:0": np.zeros(2, np.float32)}
    assert "compiled" in both(made, feeds)


def test_zero_lists_and_list_sums_have_element_shapes() -> None:
    made = graph_def(
        "shape = Const(dtype=int32, value='int32: [2]')",
        "a = TensorListFromTensor(x, shape)",
        "b = TensorListFromTensor(x, shape)",
        "zeros = ZerosLike(a)",
        "total = AddN([a, b, zeros])",
        "said = TensorListElementShape(total, shape_type=int32)",
        "stacked = TensorListStack(total, said, element_dtype=float32)",
        "y = Neg(stacked)",
        x="float32[3, 2]",
    )
    assert both(made, {"x:0": np.arange(6, dtype=np.float32).reshape(3, 2)}) == ["compiled"]


SET = """b(i: int32, n: int32, l: variant, x: float32) -> (int32, int32, variant, float32):
    one = Const(dtype=int32, value='int32: 1'); j = AddV2(i, one); m = Identity(n)
    set = TensorListSetItem(l, i, x, element_dtype=float32); y = AddV2(x, x)
    return j, m, set, y"""
GET = """d(i: int32, n: int32, l: variant, x: float32) -> (int32, int32, variant, float32):
    one = Const(dtype=int32, value='int32: 1'); j = AddV2(i, one); m = Identity(n)
    none = Const(dtype=int32, value='int32: -1')
    got = TensorListGetItem(l, i, none, element_dtype=float32); y = AddV2(x, got)
    same = Identity(l)
    return j, m, same, y"""
RESERVED = (
    "i = Const(dtype=int32, value='int32: 0')",
    "size = Const(dtype=int32, value='int32: 4')",
    "none = Const(dtype=int32, value='int32: -1')",
    "l = TensorListReserve(none, size, element_dtype=float32)",
    f"w = While([i, n, l, x], {TYPES}, cond=c, body=b)",
)
READS = {
    "stack": "y = TensorListStack(w[2], none, element_dtype=float32)",
    "gather": "y = TensorListGather(w[2], order, none, element_dtype=float32)",
    "a loop": f"v = While([i, size, w[2], x], {TYPES}, cond=c, body=d); y = Identity(v[3])",
}


@pytest.mark.parametrize("read", READS)
def test_unset_elements_have_a_shape_if_another_is_set(read: str) -> None:
    order = "order = Const(dtype=int32, value='int32: [2, 0]')"
    nodes = (*RESERVED, order, *READS[read].split("; "))
    made = graph_def(*nodes, functions=(LESS, SET, GET), x="float32[2]", n="int32[]")
    x = np.ones(2, np.float32)
    assert both(made, {"x:0": x, "n:0": np.int32(3)}) == ["compiled"]
    for mode in ("off", "eager"):
        with (
            HotSession(made, mode) as hot,
            pytest.raises(errors.InvalidArgumentError, match="uninitialized"),
        ):
            hot.run("y:0", {"x:0": x, "n:0": np.int32(0)})


def test_a_list_of_one_branch_may_be_unset() -> None:
    filled = "f(l: variant, x: float32) -> variant: y = TensorListFromTensor(x, e); return y"
    filled = filled.replace("y =", "e = Const(dtype=int32, value='int32: [2]'); y =")
    same = "g(l: variant, x: float32) -> variant: y = Identity(l); return y"
    chosen = (
        "k = If(c, [l, x], Tin=[variant, float32], Tout=[variant], then_branch=f, else_branch=g)"
    )
    nodes = (*RESERVED[1:4], chosen, "y = TensorListStack(k[0], none, element_dtype=float32)")
    made = graph_def(*nodes, functions=(filled, same), x="float32[4, 2]", c="bool[]")
    x = np.ones((4, 2), np.float32)
    both(made, {"x:0": x, "c:0": np.True_})
    for mode in ("off", "eager"):
        with HotSession(made, mode) as hot, pytest.raises(errors.InvalidArgumentError):
            hot.run("y:0", {"x:0": x, "c:0": np.False_})
