"""Every example in the README and the docs runs and prints the shown output.

`python` blocks of a page run in order in one namespace; where a line `print(…)  # TEXT` says what
is printed, that is compared. In `console` blocks the lines `$ graphmill …` are run, and what stands
below them, if anything, is compared with their output (`...` stands for anything). A block after a
comment `<!-- not run: REASON -->` is left out; so is one after `<!-- file: PATH -->`, because that
file has tests of its own.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import re
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from graphmill.cli.main import run_command_line

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.divided

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    # The hook reference is generated, and its examples are parts: they have tests of their own.
    *sorted(set((ROOT / "docs").rglob("*.md")) - {ROOT / "docs" / "reference" / "hooks.md"}),
    *sorted((ROOT / "examples").rglob("*.md")),
]
_BLOCK = re.compile(
    r"(?P<skip><!-- (?:not run|file): .+? -->\s*)?^```(?P<language>\w+)\n(?P<code>.*?)^```",
    re.MULTILINE | re.DOTALL,
)
_PRINTED = re.compile(r"^\s*print\(.*\)  # (?P<text>.+)$", re.MULTILINE)
_CHECKER = doctest.OutputChecker()
_FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@dataclass(frozen=True)
class Block:
    """A fenced block of a page, and its first line."""

    language: str
    code: str
    line: int


def blocks_of(page: Path, language: str) -> Iterator[Block]:
    """Yield the blocks of a language, except excluded ones."""
    text = page.read_text(encoding="utf-8")
    for match in _BLOCK.finditer(text):
        if match["language"] == language and not match["skip"]:
            yield Block(language, match["code"], text.count("\n", 0, match.start("code")) + 1)


def pages_with(language: str) -> list[object]:
    """Return the pages with such a block, as test parameters."""
    return [
        pytest.param(page, id=str(page.relative_to(ROOT)))
        for page in PAGES
        if next(blocks_of(page, language), None)
    ]


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Change to an empty folder with the examples, whose plugins are importable."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(ROOT / "docs" / "examples")
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.endswith("_plugin"):
            del sys.modules[name]


@pytest.mark.usefixtures("no_cache_of_jax")
@pytest.mark.parametrize("page", pages_with("python"))
def test_python_blocks_print_what_the_page_shows(page: Path, workplace: Path) -> None:
    namespace: dict[str, object] = {"__name__": "snippet"}
    for block in blocks_of(page, "python"):
        # Blank lines in front make tracebacks show the line of the page.
        code = compile("\n" * (block.line - 1) + block.code, str(page), "exec")
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(code, namespace)
        expected = [match["text"] for match in _PRINTED.finditer(block.code)]
        if expected:
            assert_output("\n".join(expected), printed.getvalue())


@pytest.mark.usefixtures("no_cache_of_jax")
@pytest.mark.parametrize("page", pages_with("console"))
def test_console_blocks_print_what_the_page_shows(
    page: Path, workplace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for block in blocks_of(page, "console"):
        for command in re.split(r"^\$ ", block.code, flags=re.MULTILINE)[1:]:
            line, _, expected = command.partition("\n")
            words = shlex.split(line)
            if words[0] != "graphmill":
                continue
            code = run_command_line(words[1:])
            printed, complaint = capsys.readouterr()
            if expected.strip():
                assert_output(expected, printed + complaint)
            else:
                assert code == 0, complaint


def assert_output(expected: str, printed: str) -> None:
    """Compare the output shown on a page with the printed one, ignoring blank lines and spacing."""
    example = doctest.Example("", "\n".join(filter(str.strip, expected.splitlines())))
    actual = "\n".join(filter(str.strip, printed.splitlines())) + "\n"
    if not _CHECKER.check_output(example.want, actual, _FLAGS):
        pytest.fail(_CHECKER.output_difference(example, actual, _FLAGS))
