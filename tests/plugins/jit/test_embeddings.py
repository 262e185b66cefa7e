"""Training of embeddings is one program for any number of distinct rows (clauses S6, E9)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.plugins.jit.small_graphs import OPS, HotSession, graph_def

from graphmill.errors import InvalidArgumentError
from graphmill_plugins.kernels.training._training_rules import RULES

pytestmark = [pytest.mark.jax, pytest.mark.divided]

ROWS, WIDTH = 40, 3
SUMS = (
    "u = Unique(ids)",
    "shape = Shape(u[0])",
    "zero = Const(dtype=int32, value='int32: [0]')",
    "one = Const(dtype=int32, value='int32: [1]')",
    "size = StridedSlice(shape, zero, one, one, shrink_axis_mask=1)",
    "axis = Const(dtype=int32, value='int32: 0')",
    "taken = GatherV2(read_var, ids, axis)",
    "grad = Mul(taken, x)",
    "sum = UnsortedSegmentSum(grad, u[1], size)",
)
SCALARS = {"lr": 0.1, "rho": 0.9, "momentum": 0.8, "epsilon": 1e-3, "l1": 0.01, "l2": 0.02}
SCALARS |= {"lr_power": -0.5, "l2_shrinkage": 0.03, "alpha": 0.05, "delta": 0.05}
INPUTS = {"ids": "int32[12]", "x": "float32[12, 3]"}


def rule_of(op: str) -> str:
    return op.removeprefix("Resource").removeprefix("SparseApply")


def scalar(name: str, value: float) -> str:
    kind = "int64: 3" if name == "global_step" else f"float32: {value}"
    return f"{name} = Const(dtype={kind.partition(':')[0]}, value='{kind}')"


def variables(states: list[str], *, resource: bool) -> list[str]:
    """Return the nodes of the variables, their initializers and their reads."""
    lines = []
    for number, state in enumerate(states):
        start = [[0.5 + number + 0.01 * row] * WIDTH for row in range(ROWS)]
        lines.append(f"start_{state} = Const(dtype=float32, value='float32: {start}')")
        if resource:
            lines += [
                f"{state} = VarHandleOp(dtype=float32, shape=[40, 3], shared_name='{state}')",
                f"set_{state} = AssignVariableOp({state}, start_{state})",
                f"read_{state} = ReadVariableOp({state}, dtype=float32)",
            ]
        else:
            lines += [
                f"{state} = VariableV2(dtype=float32, shape=[40, 3])",
                f"set_{state} = Assign({state}, start_{state})",
                f"read_{state} = Identity({state})",
            ]
    return lines


def training(op: str) -> tuple[Any, list[str]]:
    """Return a graph that updates the rows `ids` by `op`, and its states."""
    states = list(RULES[rule_of(op)].states)
    names = [arg.name for arg in OPS.get(op).input_args]
    scalars = [scalar(n, SCALARS.get(n, 0)) for n in names if n not in (*states, "grad", "indices")]
    inputs = [{"grad": "sum", "indices": "u[0]"}.get(name, name) for name in names]
    nodes = [*variables(states, resource=op.startswith("Resource")), *SUMS, *scalars]
    return graph_def(*nodes, f"train = {op}({', '.join(inputs)})", **INPUTS), states


def steps(made: Any, states: list[str], mode: str, batches: list[Any]) -> tuple[Any, Any]:
    """Return all variables after some steps, and the clusters that ran."""
    with HotSession(made, mode) as hot:
        for state in states:
            hot.run([], targets=[f"set_{state}"])
        for ids, x in batches:
            hot.run([], {"ids:0": ids, "x:0": x}, ["train"])
        clusters = [c for c in hot.clusters if "u" in c.nodes]
        return [hot.run(f"read_{state}:0") for state in states], clusters


def batches_of(count: int) -> list[Any]:
    generator = np.random.default_rng(5)
    return [
        (
            generator.integers(0, 3 + 5 * n, 12).astype(np.int32),
            generator.normal(size=(12, WIDTH)).astype(np.float32),
        )
        for n in range(count)
    ]


@pytest.mark.parametrize("op", sorted(op for op in OPS.names() if "SparseApply" in op))
def test_rows_are_updated_as_the_interpreter_does(op: str) -> None:
    made, states = training(op)
    batches = batches_of(4)
    expected, _ = steps(made, states, "off", batches)
    found, (cluster,) = steps(made, states, "eager", batches)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=3e-6, atol=1e-6)
    assert "train" in cluster.nodes
    assert [record.tier for record in cluster.signatures] == ["compiled"]
    assert sum(record.num_compiled for record in cluster.signatures) == len(batches)


def test_missing_row_is_reported_and_nothing_changes() -> None:
    made, states = training("SparseApplyAdagrad")
    good = batches_of(1)[0]
    values = []
    for mode in ("off", "eager"):
        with HotSession(made, mode) as hot:
            for state in states:
                hot.run([], targets=[f"set_{state}"])
            hot.run([], dict(zip(("ids:0", "x:0"), good, strict=True)), ["train"])
            before = [hot.run(f"read_{state}:0") for state in states]
            bad = good[0].copy()
            bad[3] = ROWS
            error = hot.error([], {"ids:0": bad, "x:0": good[1]}, ["train"])
            assert isinstance(error, InvalidArgumentError)
            after = [hot.run(f"read_{state}:0") for state in states]
            np.testing.assert_array_equal(before, after)
            values.append((error.node, after))
    assert values[0][0] == values[1][0]
    np.testing.assert_allclose(values[0][1], values[1][1], rtol=3e-6)


def test_a_rate_that_is_computed_is_checked_in_the_program() -> None:
    made, states = training("SparseApplyFtrl")
    for node in [node for node in made.node if node.name == "lr"]:
        node.op = "Placeholder"
        del node.attr["value"]
        node.attr["shape"].shape.SetInParent()
    ids, x = batches_of(1)[0]
    values = []
    for mode in ("off", "eager"):
        with HotSession(made, mode) as hot:
            for state in states:
                hot.run([], targets=[f"set_{state}"])
            feeds = {"ids:0": ids, "x:0": x}
            hot.run([], {**feeds, "lr:0": np.float32(0.1)}, ["train"])
            error = hot.error([], {**feeds, "lr:0": np.float32(-0.1)}, ["train"])
            assert "lr is not a positive scalar" in str(error)
            values.append([hot.run(f"read_{state}:0") for state in states])
            tiers = [c.tier for c in hot.clusters if "u" in c.nodes]
    np.testing.assert_allclose(*values, rtol=3e-6, atol=1e-6)
    assert tiers == ["compiled"]


def test_sums_that_are_computed_with_go_into_rows_too() -> None:
    """Optimizers such as Adam, which decay slots as a whole and then update rows, are compiled."""
    nodes = [
        *variables(["var", "m"], resource=False),
        *SUMS,
        "tenth = Const(dtype=float32, value='float32: 0.1')",
        "square = Mul(sum, sum)",
        "scaled = Mul(square, tenth)",
        "decayed = Mul(read_m, tenth)",
        "assigned = Assign(m, decayed)",
        "train = ScatterAdd(assigned, u[0], scaled)",
    ]
    made = graph_def(*nodes, **INPUTS)
    batches = batches_of(4)
    expected, _ = steps(made, ["var", "m"], "off", batches)
    found, (cluster,) = steps(made, ["var", "m"], "eager", batches)
    np.testing.assert_allclose(found, expected, rtol=3e-6)
    assert [record.tier for record in cluster.signatures] == ["compiled"]
    assert {"u", "sum", "train"} <= set(cluster.nodes)


def test_data_dependent_row_count_is_interpreted() -> None:
    """A step with a data-dependent number of rows is interpreted."""
    nodes = [
        *variables(["var"], resource=False),
        *SUMS,
        "scaled = Mul(sum, each)",
        "train = ScatterAdd(var, u[0], scaled)",
    ]
    made = graph_def(*nodes, **INPUTS, each="float32[12, 1]")
    ids, x = np.arange(12, dtype=np.int32)[::-1].copy(), np.ones((12, 3), np.float32)
    each = np.arange(12, dtype=np.float32)[:, None]
    values = []
    for mode in ("off", "eager"):
        with HotSession(made, mode) as hot:
            hot.run([], targets=["set_var"])
            hot.run([], {"ids:0": ids, "x:0": x, "each:0": each}, ["train"])
            values.append(hot.run("read_var:0"))
            reasons = [r.reason for c in hot.clusters for r in c.signatures if "scaled" in c.nodes]
    np.testing.assert_allclose(*values, rtol=1e-6)
    assert "depends on the number of distinct values" in reasons[0]
