"""The table of traced ops names the optimizers with kernels: neither package imports the other."""

from __future__ import annotations

from graphmill_plugins.jit.tracing.traced_ops import SPARSE_UPDATES, VARIABLE_OPS
from graphmill_plugins.kernels.training.ops import optimizer_kernels


def kernels_of(*prefixes: str) -> set[str]:
    ops = {op for definition in optimizer_kernels for op in definition.ops}
    return {op for op in ops if op.startswith(prefixes)}


def test_sparse_optimizers_are_those_that_have_kernels() -> None:
    assert kernels_of("SparseApply", "ResourceSparseApply") <= SPARSE_UPDATES
    missing = SPARSE_UPDATES - kernels_of("SparseApply", "ResourceSparseApply")
    assert missing == {"SparseApplyKerasMomentum"}  # no such op: Keras has resources only


def test_dense_optimizers_are_those_that_have_kernels() -> None:
    assert kernels_of("Apply", "ResourceApply") <= VARIABLE_OPS
