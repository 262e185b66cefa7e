"""The modules of kernels are registered with the family of their ops."""

from __future__ import annotations

from graphmill.ops.definition.op_registry import OpRegistry
from graphmill_plugins.kernels import JAX_MODULES, MODULES
from graphmill_plugins.kernels._ops import OPS


def test_modules_have_ops_of_their_family_only():
    """Modules have only ops of their family, because lookups import one family."""
    modules = [(family, name) for family, names in MODULES.items() for name in names]
    modules += [(family, f"jax.{name}") for family, names in JAX_MODULES.items() for name in names]
    ops = OpRegistry()
    assert not {
        op: family
        for family, module in modules
        for op in OPS.get(module, "").split()
        if op in ops and ops.get(op).family != family
    }
