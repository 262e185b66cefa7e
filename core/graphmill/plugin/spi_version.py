"""The version of the plugin interface, and the check of a plugin's declared range."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path
from typing import Final

from graphmill.plugin.version_check import are_clauses, unmet_clauses

VERSION: Final = (1, 4)
"""The version of `graphmill.spi`: (incompatible changes, additions)."""
RANGE_ATTRIBUTE: Final = "GRAPHMILL_SPI"


def spi_problem(plugin: object) -> str:
    """Return why a plugin does not work with this version of the interface, or ""."""
    return _problem(getattr(plugin, RANGE_ATTRIBUTE, None))


def spi_problem_of_source(module: str) -> str:
    """Return what `spi_problem` would for a module that cannot be imported, by parsing its source.

    A plugin for another version fails to import at the first missing name; a message about its
    declared range helps the user more. Returns "" if the source declares no range or cannot be
    read.
    """
    try:
        spec = importlib.util.find_spec(module.partition(":")[0].partition(".")[0])
        text = Path(spec.origin).read_text("utf-8") if spec and spec.origin else ""
        statements = ast.parse(text).body
    except (ImportError, OSError, SyntaxError, ValueError):
        return ""
    for statement in statements:
        if (
            isinstance(statement, ast.Assign)
            and isinstance(statement.value, ast.Constant)
            and any(isinstance(t, ast.Name) and t.id == RANGE_ATTRIBUTE for t in statement.targets)
        ):
            return _problem(statement.value.value)
    return ""


def _problem(declared: object) -> str:
    if declared is None:
        return ""
    if not isinstance(declared, str) or not are_clauses(declared):
        return f"its {RANGE_ATTRIBUTE} is {declared!r}, expected a string such as '>=1.0,<2'"
    version = ".".join(map(str, VERSION))
    if not unmet_clauses(declared, version):
        return ""
    return f"it needs graphmill.spi {declared}, this is {version}"
