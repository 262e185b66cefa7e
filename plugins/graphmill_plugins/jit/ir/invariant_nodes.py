"""Find nodes whose outputs are the same in every step; each cluster that reads one copies it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from graphmill.spi import Source
from graphmill.spi.graphs import is_argument
from graphmill.spi.passes import effects_of

if TYPE_CHECKING:
    from graphmill.spi import Node

_KINDS: Final = (Source.CONSTANT, Source.VARIABLE)


def is_source(node: Node) -> bool:
    """Return whether a node is a constant, or names the same variable in every step."""
    return node.op_def.traits.source in _KINDS


def is_variable(node: Node) -> bool:
    """Return whether a node names a variable."""
    return node.op_def.traits.source is Source.VARIABLE


def is_source_or_argument(node: Node) -> bool:
    """Return whether a node is a source or an argument."""
    return is_source(node) or is_argument(node)


def does_nothing(node: Node) -> bool:
    """Return whether a node has no outputs and no effects, only control edges."""
    op_def = node.op_def
    is_empty = not (op_def.input_args or op_def.output_args or op_def.is_stateful)
    return is_empty and not effects_of(op_def)
