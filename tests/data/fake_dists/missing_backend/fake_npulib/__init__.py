"""A plugin whose kernels need a library that is not installed."""

from __future__ import annotations

import graphmill


@graphmill.op("Npulib>Twice")
def twice(x: graphmill.float32) -> graphmill.float32:
    """Return twice the number."""


@graphmill.hookimpl
def graphmill_register_ops(ops):
    ops.add(twice)


@graphmill.hookimpl
def graphmill_register_kernels(kernels):
    kernels.add_module("fake_npulib.kernels", ops=("AddV2", "Npulib>Twice"))
    kernels.add_module("fake_npulib.kernels_of_npu", ops=("AddV2",), backend="npulib")
