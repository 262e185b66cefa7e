"""Find plugins through entry points of installed distributions and through the environment.

Discovery reads the `entry_points.txt` of each distribution, and the metadata of those with our
group; it imports nothing. Plugins are sorted by distribution and name, independent of `sys.path`.
"""

from __future__ import annotations

import importlib
import os
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from graphmill.plugin.installed import installed_with, parse_entry_points
from graphmill.plugin.version_check import normalized
from graphmill.registry import LITE_DISTRIBUTION, OWN_DISTRIBUTION, PluginError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from graphmill.plugin.installed import Installed
    from graphmill.plugin.records import Source

ENTRY_POINT_GROUP: Final = "graphmill.plugins"
DISABLE_VARIABLE: Final = "GRAPHMILL_DISABLE_PLUGINS"
LOAD_VARIABLE: Final = "GRAPHMILL_LOAD_PLUGINS"


class Candidate(NamedTuple):
    """A plugin that was found but not imported yet.

    Attributes:
        name, module, source, distribution, version: as in `PluginRecord`.
        load: imports and returns the plugin; raises whatever the import raises.
        requires: the requirements of its distribution ("graphmill>=0.1").
    """

    name: str
    module: str
    source: Source
    load: Callable[[], object]
    distribution: str = ""
    version: str = ""
    requires: tuple[str, ...] = ()


def entry_point_plugins(group: str = ENTRY_POINT_GROUP) -> list[Candidate]:
    """Return the plugins of all installed distributions, sorted by distribution and name."""
    by_name: dict[str, list[Candidate]] = {}
    for distribution in installed_with(group):
        name, version, requires = _headers(distribution.headers)
        key = normalized(name)
        if key == LITE_DISTRIBUTION:  # the same files, whose plugins are the built-in ones
            name = key = OWN_DISTRIBUTION
        if key not in by_name and not distribution.is_shadowed:
            by_name[key] = [
                Candidate(point_name, module, "entry point", load, name, version, requires)
                for point_name, module, load in _entry_points(distribution, name, group)
            ]
    candidates = [candidate for group in by_name.values() for candidate in group]
    return sorted(candidates, key=lambda c: (normalized(c.distribution), c.name, c.module))


def environment_plugins() -> list[Candidate]:
    """Return the modules that `GRAPHMILL_LOAD_PLUGINS` names, in the given order."""
    return [
        Candidate(name, name, "environment", partial(importlib.import_module, name))
        for name in dict.fromkeys(_listed(LOAD_VARIABLE))
    ]


def disabled_names() -> frozenset[str]:
    """Return the entries of `GRAPHMILL_DISABLE_PLUGINS`."""
    return frozenset(_listed(DISABLE_VARIABLE))


def is_disabled(candidate: Candidate, disabled: Collection[str]) -> bool:
    """Return whether `disabled` names a plugin, its distribution, or "distribution:name"."""
    name, distribution = candidate.name, candidate.distribution
    if name in disabled:
        return True
    if not distribution:
        return False
    key = normalized(distribution)
    return any(
        normalized(item) == key if not colon else (normalized(item), plugin) == (key, name)
        for item, colon, plugin in (entry.partition(":") for entry in disabled)
    )


def _listed(variable: str) -> list[str]:
    return [name for item in os.environ.get(variable, "").split(",") if (name := item.strip())]


def _entry_points(
    distribution: Installed, name: str, group: str
) -> list[tuple[str, str, Callable[[], object]]]:
    """Return name, reference and loader of each entry point of a group.

    A file that cannot be parsed yields one entry, named after the distribution, whose loader
    raises.
    """
    try:
        points = parse_entry_points(distribution.entry_points, group)
    except ValueError as error:
        return [(name, "entry_points.txt", partial(_raise, error))]
    return [(point.name, point.value, point.load) for point in points]


def _raise(error: Exception) -> object:
    raise PluginError(f"entry_points.txt cannot be parsed: {error}") from error


def _headers(text: str) -> tuple[str, str, tuple[str, ...]]:
    """Return name, version and requirements from the headers of a metadata file.

    Parsing the whole file with the `email` module takes 20 times longer.
    """
    name, version, requires = "", "", []
    for line in text.splitlines():
        if not line:
            break
        header, _, value = line.partition(":")
        if header == "Name":
            name = value.strip()
        elif header == "Version":
            version = value.strip()
        elif header == "Requires-Dist":
            requires.append(value.strip())
    return name, version, tuple(requires)
