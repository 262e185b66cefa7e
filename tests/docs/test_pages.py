"""Pages match the code, and their links lead to files."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pytest

from graphmill import errors
from graphmill.cli import error_reporting
from graphmill.cli.main import cli

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
_CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((?!https?:|#|mailto:)(?P<target>[^)#]+)")
_PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
_OWN = re.escape(_PROJECT["urls"]["Repository"])
_OWN_LINK = re.compile(rf"{_OWN}/blob/main/(?P<target>[^)#\"\s]+)")


@pytest.mark.parametrize(
    "page",
    [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_links_lead_to_files(page: Path) -> None:
    text = _CODE.sub("", page.read_text(encoding="utf-8"))
    targets = [match["target"] for match in _LINK.finditer(text)]
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_readme_has_only_absolute_links() -> None:
    """An index page shows the README, where relative links lead nowhere."""
    text = _CODE.sub("", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert _LINK.findall(text) == []


def test_absolute_links_to_the_repository_lead_to_files() -> None:
    texts = [(ROOT / name).read_text("utf-8") for name in ("README.md", "pyproject.toml")]
    targets = {match["target"] for text in texts for match in _OWN_LINK.finditer(text)}
    assert len(targets) > 3
    assert [target for target in targets if not (ROOT / target).exists()] == []


def test_every_page_is_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    pages = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}
    fragments = {page for page in pages if page.startswith(("changelog/", "decisions/0"))}
    assert {page for page in pages - fragments if page not in navigation} == set()


def test_navigation_groups_have_at_most_seven_entries() -> None:
    yaml = pytest.importorskip("yaml")
    navigation = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]

    def groups(entries: list[Any]) -> Iterator[list[Any]]:
        yield entries
        for entry in entries:
            (content,) = entry.values()
            if isinstance(content, list):
                yield from groups(content)

    assert [group for group in groups(navigation) if len(group) > 7] == []


def test_every_decision_is_in_the_list() -> None:
    listed = (DOCS / "decisions" / "index.md").read_text(encoding="utf-8")
    decisions = [page.name for page in DOCS.glob("decisions/0*.md")]
    assert [name for name in decisions if f"]({name})" not in listed] == []


def test_every_error_class_is_in_the_reference() -> None:
    text = (DOCS / "reference" / "errors.md").read_text(encoding="utf-8")
    for code in range(1, 17):
        assert f"| `{errors.error_class(code).__name__}` | {code} |" in text


def test_every_exit_code_is_in_the_reference() -> None:
    text = (DOCS / "reference" / "cli.md").read_text(encoding="utf-8")
    codes = [value for value in vars(error_reporting).values() if type(value) is int]
    assert len(codes) >= 7
    assert [code for code in codes if f"| {code} |" not in text] == []


def test_every_command_and_option_is_in_the_reference() -> None:
    text = (DOCS / "reference" / "cli.md").read_text(encoding="utf-8")
    for name in cli.list_commands(click.Context(cli)):
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        assert f"    graphmill {name}" in text
        options = [
            option
            for parameter in command.params
            for option in parameter.opts
            if option.startswith("-")
            and option not in text
            and option.replace("_", "-") not in text
        ]
        assert options == []


def test_every_environment_variable_is_in_the_reference() -> None:
    text = (DOCS / "reference" / "environment.md").read_text(encoding="utf-8")
    used = {
        name
        for file in [*(ROOT / "core").rglob("*.py"), *(ROOT / "plugins").rglob("*.py")]
        for name in re.findall(r"GRAPHMILL_[A-Z_]+[A-Z]", file.read_text(encoding="utf-8"))
    }
    used.remove("GRAPHMILL_SPI")  # a name in plugin modules
    assert {name for name in used if name not in text} == set()


def test_every_file_in_the_map_of_tensorflow_exists() -> None:
    text = (DOCS / "explanation" / "tf-map.md").read_text(encoding="utf-8")
    named = re.findall(r"`((?:\w+/)+(?:\w+\.\w+)?|\w+\.py)`", text)
    roots = (ROOT / "core" / "graphmill", ROOT / "plugins")
    assert len(named) > 30
    assert [name for name in named if not any((root / name).exists() for root in roots)] == []


def test_every_seeded_fault_is_reported() -> None:
    """Each fault is listed with the test that finds it, for devices and executors."""
    source = (ROOT / "tests" / "conformance" / "test_seeded_faults.py").read_text("utf-8")
    text = (DOCS / "explanation" / "verification.md").read_text("utf-8")
    tables = {
        statement.targets[0].id: ast.literal_eval(statement.value)
        for statement in ast.parse(source).body
        if isinstance(statement, ast.Assign) and statement.targets[0].id.endswith("_FAULTS")
    }
    assert len(tables) == 7
    assert [name for table in tables.values() for name in table if f"`{name}`" not in text] == []
    for fault, test in (tables["DEVICE_FAULTS"] | tables["EXECUTOR_FAULTS"]).items():
        assert [line for line in text.splitlines() if f"`{fault}`" in line and f"`{test}`" in line]


def first_paragraph(page: Path) -> str:
    """Return the first paragraph of a page, without comments of generated pages."""
    text = re.sub(r"<!--.*?-->", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    parts = [part.strip() for part in text.split("\n\n")]
    return next(" ".join(p.split()) for p in parts if p and not p.startswith(("#", "!", "|")))


@pytest.mark.parametrize(
    "page",
    [
        page
        for folder in ("howto", "explanation", "reference")
        for page in sorted((DOCS / folder).glob("*.md"))
    ],
    ids=lambda page: str(page.relative_to(DOCS)),
)
def test_first_paragraph_names_readers_and_use(page: Path) -> None:
    """Each first paragraph names the readers of the page and what they will be able to do."""
    paragraph = first_paragraph(page)
    assert re.search(
        r"\b[Ff]or (\w+ )*(people|users|readers|operators|contributors|\w+ authors)", paragraph
    )
    assert re.search(r"After (this page|it|reading)|[Ii]t lets you|It lists|[Ll]ook up", paragraph)
