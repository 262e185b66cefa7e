"""Records only observe: no condition in `jit` reads a field of one."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import graphmill_plugins.jit
from graphmill.explain.compilation import ClusterRecord, SignatureRecord

if TYPE_CHECKING:
    from collections.abc import Iterator

FILES = sorted(Path(graphmill_plugins.jit.__file__).parent.rglob("*.py"))
FIELDS = {part for kind in (ClusterRecord, SignatureRecord) for part in kind.__slots__}
FIELDS |= {"num_straight", "num_compiled", "num_checks_failed"}


def conditions(tree: ast.AST) -> Iterator[ast.expr]:
    """Yield the conditions."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.If, ast.While, ast.IfExp, ast.Assert)):
            yield node.test
        elif isinstance(node, ast.comprehension):
            yield from node.ifs
        elif isinstance(node, ast.Match):
            yield node.subject
        elif isinstance(node, (ast.BoolOp, ast.Compare)):
            yield node


def decisions_by_records(text: str) -> list[str]:
    """Return the conditions of a module that read a field of a record."""
    return [
        ast.unparse(condition)
        for condition in conditions(ast.parse(text))
        for part in ast.walk(condition)
        if isinstance(part, ast.Attribute)
        and part.attr in FIELDS
        and "record" in ast.unparse(part.value).rpartition(".")[2].lower()
    ]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_no_condition_reads_a_record(file: Path) -> None:
    assert decisions_by_records(file.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "text",
    [
        "if signature.record.is_wanted: pass",
        "x = [one for one in ones if one.record.tier == 'compiled']",
        "y = 1 if record.reason else 2",
        "taken = record.num_compiled > 3",
    ],
)
def test_a_decision_by_a_record_would_be_found(text: str) -> None:
    assert decisions_by_records(text) != []
