"""The arguments that docstrings describe exist: a renamed parameter is renamed there, too."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TypeAlias

ROOT = Path(__file__).parents[2]
FOLDERS = ("core", "plugins", "contrib_devices", "contrib_executors", "tools")
SECTION = re.compile(r"^Args:\n((?: {4}.*\n|\n)*)", re.MULTILINE)
ENTRY = re.compile(r"^ {4}(\*{0,2}\w+(?:, \*{0,2}\w+)*):", re.MULTILINE)

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


def described(docstring: str) -> list[str]:
    section = SECTION.search(f"{docstring}\n")
    entries = ENTRY.findall(section[1]) if section else []
    return [name.lstrip("*") for entry in entries for name in entry.split(", ")]


def parameters(definition: Function | ast.ClassDef) -> set[str] | None:
    """Return the parameters of a function or class; None for a class that inherits them."""
    if isinstance(definition, ast.ClassDef):
        makers = [node for node in definition.body if getattr(node, "name", "") == "__init__"]
        fields = [node.target for node in definition.body if isinstance(node, ast.AnnAssign)]
        names = {field.id for field in fields if isinstance(field, ast.Name)}
        for maker in makers:
            names |= parameters(maker) or set()  # type: ignore[arg-type]
        return names or None
    arguments = definition.args
    found = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    found += [rest for rest in (arguments.vararg, arguments.kwarg) if rest is not None]
    return {argument.arg for argument in found}


def stale(source: str) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, Function | ast.ClassDef):
            known = parameters(node)
            found += [
                f"line {node.lineno}: {node.name} has no parameter {name!r}"
                for name in described(ast.get_docstring(node) or "")
                if known is not None and name not in known
            ]
    return found


def test_described_arguments_are_parameters() -> None:
    found = []
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if "proto" not in path.parts and ".venv" not in path.parts:
                name = path.relative_to(ROOT).as_posix()
                found += [f"{name}, {text}" for text in stale(path.read_text("utf-8"))]
    assert found == []


def test_argument_that_was_renamed_is_found() -> None:
    text = '"""Sum up.\n\n    Args:\n        first, rest: numbers:\n            many.\n    """'
    assert stale(f"def total(first, *rest):\n    {text}\n") == []
    assert stale(f"def total(first, *others):\n    {text}\n") == [
        "line 1: total has no parameter 'rest'"
    ]
    assert stale(f"class Total:\n    {text}\n    first: int\n") == [
        "line 1: Total has no parameter 'rest'"
    ]
    assert stale(f"class Total(Base):\n    {text}\n") == []
