"""Check whether this version of graphmill meets the requirement of a plugin's distribution.

The installer checks `Requires-Dist` when a plugin is installed, but a later upgrade of graphmill
may leave an old plugin behind. So we check the declared `dependencies` again at run time.
We compare release numbers only. Markers, URLs and pre-releases are left to the installer: if in
doubt, a plugin is not disabled.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9][\w.-]*)\s*(?:\[[^\]]*\])?\s*\(?([^;@)]*)\)?\s*(;.*)?")
_CLAUSE = re.compile(r"(~=|==|!=|<=|>=|<|>)\s*v?(\d+(?:\.\d+)*)(\.\*)?")
_RELEASE = re.compile(r"v?(\d+(?:\.\d+)*)")

_Release = tuple[int, ...]


def unmet_requirement(requirements: Iterable[str], name: str, version: str) -> str:
    """Return the clauses of a requirement on `name` that `version` does not meet, or "".

    Args:
        requirements: `Requires-Dist` values, for example "graphmill[grpc]>=0.1,<2".
        name: the required distribution.
        version: its installed version, for example "0.3.1".
    """
    release = _RELEASE.match(version)
    if release is None:
        return ""
    for requirement in requirements:
        match = _REQUIREMENT.fullmatch(requirement)
        if match is None or match[3] or normalized(match[1]) != normalized(name):
            continue
        if unmet_clauses(match[2], release[1]):
            return match[2].strip()
    return ""


def are_clauses(text: str) -> bool:
    """Return whether a text has the syntax of `unmet_clauses`: ">=1.0,<2"; spaces are allowed."""
    return all(_CLAUSE.fullmatch(clause.strip()) for clause in text.split(","))


def unmet_clauses(clauses: str, version: str) -> list[str]:
    """Return the clauses (of a text such as ">=1.0,<2") that a release number does not meet."""
    installed = _parse(version)
    return [clause for clause in clauses.split(",") if not _is_met(clause, installed)]


def normalized(name: str) -> str:
    """Return a distribution's name in PyPA's normalized form ("Graph_Mill" -> "graph-mill")."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _is_met(clause: str, installed: _Release) -> bool:
    match = _CLAUSE.fullmatch(clause.strip())
    if match is None:
        return True
    operator, required, is_prefix = match[1], _parse(match[2]), bool(match[3])
    if is_prefix or operator == "~=":
        same = _padded(installed, len(required))[: len(required) - (operator == "~=")]
        prefix = required[: len(same)]
        if operator == "~=":
            return same == prefix and _compare(installed, required) >= 0
        return (same == prefix) == (operator == "==")
    order = _compare(installed, required)
    return {
        "==": order == 0,
        "!=": order != 0,
        "<": order < 0,
        "<=": order <= 0,
        ">": order > 0,
        ">=": order >= 0,
    }[operator]


def _parse(release: str) -> _Release:
    return tuple(map(int, release.split(".")))


def _padded(release: _Release, length: int) -> _Release:
    return release + (0,) * (length - len(release))


def _compare(left: _Release, right: _Release) -> int:
    length = max(len(left), len(right))
    a, b = _padded(left, length), _padded(right, length)
    return (a > b) - (a < b)
