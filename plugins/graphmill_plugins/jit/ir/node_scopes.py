"""The names that mark the operations of a program with the nodes that they were traced from.

XLA keeps the scopes of an operation as its name, `jit(f)/node:loop/while/body/node:x:MatMul/dot`.
"""

from __future__ import annotations

import re
from typing import Final

# No name of a node contains a colon, while names of operations are separated by slashes.
_PREFIX: Final = "node:"
_SCOPE: Final = re.compile(_PREFIX + r"([^/();]+)")


def scope_of(name: str) -> str:
    """Return the scope for tracing a node."""
    return _PREFIX + name.replace("/", ":")


def paths_of(operation: str) -> list[tuple[str, ...]]:
    """Return the nodes that an operation was traced from.

    Args:
        operation: its name; those of operations that XLA has merged are joined by semicolons.

    Returns:
        For each its name after those of the nodes that call the functions around it.
    """
    found = [tuple(_SCOPE.findall(part)) for part in operation.split(";")]
    return [tuple(name.replace(":", "/") for name in path) for path in found if path]
