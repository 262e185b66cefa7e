"""Lists that grow in loops by setting elements, and loops that may exit early (clause E3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.plugins.jit.small_graphs import HotSession, graph_def

from graphmill.errors import InvalidArgumentError
from graphmill_plugins.jit.tiers import tier_machine

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = [pytest.mark.jax, pytest.mark.divided]

TYPES = "T=[int32, int32, float32, variant]"
SIGNATURE = "(i: int32, n: int32, x: float32, l: variant)"
LESS = f"c{SIGNATURE} -> bool: y = Less(i, n); return y"
SMALL = """c(i: int32, n: int32, x: float32, l: variant) -> bool:
    less = Less(i, n); all = Const(dtype=int32, value='int32: [0]')
    top = Const(dtype=float32, value='float32: 50'); sum = Sum(x, all, Tidx=int32)
    small = Less(sum, top); y = LogicalAnd(less, small); return y"""
BODY = """b(i: int32, n: int32, x: float32, l: variant) -> (int32, int32, float32, variant):
    one = Const(dtype=int32, value='int32: 1'); j = AddV2(i, one); m = Identity(n)
    set = TensorListSetItem(l, i, x, resize_if_index_out_of_bounds=True)
    z = AddV2(x, x); return j, m, z, set"""
NODES = (
    "i = Const(dtype=int32, value='int32: 0')",
    "n = Const(dtype=int32, value='int32: {most}')",
    "none = Const(dtype=int32, value='int32: -1')",
    "size = Const(dtype=int32, value='int32: {size}')",
    "l = TensorListReserve(none, size, element_dtype=float32)",
    f"w = While([i, n, x, l], {TYPES}, cond=c, body=b)",
    "s = TensorListStack(w[3], shape, element_dtype=float32{more})",
    "y = Neg(s)",
)
X = np.array([1, 0.5], np.float32)


def graph(
    cond: str = SMALL,
    *,
    body: str = BODY,
    most: int = 9,
    size: int = 0,
    shape: str = "-1",
    more: str = "",
    functions: tuple[str, ...] = (),
    nodes: Sequence[str] = NODES,
    x: str = "float32[2]",
) -> Any:
    texts = [text.format(most=most, size=size, more=more) for text in nodes]
    texts.insert(0, f"shape = Const(dtype=int32, value='int32: {shape}')")
    return graph_def(*texts, functions=(cond, body, *functions), x=x)


def both(made: Any, *feeds: Any) -> Any:
    """Return the loop's cluster of a graph with equal interpreted and compiled results."""
    values = []
    for mode in ("off", "eager"):
        with HotSession(made, mode) as hot:
            values.append([hot.run("y:0", {"x:0": feed}) for feed in feeds])
            found = [cluster for cluster in hot.clusters if "w" in cluster.nodes]
    for first, second in zip(*values, strict=True):
        np.testing.assert_array_equal(first, second)
    (cluster,) = found
    return cluster


def failed_checks(hot: HotSession) -> list[int]:
    found = [cluster for cluster in hot.clusters if "w" in cluster.nodes]
    return [signature.num_checks_failed for cluster in found for signature in cluster.signatures]


def tiers(cluster: Any) -> list[str]:
    return [signature.tier for signature in cluster.signatures]


def test_early_exit_loop_stacks_one_row_per_iteration() -> None:
    """A loop that may exit early stacks one row per iteration: one program serves all counts."""
    cluster = both(graph(), X, X / 100, X * 20)
    assert tiers(cluster) == ["compiled"]
    assert "s" in cluster.nodes
    assert "y" not in cluster.nodes


def test_zero_iterations_are_interpreted_unless_shape_is_static() -> None:
    with HotSession(graph(shape="[2]"), "eager") as hot:
        assert hot.run("y:0", {"x:0": X * 100}).shape == (0, 2)
        assert failed_checks(hot) == [0]
    with HotSession(graph(), "eager") as hot:
        with pytest.raises(InvalidArgumentError, match="non-fully-defined"):
            hot.run("y:0", {"x:0": X * 100})
        assert failed_checks(hot) == [1]


def test_static_trip_count_gives_static_row_count() -> None:
    cluster = both(graph(LESS), X)
    assert tiers(cluster) == ["compiled"]
    assert {"s", "y"} <= set(cluster.nodes)


def test_logical_and_in_python_bounds_a_loop() -> None:
    """Python's `and`, as AutoGraph generates it, also bounds a loop."""
    cond = SMALL.replace(
        "sum = Sum(x, all, Tidx=int32)\n    small = Less(sum, top); y = LogicalAnd(less, small)",
        "y = StatelessIf(less, [less, x], Tin=[bool, float32], Tout=[bool], then_branch=t, "
        "else_branch=e)",
    )
    then = """t(p: bool, x: float32) -> bool:
        all = Const(dtype=int32, value='int32: [0]'); sum = Sum(x, all, Tidx=int32)
        top = Const(dtype=float32, value='float32: 50'); y = Less(sum, top); return y"""
    other = "e(p: bool, x: float32) -> bool: y = Identity(p); return y"
    cluster = both(graph(cond, functions=(then, other)), X, X / 100)
    assert tiers(cluster) == ["compiled"]


@pytest.mark.parametrize("size", [1, 4, 20])
def test_non_empty_list_never_shrinks(size: int) -> None:
    """A list that is not empty at first never shrinks; unset elements are zeros."""
    for cond in (LESS, SMALL):
        assert tiers(both(graph(cond, size=size), X, X * 20)) == ["compiled"]


def test_consumer_of_stacked_rows_is_in_another_cluster() -> None:
    nodes = [
        *NODES[:-1],
        "v = VarHandleOp(dtype=float32, shape='unknown', shared_name='v')",
        "kept = AssignVariableOp(v, s, dtype=float32)",
        "y = ReadVariableOp(v, dtype=float32, after=[kept])",
    ]
    assert tiers(both(graph(nodes=nodes), X, X * 20)) == ["compiled"]


def test_elements_may_be_set_again() -> None:
    body = BODY.replace(
        "set = TensorListSetItem(l, i",
        "two = Const(dtype=int32, value='int32: 2'); at = FloorDiv(i, two); "
        "set = TensorListSetItem(l, at",
    )
    for cond in (LESS, SMALL):
        assert tiers(both(graph(cond, body=body), X, X * 20)) == ["compiled"]


def test_index_far_past_end_is_interpreted() -> None:
    """A write beyond the capacity, one element per iteration, is interpreted."""
    body = BODY.replace(
        "set = TensorListSetItem(l, i",
        "far = Const(dtype=int32, value='int32: 30'); at = AddV2(i, far); "
        "set = TensorListSetItem(l, at",
    )
    cluster = both(graph(body=body), X)
    assert [signature.num_checks_failed for signature in cluster.signatures] == [1]


def test_requested_num_elements_is_checked() -> None:
    cluster = both(graph(more=", num_elements=6"), X)
    assert tiers(cluster) == ["compiled"]
    with (
        HotSession(graph(more=", num_elements=6"), "eager") as hot,
        pytest.raises(InvalidArgumentError, match="6"),
    ):
        hot.run("y:0", {"x:0": X * 20})


UNBOUNDED = SMALL.replace("LogicalAnd(less, small)", "LogicalOr(less, small)")


def test_unbounded_loop_gets_default_capacity() -> None:
    assert tiers(both(graph(UNBOUNDED, most=2), X, X / 100)) == ["compiled"]


def test_loop_exceeding_capacity_is_interpreted() -> None:
    """A loop that exceeds its capacity is interpreted, after some failed calls immediately."""
    with HotSession(graph(UNBOUNDED, most=300), "eager") as hot:
        for _ in range(40):
            assert hot.run("y:0", {"x:0": X}).shape == (300, 2)
        found = [s for c in hot.clusters if "w" in c.nodes for s in c.signatures]
    (signature,) = found
    assert signature.num_checks_failed == 32
    assert (
        "its checks failed in 32 calls, which the interpreter repeated, and passed in 0"
        in signature.reason
    )


def test_tier_with_failed_checks_is_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tier_machine, "CALLS_SUSPENDED", 5)
    with HotSession(graph(more=", num_elements=6"), "eager") as hot:
        for _ in range(32):
            with pytest.raises(InvalidArgumentError):
                hot.run("y:0", {"x:0": X * 20})
        for _ in range(7):
            hot.run("y:0", {"x:0": X})
        found = [s for c in hot.clusters if "w" in c.nodes for s in c.signatures]
    (signature,) = found
    assert (signature.num_checks_failed, signature.num_compiled, signature.reason) == (32, 2, "")


def test_unbounded_loop_capacity_is_limited() -> None:
    with HotSession(graph(UNBOUNDED, most=2, x="float32[100000]"), "eager") as hot:
        hot.run("y:0", {"x:0": np.ones(100000, np.float32)})
        found = [s for c in hot.clusters if "w" in c.nodes for s in c.signatures]
    assert [signature.tier for signature in found] == ["straight-line"]
    assert "would take 102400000 bytes for 256 iterations" in found[0].reason


def test_a_list_may_grow_in_an_early_exit_loop() -> None:
    body = BODY.replace(
        "TensorListSetItem(l, i, x, resize_if_index_out_of_bounds=True)",
        "TensorListPushBack(l, x)",
    )
    nodes = list(NODES)
    nodes[4] = "l = EmptyTensorList(none, none, element_dtype=float32)"
    for cond in (LESS, SMALL):
        made = graph(cond, body=body, nodes=nodes)
        assert tiers(both(made, X, X * 20)) == ["compiled"]


# Tensor arrays of control flow v1

ARRAY_TYPES = "T=[int32, int32, float32, resource, float32]"
ARRAY_RESULTS = "(int32, int32, float32, resource, float32)"
ARRAY_BODY = f"""b(i: int32, n: int32, x: float32, a: resource, f: float32) -> {ARRAY_RESULTS}:
    one = Const(dtype=int32, value='int32: 1'); j = AddV2(i, one); m = Identity(n)
    set = TensorArrayWriteV3(a, i, x, f); z = AddV2(x, x); same = Identity(a)
    return j, m, z, same, set"""
ARRAY_NODES = (
    "i = Const(dtype=int32, value='int32: 0')",
    "n = Const(dtype=int32, value='int32: {most}')",
    "one = Const(dtype=int32, value='int32: 1')",
    "size = Const(dtype=int32, value='int32: {size}')",
    "a = TensorArrayV3(size, dtype=float32, dynamic_size=True, element_shape=[2])",
    f"w = While([i, n, x, a[0], a[1]], {ARRAY_TYPES}, cond=c, body=b)",
    "count = TensorArraySizeV3(a[0], w[4])",
    "all = Range(i, count, one)",
    "s = TensorArrayGatherV3(a[0], all, w[4], dtype=float32, element_shape=[2])",
    "y = Neg(s)",
)


def arrays(cond: str, **options: Any) -> Any:
    cond = cond.replace("l: variant)", "a: resource, f: float32)")
    return graph(cond, body=ARRAY_BODY, nodes=ARRAY_NODES, **options)


@pytest.mark.parametrize("cond", [SMALL, UNBOUNDED], ids=["bounded", "unbounded"])
def test_tensor_array_grows_in_early_exit_loop(cond: str) -> None:
    """A tensor array grows in a loop that may exit early, as in TensorFlow 1's decoders."""
    cluster = both(arrays(cond, most=9 if cond is SMALL else 2), X, X / 100, X * 20)
    assert tiers(cluster) == ["compiled"]
    assert {"count", "all", "s"} <= set(cluster.nodes)
    assert "y" not in cluster.nodes


def test_static_trip_count_gives_static_tensor_array_size() -> None:
    cluster = both(arrays(LESS), X)
    assert tiers(cluster) == ["compiled"]
    assert {"s", "y"} <= set(cluster.nodes)


def test_sized_tensor_array_grows_from_its_size() -> None:
    assert tiers(both(arrays(SMALL, size=3), X)) == ["compiled"]
