"""The index of the compiler's lowerings names the ops that the modules declare."""

from __future__ import annotations

import importlib

import pytest

from graphmill.plugin.host import default_host
from graphmill.runtime.kernels.lowering import lowerings_of
from graphmill_plugins.jit.lowerings import MODULES

pytest.importorskip("jax")
pytestmark = pytest.mark.jax


@pytest.mark.parametrize("module", MODULES)
def test_index_names_what_the_module_declares(module: str) -> None:
    declared = lowerings_of(importlib.import_module(f"graphmill_plugins.jit.lowerings.{module}"))
    assert sorted(op for one in declared for op in one.ops) == sorted(MODULES[module].split())


def test_sparse_optimizers_are_compiled_only_with_distinct_rows() -> None:
    host = default_host()
    for name in host.ops.names():
        if "SparseApply" not in name:
            continue
        for entry in host.kernels.registrations(host.ops.get(name)):
            assert entry.definition.distinct_rows, name
            assert entry.definition.traces_variables, name
