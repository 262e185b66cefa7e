"""Load Python functions that installed distributions publish for graphs to call (`PyFunc`).

    [project.entry-points."graphmill.functions"]
    "mine.clean" = "my_package.text:clean"

A graph refers to the function by the name of its entry point, so the graph can be saved, and runs
wherever the distribution is installed. For security, a graph cannot call any function without such
an entry point.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from graphmill.errors import FailedPreconditionError, NotFoundError, suggest
from graphmill.plugin.discovery import disabled_names, entry_point_plugins, is_disabled
from graphmill.plugin.local_functions import PREFIX, local_function
from graphmill.registry import PluginError, Provenance

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.plugin.discovery import Candidate

FUNCTIONS_GROUP: Final = "graphmill.functions"


def published_functions() -> list[Candidate]:
    """Return the functions of all installed distributions that are not disabled."""
    disabled = disabled_names()
    return [c for c in entry_point_plugins(FUNCTIONS_GROUP) if not is_disabled(c, disabled)]


def load_function(name: str) -> Callable[..., Any]:
    """Return a function of this process, or import the one that a distribution publishes.

    Args:
        name: the token of a `LocalFunction`, or the name of an entry point.

    Raises:
        NotFoundError: no distribution publishes it, or it is a function of another process.
        FailedPreconditionError: two distributions publish it.
        PluginError: it cannot be imported or is not callable.
    """
    if name.startswith(PREFIX):
        return local_function(name)
    published = published_functions()
    matches = [candidate for candidate in published if candidate.name == name]
    if not matches:
        names = sorted({candidate.name for candidate in published})
        raise NotFoundError(
            f"no installed distribution publishes the function {name!r}"
            f"{suggest(name, names) or '.'} Published: {', '.join(names) or 'none'}. To publish "
            f"one, a distribution declares an entry point in the group {FUNCTIONS_GROUP!r}"
        )
    if len(matches) > 1:
        owners = " and ".join(f"{c.distribution} {c.version}" for c in matches)
        raise FailedPreconditionError(
            f"the function {name!r} is published by {owners}: uninstall one, or disable it with "
            f"GRAPHMILL_DISABLE_PLUGINS={matches[-1].distribution}"
        )
    return _loaded(matches[0])


def _loaded(candidate: Candidate) -> Callable[..., Any]:
    owner = Provenance(candidate.name, candidate.distribution, candidate.version, candidate.module)
    try:
        function = candidate.load()
        if not callable(function):
            raise TypeError(f"{candidate.module} is {function!r}, which is not callable")
    except Exception as error:
        raise PluginError(
            f"the function {candidate.name!r} of {owner.distribution} {owner.version} cannot be "
            f"imported from {candidate.module!r}: {type(error).__name__}: {error}",
            plugin=candidate.name,
        ) from error
    return function
