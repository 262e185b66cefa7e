"""Each clause of `docs/reference/semantics.md` has a test and a file that exists.

A clause is a letter and a number (E7: how outputs are propagated). A test names it in its own name
(`test_e7_…`, `…_e7`), in its docstring, or in that of its class or module.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.divided

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
PAGE = (ROOT / "docs" / "reference" / "semantics.md").read_text("utf-8")
CLAUSES = re.findall(r"^\| ([A-Z]\d+) \|", PAGE, re.MULTILINE)
FILES = re.findall(r"\| `([\w/]+\.py)` \|$", PAGE, re.MULTILINE)
CITED = re.compile(r"\bclauses? ((?:[A-Z]\d{1,2}(?:, | and |-)?)+)")
"""The forms of clauses in docstrings: `(clause R1)`, `(clauses S2, E5)`, `clauses E3-E7`."""
AT_START = re.compile(r"^test_(?!v\d_)([a-z]\d{1,2})_")  # v1 is a version
IN_TEXT = re.compile(r"\b([A-Z]\d{1,2})(?:-([A-Z])?(\d{1,2}))?\b")


def clauses_of(text: str) -> Iterator[str]:
    """Return the clauses that a text names, including ranges (`E3-E7`)."""
    for found in IN_TEXT.finditer(text):
        first = found[1]
        last = int(found[3] or first[1:])
        yield from (f"{first[0]}{number}" for number in range(int(first[1:]), last + 1))


def named_by(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield the clauses that the tests of a module name, and the test's name."""

    def walk(node: ast.AST, around: str) -> Iterator[tuple[str, str]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef):
                yield from walk(child, around + (ast.get_docstring(child) or ""))
            elif isinstance(child, ast.FunctionDef) and child.name.startswith("test_"):
                words = " ".join(child.name.upper().split("_"))
                text = f"{around} {words} {ast.get_docstring(child) or ''}"
                yield from ((clause, child.name) for clause in clauses_of(text))

    yield from walk(tree, ast.get_docstring(tree) or "")


def clauses_cited(tree: ast.Module) -> Iterator[str]:
    """Yield the clauses that docstrings call clauses, and those at the start of tests' names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            yield from (clause.upper() for clause in AT_START.findall(node.name))
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
            for found in CITED.finditer(ast.get_docstring(node) or ""):
                yield from clauses_of(found[1])


@pytest.fixture(scope="module")
def named() -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for path in TESTS.rglob("test_*.py"):
        for clause, test in named_by(ast.parse(path.read_text("utf-8"))):
            found[clause].append(f"{path.relative_to(TESTS)}::{test}")
    return found


@pytest.mark.parametrize("clause", CLAUSES)
def test_each_clause_has_a_test(clause: str, named: dict[str, list[str]]) -> None:
    assert named.get(clause), f"no test names {clause}"


@pytest.mark.parametrize("file", sorted(set(FILES)))
def test_each_file_of_the_page_exists(file: str) -> None:
    assert (ROOT / file).is_file() or (ROOT / "core" / "graphmill" / file).is_file()


def test_each_clause_has_a_file_to_read() -> None:
    assert len(FILES) == len(CLAUSES) == len(set(CLAUSES))


@pytest.mark.parametrize("folder", ["core", "plugins", "contrib_devices", "contrib_executors"])
def test_each_clause_that_code_cites_is_on_the_page(folder: str) -> None:
    cited = {
        (clause, path.name)
        for path in (ROOT / folder).rglob("*.py")
        for found in CITED.finditer(path.read_text("utf-8"))
        for clause in clauses_of(found[1])
    }
    assert [one for one in sorted(cited) if one[0] not in CLAUSES] == []


def test_each_clause_that_tests_cite_is_on_the_page() -> None:
    cited = {
        (clause, path.name)
        for path in TESTS.rglob("test_*.py")
        for clause in clauses_cited(ast.parse(path.read_text("utf-8")))
    }
    assert [one for one in sorted(cited) if one[0] not in CLAUSES] == []


def test_names_and_docstrings_are_read() -> None:
    module = '"""All of S3-S5."""\ndef test_x_p4():\n    "E7."\ndef helper_e9(): pass'
    assert {clause for clause, _ in named_by(ast.parse(module))} == {"S3", "S4", "S5", "P4", "E7"}
