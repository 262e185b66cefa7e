"""`SparseDedupAnalysis` finds `Unique` nodes that only deduplicate gradient rows."""

from __future__ import annotations

from typing import Any

import pytest
from tests.plugins.jit.small_graphs import graph

from graphmill.lowering.passes import DISABLE_VARIABLE
from graphmill.plugin.host import default_host
from graphmill_plugins.jit.idioms.sparse_dedup_analysis import (
    NAME,
    NOT_DISTINCT,
    REASON,
    USED_OUTSIDE,
    SparseDedupAnalysis,
)
from graphmill_plugins.jit.ir.lowering_choices import LoweringChoices

INPUTS = {"ids": "int32[6]", "grad": "float32[6, 2]", "lr": "float32"}
VARIABLE = "v = VarHandleOp(dtype=float32, shape=[9, 2], shared_name='v')"
UNIQUE = (
    "u = Unique(ids)",
    "shape = Shape(u:0)",
    "zero = Const(dtype=int32, value='int32: [0]')",
    "one = Const(dtype=int32, value='int32: [1]')",
    "size = StridedSlice(shape, zero, one, one, shrink_axis_mask=1)",
    "sum = UnsortedSegmentSum(grad, u:1, size)",
)
UPDATE = "add = ResourceScatterAdd(v, u:0, sum)"
GRADIENT = ("step = Neg(sum)", "scaled = Mul(step, lr)", "add = ResourceScatterAdd(v, u:0, scaled)")


def nodes(*texts: str) -> list[str]:
    return [text.replace("u:0", "u[0]").replace("u:1", "u[1]") for text in texts]


def found(*texts: str, **more: str) -> tuple[Any, SparseDedupAnalysis]:
    made = graph(*nodes(VARIABLE, *UNIQUE, *texts), **INPUTS, **more)
    return made, SparseDedupAnalysis(made, LoweringChoices(default_host()))


@pytest.mark.parametrize("texts", [(UPDATE,), GRADIENT], ids=["as they are", "computed with"])
def test_sums_that_go_into_rows_may_be_padded(texts: tuple[str, ...]) -> None:
    made, rows = found(*texts)
    unique, add = made.node("u"), made.node("add")
    assert rows.why_not(unique) is None
    assert rows.unique_of == {add: unique}
    assert {made.node("sum"), made.node("size"), add} <= rows.members[unique]
    assert set(rows.exclusive_inputs[made.node("sum")]) == {
        unique,
        made.node("shape"),
        made.node("size"),
    }


@pytest.mark.parametrize(
    "reader",
    [
        "y = Neg(u:0)",
        "y = AddV2(u:1, ids)",
        "y = AddV2(size, zero)",
        "y = Sum(sum, zero)",
        "y = MatMul(sum, sum)",
        "y = ResourceScatterUpdate(v, ids, sum)",
        "y = ResourceScatterAdd(v, u:1, grad)",
        "y = UnsortedSegmentSum(sum, u:1, size)",
        "y = UnsortedSegmentMax(grad, u:1, size)",
        "y = UnsortedSegmentSum(grad, ids, size)",
    ],
)
def test_other_reader_prevents_clustering(reader: str) -> None:
    made, rows = found(UPDATE, *nodes(reader))
    assert rows.why_not(made.node("u")) == REASON
    assert not rows.members


def test_two_sparse_updates_are_distinguished() -> None:
    made, rows = found(
        *GRADIENT,
        "w = Unique(other)",
        "mixed = ResourceScatterSub(v, w[0], scaled)",
        other="int32[6]",
    )
    assert not rows.members
    assert rows.why_not(made.node("w")) == REASON


def test_sparse_update_with_repeated_rows_is_excluded() -> None:
    apply = "apply = ResourceSparseApplyAdagrad(v, v, lr, grad, ids)"
    made, rows = found(UPDATE, apply)
    assert rows.why_not(made.node("apply")) == NOT_DISTINCT


def test_update_across_clusters_is_not_deduplicated() -> None:
    made, rows = found("apply = ResourceSparseApplyAdagrad(v, v, lr, sum, u:0)")
    unique, apply = made.node("u"), made.node("apply")
    everything = set(rows.members[unique])
    assert rows.incomplete([everything]) == {}
    assert rows.incomplete([everything - {apply}, {apply}]) == {
        unique: USED_OUTSIDE,
        apply: USED_OUTSIDE,
    }


def test_dedup_analysis_adds_no_waits() -> None:
    made, rows = found(UPDATE, "after = Neg(lr, after=[u])")
    assert made.node("u") in rows
    assert not rows.exclusive_inputs


def test_analysis_is_switched_off_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    made, rows = found(UPDATE)
    assert rows.members
    monkeypatch.setenv(DISABLE_VARIABLE, NAME)
    assert not SparseDedupAnalysis(made, LoweringChoices(default_host())).members
