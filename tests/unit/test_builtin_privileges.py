"""Built-in plugins have no privileges: provenance appears in messages and decides nothing else.

`Provenance.is_builtin` is read from the source by `ast`: only code that makes messages may use it.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.divided

ROOT = Path(__file__).parents[2]

MESSAGES = {
    "core/graphmill/registry.py:Provenance.error_plugin": "which plugin an error names",
    "core/graphmill/registry.py:Registry._conflict": "which plugin is proposed to be disabled",
    "core/graphmill/cli/diagnostics/installation.py:advice_on_plugins": (
        "graphmill doctor looks at others' plugins"
    ),
    "core/graphmill/testing/conformance/plugins.py:"
    "PluginTests.test_gradients_match_finite_differences": (
        "the suite checks the gradients of others; tests/plugins/gradients checks ours"
    ),
}
"""The places that read the attribute, with the purpose of each."""


def readers(source: str) -> Iterator[str]:
    """Yield the functions, by qualified name, that read an attribute `is_builtin`."""
    yield from _readers(ast.parse(source), [])


def _readers(node: ast.AST, path: list[str]) -> Iterator[str]:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        path = [*path, node.name]
    is_read = isinstance(node, ast.Attribute) and node.attr == "is_builtin"
    if is_read or (isinstance(node, ast.Constant) and node.value == "is_builtin"):
        yield ".".join(path)
    for child in ast.iter_child_nodes(node):
        yield from _readers(child, path)


def test_origin_is_read_for_messages_only() -> None:
    found = {
        f"{file.relative_to(ROOT).as_posix()}:{reader}"
        for folder in ("core", "plugins")
        for file in (ROOT / folder).rglob("*.py")
        for reader in readers(file.read_text("utf-8"))
    }
    assert found == set(MESSAGES)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("def f(owner):\n    return owner.is_builtin", ["f"]),
        ("class C:\n    def f(self):\n        if self.owner.is_builtin: pass", ["C.f"]),
        ("def f(owner):\n    return getattr(owner, 'is_builtin', False)", ["f"]),
        ("class C:\n    @property\n    def is_builtin(self): ...", []),
    ],
)
def test_readers_are_found(source: str, expected: list[str]) -> None:
    assert list(readers(source)) == expected
