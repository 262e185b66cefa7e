"""Types of handles, which are not arrays; detection of conditionals from v1 control flow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from graphmill.spi import Node

RESOURCE: Final = "resource"
VARIANT: Final = "variant"
HANDLE_TYPES: Final = frozenset({RESOURCE, VARIANT})
"""Names of the dtypes whose values are not arrays."""


def takes_handle(node: Node) -> bool:
    """Return whether an input of a node is a handle or a reference to a variable."""
    return any(dtype.is_ref or dtype.base_dtype.name in HANDLE_TYPES for dtype in node.input_types)


def was_switch(node: Node) -> bool:
    """Return whether a conditional was v1 control flow, whose predicates are scalars.

    Functionalization names the branches of such a conditional after its node.
    """
    first = node.op_def.calls[0].attr
    return bool(node.attrs[first].name.startswith(f"{node.name}/"))
