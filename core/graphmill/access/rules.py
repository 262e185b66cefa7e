"""`AccessRules`: the effects that a graph may have, parsed from rules such as `fs.read:DIR`.

A session runs under *rules*, or without any. Without, its kernels may do everything, as in a
program of the user's own. Under rules they may compute, keep state, draw random numbers, read the
clock and log; everything else is refused unless a rule allows it:

- `fs.read:PATH`: read the file, or the files below the folder;
- `fs.list:PATH`: list the names below the folder;
- `fs.write:PATH`: write, replace, delete, read and list what is below the folder;
- `fs.read`, `fs.list`, `fs.write`: the same for every path;
- `net`, `process`, `python`: communicate with other machines, start or end a process, call Python
  functions.

The policy *pure* is the empty set of rules.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from graphmill.access.folder import canonical_path
from graphmill.errors import InvalidArgumentError, suggest
from graphmill.files import as_path, is_url

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Self

__all__ = ["LIST", "READ", "WRITE", "AccessRules", "Rule", "local_path"]

READ: Final = "fs.read"
LIST: Final = "fs.list"
WRITE: Final = "fs.write"
_FILES: Final = (READ, LIST, WRITE)
_WHOLE: Final = ("net", "process", "python")
_RULED: Final = (*_FILES, *_WHOLE)
_UNRULED: Final = frozenset({"clock", "log", "rng", "state"})
_IMPLIED: Final = {READ: (READ, WRITE), LIST: (LIST, WRITE), WRITE: (WRITE,)}
_LOCAL_URL: Final = re.compile(r"(?:file|local)://")


@dataclass(frozen=True, slots=True)
class Rule:
    """An effect that a model may have, limited to a path or not.

    Attributes:
        effect: the effect that it allows.
        path: the absolute path without symbolic links, or the URL, that it is limited to; "" if it
            is not limited.
    """

    effect: str
    path: str = ""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a rule, such as `fs.read:/data`.

        `~` stands for the home folder, a relative path is one in the working directory, and
        symbolic links are resolved now.

        Raises:
            InvalidArgumentError: the effect is unknown, the path is empty, or the effect has no
                paths.
        """
        if not isinstance(text, str):
            raise InvalidArgumentError(
                f"a rule is a string such as 'fs.read:/data', got {type(text).__name__} {text!r}"
            )
        effect, colon, path = text.partition(":")
        if effect in _UNRULED:
            raise InvalidArgumentError(
                f"the rule {text!r} allows {effect!r}, which is always allowed; leave it out"
            )
        if effect not in _RULED:
            raise InvalidArgumentError(
                f"the rule {text!r} names the unknown effect {effect!r}"
                f"{suggest(effect, _RULED)}; rules are "
                f"{', '.join(f'{name}[:PATH]' for name in _FILES)}, {', '.join(_WHOLE)}"
            )
        if not colon:
            return cls(effect)
        if effect not in _FILES:
            raise InvalidArgumentError(
                f"the rule {text!r} limits {effect!r} to {path!r}, but only rules for files take a "
                f"path; write {effect!r} to allow all of it"
            )
        if not path:
            raise InvalidArgumentError(
                f"the rule {text!r} has an empty path; write '{effect}:DIR', or {effect!r} for "
                "every path"
            )
        return cls(effect, _canonical(path, text))

    def covers(self, path: str) -> bool:
        """Return whether a canonical path or URL is the rule's path, or below it."""
        if not self.path or path == self.path:
            return True
        separator = "/" if is_url(path) else os.sep
        return path.startswith(self.path.removesuffix(separator) + separator)

    def __str__(self) -> str:
        return f"{self.effect}:{self.path}" if self.path else self.effect


@dataclass(frozen=True, slots=True)
class AccessRules:
    """The rules of a session; an immutable value.

    Attributes:
        rules: what is allowed; none for the policy *pure*.
    """

    rules: tuple[Rule, ...] = ()

    @classmethod
    def parse(cls, texts: Iterable[str]) -> Self:
        """Parse several rules.

        Raises:
            InvalidArgumentError: one is invalid; see `Rule.parse`.
        """
        if isinstance(texts, str):
            raise InvalidArgumentError(
                f"allow is the string {texts!r}, expected a list of rules: allow=[{texts!r}]"
            )
        return cls(tuple(dict.fromkeys(map(Rule.parse, texts))))

    def allows(self, effect: str) -> bool:
        """Return whether an effect is allowed for every path."""
        return any(not rule.path and _grants(rule, effect) for rule in self.rules)

    def allows_some(self, effect: str) -> bool:
        """Return whether an effect is allowed, for at least some paths."""
        return any(_grants(rule, effect) for rule in self.rules)

    def covers(self, effect: str, path: str) -> bool:
        """Return whether an effect is allowed for a canonical path, or a URL.

        A rule without a path is about local files. URLs need `net` besides, or a rule that names
        them.
        """
        granting = [rule for rule in self.rules if _grants(rule, effect) and rule.covers(path)]
        if is_url(path) and not self.allows("net"):
            return any(rule.path for rule in granting)
        return bool(granting)

    def texts(self) -> list[str]:
        """Return the rules as strings that `parse` accepts, with absolute paths."""
        return [str(rule) for rule in self.rules]

    def __str__(self) -> str:
        return ", ".join(self.texts()) or "nothing"


def _grants(rule: Rule, effect: str) -> bool:
    """Return whether a rule grants an effect; permission to write includes reading and listing."""
    return rule.effect in _IMPLIED.get(effect, (effect,))


def local_path(path: str) -> str | None:
    """Return the local path that a path or `file://` URL stands for; None for another URL."""
    url = _LOCAL_URL.match(path)
    if url is not None:
        return path[url.end() :]
    return None if is_url(path) else path


def _canonical(path: str, text: str) -> str:
    plain = local_path(as_path(path))
    if plain is not None:
        return canonical_path(os.path.expanduser(plain))  # noqa: PTH111 - as the shell does
    if "::" in path or ".." in path.split("/"):
        raise InvalidArgumentError(
            f"the rule {text!r} has a URL with '::' or '..', which may refer to another file"
        )
    return path.rstrip("/") or path
