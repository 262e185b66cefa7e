"""Unique names and name scopes of a graph that is being built.

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
    """The names in use, without regard to case, and the scope that new names get as prefix."""

    def __init__(self) -> None:
        self._next_suffix: dict[str, int] = {}
        self.current = ""

    def unique(self, name: str, mark_as_used: bool = True) -> str:
        """Return `name` within the scope, with `_1`, `_2` … behind it if it is taken."""
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
        """Return the name of a new node; one that ends in `/` is taken as it is, without the `/`.

        Raises:
            InvalidArgumentError: it is not spelt as names are.
        """
        found = name[:-1] if name.endswith("/") else self.unique(name)
        if not _NODE_NAME.fullmatch(found):
            raise InvalidArgumentError(
                f"{found!r} is not a node name; it starts with a letter, digit or '.', and has "
                "letters, digits and _ . \\ / > - only"
            )
        return found

    def mark_used(self, name: str) -> None:
        """Note that a node has this full name."""
        self._next_suffix.setdefault(name.lower(), 1)

    @contextmanager
    def scope(self, name: str | None) -> Iterator[str]:
        """Enter a scope below the current one, made unique; yield its prefix, as `a/b/`.

        A name that ends in `/` enters that very scope again; None or "" the outermost.

        Raises:
            InvalidArgumentError: the name is not spelt as names are.
        """
        pattern = _SCOPE_NAME if self.current else _NODE_NAME
        if name and not pattern.fullmatch(name):
            raise InvalidArgumentError(f"{name!r} is not a name for a scope")
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
