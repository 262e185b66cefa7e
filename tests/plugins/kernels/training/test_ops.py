"""Optimizers: repeated rows, locks and errors; op cases cover the arithmetic."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from graphmill import dtypes, errors
from graphmill.runtime.resources.variables import Ref
from graphmill_plugins.kernels.training.ops import rule_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.runtime.kernels.op_kernel import OpKernel

    Bind = Callable[..., OpKernel]


def ref(value: Any) -> Ref:
    made = Ref(dtypes.as_dtype(value.dtype), value.shape, "v")
    made.value = value
    return made


def test_the_same_variable_twice_is_refused(call: Callable[..., Any]) -> None:
    """It would be locked twice, and wait for itself."""
    var = ref(np.ones(2, np.float32))
    with pytest.raises(errors.InvalidArgumentError, match="var and accum are the same variable"):
        call("ApplyAdagrad", var, var, np.float32(1), np.ones(2, np.float32))


@pytest.mark.parametrize(
    ("op", "name"),
    [
        ("ApplyAdam", "Adam"),
        ("ResourceApplyAdam", "Adam"),
        ("ResourceSparseApplyFtrlV2", "FtrlV2"),
        ("SparseApplyAdagrad", "Adagrad"),
    ],
)
def test_forms_of_an_op_share_a_rule(op: str, name: str) -> None:
    assert rule_name(op) == name


def test_repeated_row_is_updated_twice(bind_kernel: Bind, ctx: Any) -> None:
    start = np.ones((3, 1))
    rows, gradient, rate = np.array([2, 0, 2]), np.ones((3, 1)), np.float64(0.5)
    twice = [ref(start), ref(start)]
    bind_kernel("SparseApplyAdagrad", start, start, rate, gradient, rows).compute(
        ctx, *twice, rate, gradient, rows
    )
    one_by_one = [ref(start), ref(start)]
    for row in rows:
        part = np.array([row])
        bind_kernel("SparseApplyAdagrad", start, start, rate, gradient[:1], part).compute(
            ctx, *one_by_one, rate, gradient[:1], part
        )
    for got, expected in zip(twice, one_by_one, strict=True):
        np.testing.assert_array_equal(got.read(), expected.read())
    assert start.tolist() == [[1]] * 3


def test_concurrent_updates_are_not_lost_and_do_not_block(bind_kernel: Bind, ctx: Any) -> None:
    """Two ops that update the same variables in opposite order neither lose updates nor block."""
    one, two = ref(np.zeros(2)), ref(np.zeros(2))
    value, rate, momentum = np.zeros(2), np.float64(1), np.float64(0)
    compute = bind_kernel("ApplyMomentum", value, value, rate, value, momentum).compute

    def work(var: Ref, accum: Ref) -> None:
        for _ in range(200):
            compute(ctx, var, accum, rate, np.ones(2), momentum)

    threads = [threading.Thread(target=work, args=pair) for pair in ((one, two), (two, one))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
        assert not thread.is_alive()


def test_a_slot_of_another_shape_is_refused(bind_kernel: Bind, ctx: Any) -> None:
    value, slot, rate = np.zeros(2), np.zeros(3), np.float64(1)
    compute = bind_kernel("ApplyAdagrad", value, slot, rate, value).compute
    with pytest.raises(errors.InvalidArgumentError, match="var and accum do not have the same"):
        compute(ctx, ref(value), ref(slot), rate, value)


def test_an_error_changes_no_variable(bind_kernel: Bind, ctx: Any) -> None:
    value, rate = np.zeros((2, 1)), np.float64(1)
    var, accum = ref(value), ref(np.ones((2, 1)))
    rows = np.array([0, 9])
    compute = bind_kernel("SparseApplyAdagrad", value, value, rate, value, rows).compute
    with pytest.raises(errors.InvalidArgumentError, match=r"indices\[1\] = 9"):
        compute(ctx, var, accum, rate, np.ones((2, 1)), rows)
    assert var.read() is value
