"""Checks for the signs of optimizer scalars, stricter than those of the kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from graphmill.spi import Check, Lowering, LoweringTable, errors

if TYPE_CHECKING:
    from graphmill.spi import ArrayNamespace, Value


def adagrad_signs(
    xp: ArrayNamespace, var: Value, accum: Value, lr: Value, l1: Value, l2: Value, *_: Value
) -> Value:
    """Check the scalars of proximal Adagrad."""
    del var, accum
    return xp.all(lr > 0) & xp.all(l1 >= 0) & xp.all(l2 >= 0)


def ftrl_signs(xp: ArrayNamespace, *inputs: Value) -> Value:
    """Check the scalars of FTRL, which are its last inputs."""
    lr, l1, l2, lr_power = inputs[-4:]
    return xp.all(lr > 0) & xp.all(l1 >= 0) & xp.all(l2 >= 0) & xp.all(lr_power <= 0)


def ftrl_v2_signs(xp: ArrayNamespace, *inputs: Value) -> Value:
    """Check the scalars of FTRL with shrinkage, which are its last inputs."""
    *others, shrinkage, lr_power = inputs
    return ftrl_signs(xp, *others, lr_power) & xp.all(shrinkage >= 0)


def _by_resource(*ops: str) -> tuple[str, ...]:
    """Return ops on reference variables together with those on resource variables."""
    return (*ops, *(f"Resource{op}" for op in ops))


LOWERINGS: Final = LoweringTable(
    Lowering(_by_resource(*ops), checks=(Check(predicate, errors.InvalidArgumentError),))
    for ops, predicate in (
        (("ApplyProximalAdagrad", "SparseApplyProximalAdagrad"), adagrad_signs),
        (("SparseApplyFtrl",), ftrl_signs),
        (("SparseApplyFtrlV2",), ftrl_v2_signs),
    )
)
