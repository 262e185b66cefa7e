"""Lazy re-exports: names that a module imports from other modules on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.lazy_exports import lazy_attributes
from graphmill.plugin.spi_version import VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


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
