"""Find which of graphmill's two distributions is installed: `graphmill` or `graphmill-lite`.

Both have the same files. `graphmill` requires JAX, which compiles; `graphmill-lite` does not.
"""

from __future__ import annotations

from typing import Final

from graphmill.registry import LITE_DISTRIBUTION, OWN_DISTRIBUTION

FULL: Final = OWN_DISTRIBUTION
LITE: Final = LITE_DISTRIBUTION


def installed() -> dict[str, str]:
    """Return the versions of the installed distributions of graphmill, by name.

    It is empty where graphmill is only on the path, as in a checkout, and has two entries where one
    distribution was installed over the other.
    """
    from importlib import metadata  # slow to import

    versions = {}
    for name in (FULL, LITE):
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


def install_command(extra: str) -> str:
    """Return the command that installs an extra of the distribution that is in use.

    Args:
        extra: the name of the extra, as in `[project.optional-dependencies]`.
    """
    name = LITE if set(installed()) == {LITE} else FULL
    return f"pip install '{name}[{extra}]'"
