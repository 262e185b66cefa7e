"""Lazy re-exports: names that a module imports from other modules on first use."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from graphmill.plugin.spi_version import VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    Attributes = tuple[Callable[[str], Any], Callable[[], list[str]]]
    """`__getattr__` and `__dir__` of a module."""


def lazy_names(
    module: str, names_of_modules: Mapping[str, str], own: Iterable[str] = ()
) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__all__`, `__getattr__` and `__dir__` for a module that re-exports names of others.

    Args:
        module: name of the re-exporting module.
        names_of_modules: maps each defining module to the names to re-export from it, separated by
            spaces; an empty string re-exports the defining module itself.
        own: further names, which the re-exporting module defines itself.
    """
    sources = {
        name: (defining, name)
        for defining, names in names_of_modules.items()
        for name in names.split()
    }
    sources |= {
        defining.rpartition(".")[2]: (defining, "")
        for defining, names in names_of_modules.items()
        if not names
    }
    listed = sorted({*own, *sources})
    get, names = lazy_attributes(
        module, sources, listed, lambda name: _renamed(module, name, listed)
    )
    return listed, get, names


def lazy_attributes(
    module: str,
    sources: Mapping[str, tuple[str, str]],
    listed: Iterable[str],
    find_other: Callable[[str], Callable[[str, str], Any]],
) -> Attributes:
    """Return `__getattr__` and `__dir__` of a module that imports names on first use.

    Args:
        module: the name of the module, which is being imported.
        sources: for each name its module and its name there; "" for the module itself.
        listed: its public names.
        find_other: returns a function that resolves another name, or raises AttributeError. The
            function is called with `module` and the name, by `__getattr__` for its `stacklevel`.
    """
    namespace = vars(sys.modules[module])

    def get_attribute(name: str) -> Any:
        if name not in sources:
            return find_other(name)(module, name)
        defining, attribute = sources[name]
        source = importlib.import_module(defining)
        value = namespace[name] = getattr(source, attribute) if attribute else source
        return value

    def names() -> list[str]:
        return sorted({*namespace, *listed})

    return get_attribute, names


def _renamed(module: str, name: str, listed: list[str]) -> Callable[[str, str], Any]:
    """Return the function that resolves an old name, for the caller to call (for its stacklevel).

    Raises:
        AttributeError: the module never had this name.
    """
    if not name.startswith("_"):
        from graphmill.deprecations import RENAMED_NAMES, renamed_name

        if name in RENAMED_NAMES.get(module, {}):
            return renamed_name
    raise AttributeError(_unknown(module, name, listed))


def _unknown(module: str, name: str, listed: list[str]) -> str:
    from graphmill.errors import suggest

    near = suggest(name, listed) if not name.startswith("_") else ""
    return f"{module} {'.'.join(map(str, VERSION))} has no {name!r}{near}"
