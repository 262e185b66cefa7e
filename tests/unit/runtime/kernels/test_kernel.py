"""Kernels are declared, and collected from modules (clause E11)."""

from __future__ import annotations

import types
from typing import Any

import numpy as np
import pytest

from graphmill import dtypes, errors
from graphmill.runtime.kernels.kernel import KernelDef, KernelTable, kernel, kernels_of


def test_e11_a_kernel_needs_an_op_and_known_effects() -> None:
    with pytest.raises(errors.InvalidArgumentError, match="needs the names of the ops"):
        kernel()
    with pytest.raises(
        errors.InvalidArgumentError, match=r"unknown effects \['fs'\]; known: .*net"
    ):
        kernel("Add", effects=["fs"])


def test_e11_kernel_function_may_serve_several_ops() -> None:
    @kernel("A", "B", types={"T": ["float32", np.int32]}, device="NPU", priority=2)
    @kernel("C", backend="jax", label="fast", effects={"log"}, host_memory=["x"])
    def function(xp: Any) -> None:
        """Do nothing."""

    inner, outer = kernels_of(function)
    assert (outer.ops, outer.device, outer.priority) == (("A", "B"), ("NPU",), 2)
    assert outer.types == {"T": (dtypes.float32, dtypes.int32)}
    assert (inner.ops, inner.backend, inner.label) == (("C",), "jax", "fast")
    assert (inner.effects, inner.host_memory) == ({"log"}, ("x",))
    assert outer.source.endswith("function")


@pytest.mark.parametrize("bar", ["host", "stateful", "async_", "dynamic_shape"])
def test_e11_only_plain_kernels_are_traceable(bar: str) -> None:
    (plain,) = kernels_of(kernel("A")(lambda xp: None))
    (barred,) = kernels_of(kernel("A", **{bar: True})(lambda xp: None))
    assert plain.is_traceable
    assert not barred.is_traceable


def test_e11_only_kernels_defined_in_a_module_are_collected() -> None:
    module = types.ModuleType("some_kernels")

    @kernel("Own")
    def own(xp: Any) -> None:
        """Do nothing."""

    @kernel("Imported")
    def imported(xp: Any) -> None:
        """Do nothing."""

    own.__module__ = "some_kernels"
    module.own = module.again = own  # type: ignore[attr-defined]
    module.imported = imported  # type: ignore[attr-defined]
    module.table = KernelTable([KernelDef(("Tabled",), own)])  # type: ignore[attr-defined]
    assert sorted(k.ops[0] for k in kernels_of(module)) == ["Own", "Tabled"]
    assert kernels_of(42) == []


def test_effects_given_as_a_string_are_refused_with_the_list_to_write() -> None:
    with pytest.raises(errors.InvalidArgumentError, match=r"effects=\['log'\]"):
        kernel("Mine>Logs", effects="log")
