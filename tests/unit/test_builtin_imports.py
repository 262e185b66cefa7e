"""The built-in plugins import only modules that every plugin may import.

Read from the source by `ast`: imports inside functions and under `TYPE_CHECKING` count.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
OPS = ROOT / "core" / "graphmill" / "ops"
FILES = sorted((ROOT / "plugins").rglob("*.py"))

PUBLIC = ("graphmill.spi", "graphmill.errors", "graphmill.dtypes", "graphmill.__version__")


def imports_of(source: str) -> Iterator[str]:
    """Return the imports of a source text, `from a import b` as "a.b"."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def is_private(imported: str) -> bool:
    """Return whether a module is private to graphmill."""
    if imported.partition(".")[0] != "graphmill":
        return False
    if any(f"{imported}.".startswith(f"{public}.") for public in PUBLIC):
        return False
    family = imported.removeprefix("graphmill.ops.").partition(".")[0]
    return not (imported.startswith("graphmill.ops.") and (OPS / f"{family}.pyi").exists())


def test_builtins_import_only_the_plugin_interface() -> None:
    assert FILES
    found: dict[str, Path] = {}
    for file in FILES:
        for imported in filter(is_private, imports_of(file.read_text("utf-8"))):
            found.setdefault(imported, file.relative_to(ROOT))
    assert found == {}, (
        "import these from graphmill.spi; give it what is missing, in a form that every plugin can "
        "use"
    )


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("from graphmill.spi import Node", []),
        ("from graphmill.spi.graphs import Tensor", []),
        ("from graphmill import dtypes, errors", []),
        ("from graphmill.errors import OpError\nimport numpy, graphmillion", []),
        ("from graphmill.ops import math, inputs", ["graphmill.ops.inputs"]),
        ("from graphmill.ops.math import exp", []),
        ("import graphmill", ["graphmill"]),
        ("def f():\n    from graphmill.graph.node import Node", ["graphmill.graph.node.Node"]),
        ("if TYPE_CHECKING:\n    import graphmill.graph", ["graphmill.graph"]),
        ("from graphmill.spi_version import VERSION", ["graphmill.spi_version.VERSION"]),
    ],
)
def test_how_imports_are_read(source: str, expected: list[str]) -> None:
    assert list(filter(is_private, imports_of(source))) == expected
