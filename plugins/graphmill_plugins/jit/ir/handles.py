"""Handles: values that are not arrays; and the origin of conditionals in control flow v1."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from graphmill.spi import Node

RESOURCE: Final = "resource"
VARIANT: Final = "variant"
HANDLE_TYPES: Final = frozenset({RESOURCE, VARIANT})
"""Names of the types of what is not an array."""


def was_switch(node: Node) -> bool:
    """Return whether a conditional comes from control flow v1, whose predicates are scalars.

    Functionalisation names the branches of such a conditional after its node.
    """
    first = node.op_def.calls[0].attr
    return bool(node.attrs[first].name.startswith(f"{node.name}/"))
