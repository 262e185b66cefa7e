"""Unique names and name scopes of a graph under construction.

Semantics: Graph.unique_name and Graph.name_scope of tensorflow/python/framework/ops.py.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from graphmill.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterator

_NODE_NAME: Final = re.compile(r"[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*")
_SCOPE_NAME: Final = re.compile(r"[A-Za-z0-9_.\\/>-]*")


class NameScopes:
    """The names in use, ignoring case, and the current scope, which prefixes new names."""

    def __init__(self) -> None:
        self._next_suffix: dict[str, int] = {}
        self.current = ""

    def unique(self, name: str, mark_as_used: bool = True) -> str:
        """Return `name` within the scope, with a suffix `_1`, `_2` … if it is taken."""
        if self.current:
            name = f"{self.current}/{name}"
        key = name.lower()
        suffix = self._next_suffix.get(key, 0)
        if mark_as_used:
            self._next_suffix[key] = suffix + 1
        if not suffix:
            return name
        candidate = key
        while candidate in self._next_suffix:
            candidate = f"{key}_{suffix}"
            suffix += 1
        if mark_as_used:
            self._next_suffix[candidate] = 1
        return f"{name}_{suffix - 1}"

    def node_name(self, name: str) -> str:
        """Return the name of a new node; a name that ends in `/` is used as given, without `/`.

        Raises:
            InvalidArgumentError: it is not a valid node name.
        """
        full_name = name[:-1] if name.endswith("/") else self.unique(name)
        if not _NODE_NAME.fullmatch(full_name):
            raise InvalidArgumentError(
                f"{full_name!r} is not a valid node name; names start with a letter, digit or '.', "
                "and contain only letters, digits and _ . \\ / > -"
            )
        return full_name

    def mark_used(self, name: str) -> None:
        """Record that a node has this full name."""
        self._next_suffix.setdefault(name.lower(), 1)

    @contextmanager
    def scope(self, name: str | None) -> Iterator[str]:
        """Enter a scope with a unique name below the current one; yield its prefix, such as `a/b/`.

        A name that ends in `/` re-enters the existing scope; None or "" enters the outermost.

        Raises:
            InvalidArgumentError: it is not a valid name of a scope.
        """
        pattern = _SCOPE_NAME if self.current else _NODE_NAME
        if name and not pattern.fullmatch(name):
            raise InvalidArgumentError(
                f"{name!r} is not a valid scope name; use letters, digits and _ . \\ / > -"
            )
        outer = self.current
        if not name:
            self.current = ""
        elif name.endswith("/"):
            self.current = name[:-1]
        else:
            self.current = self.unique(name)
        try:
            yield self.current + "/" if self.current else ""
        finally:
            self.current = outer
