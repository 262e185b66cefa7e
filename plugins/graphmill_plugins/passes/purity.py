"""Decide which nodes a pass may compute earlier, merge or remove."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.spi import ControlFlow, Source
from graphmill.spi.passes import effects_of, effects_of_node, is_overridden, kernels_of_node

if TYPE_CHECKING:
    from graphmill.spi import Node
    from graphmill.spi.passes import PassOptions


def has_pure_op(node: Node) -> bool:
    """Return whether the outputs of an op depend only on inputs and attrs, without effects.

    The effects of its kernel are not considered; see `is_pure`.
    """
    op_def = node.op_def
    traits = op_def.traits
    return not (
        op_def.is_stateful
        or traits.control_flow is not ControlFlow.NONE
        or traits.source is Source.PLACEHOLDER
        or traits.gives_dead
        or op_def.calls
        or node.op in node.graph.library
        or effects_of(op_def)
        or any(dtype.is_ref for dtype in (*node.input_types, *node.output_types))
    )


def is_pure(node: Node, options: PassOptions) -> bool:
    """Return whether a node's outputs depend only on inputs and attrs, without effects."""
    return has_pure_op(node) and not effects_of_node(node, options)


def is_forwarding(node: Node, options: PassOptions) -> bool:
    """Return whether a node returns its only input unchanged, without effects.

    A kernel of another supplier than the op's may change it, unless the kernel promises not to.
    """
    if not node.op_def.traits.forwards or len(node.in_edges) != 1:
        return False
    if effects_of_node(node, options):
        return False
    return not is_overridden(node, options) or all(
        choice is None or choice.definition.forwards for choice in kernels_of_node(node, options)
    )
