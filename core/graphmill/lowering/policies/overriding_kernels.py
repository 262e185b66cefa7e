"""Withdraw from nodes the roles that only kernels of their op's supplier are known to have.

The traits of an op say what its kernels compute: that it is a constant, forwards its input, adds,
calls a function. Passes and compilers act on that without a call of the kernel. A kernel of another
supplier may compute something else, so a node with such a kernel gets a definition that says less.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from graphmill.lowering.policies.node_effects import kernels_of_node, overrides_op
from graphmill.ops.definition.effects import effects_of
from graphmill.ops.definition.op_traits import Arithmetic, Source
from graphmill.runtime.kernels.lowering_registry import supplier_of

if TYPE_CHECKING:
    from graphmill.graph.graph import Graph
    from graphmill.lowering.passes import PassOptions
    from graphmill.ops.definition.op_def import OpDef
    from graphmill.runtime.kernels.kernel import KernelDef

_COMPUTED: Final = frozenset({Source.CONSTANT, Source.VARIABLE})
"""Sources whose value a kernel returns; the others are fed."""


def withdraw_roles(graph: Graph, options: PassOptions) -> None:
    """Replace the definitions of placed nodes whose kernel overrides that of their op.

    What such a node computes is then known to its kernel alone. What its op says about shapes,
    control flow, resources and effects (to which those of the kernel are added) stays declared.
    """
    host = options.host
    may_be_overridden: dict[str, bool] = {}
    for node in graph.nodes:
        if node.op not in may_be_overridden:
            suppliers = host.kernels.suppliers_of(node.op_def)
            may_be_overridden[node.op] = any(
                supplier != supplier_of(host.ops.provenance(node.op)) for supplier in suppliers
            )
        if not may_be_overridden[node.op]:
            continue
        for choice in kernels_of_node(node, options):
            if choice is not None and overrides_op(choice, node.op, host.ops):
                node.op_def = _without_roles(node.op_def, choice.definition)


def _without_roles(op_def: OpDef, kernel: KernelDef) -> OpDef:
    traits = op_def.traits
    remaining = traits._replace(
        effects=effects_of(op_def) | kernel.effects,
        source=Source.NONE if traits.source in _COMPUTED else traits.source,
        calls=(),
        forwards=traits.forwards and kernel.forwards,
        reshapes=False,
        validates=False,
        arithmetic=Arithmetic.NONE,
        rows=None,
        shape_only=False,
    )
    if remaining == traits:
        return op_def
    return dataclasses.replace(
        op_def, traits=remaining, is_commutative=False, is_aggregate=False, value_function=None
    )
