"""The built site in a headless Chromium, at two widths: nothing is cut off, code has colours."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.unit.report.chromium import Page, find_chromium

if TYPE_CHECKING:
    from collections.abc import Iterator

CHROMIUM = find_chromium()
pytestmark = [
    pytest.mark.divided,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed on this machine"),
]
ROOT = Path(__file__).parents[2]
PAGES = (
    *("index.html", "tutorial/index.html", "howto/install/index.html", "reference/cli/index.html"),
    *("explanation/performance/index.html", "reference/python/models/index.html"),
)
TOO_WIDE = """[...document.querySelectorAll('.rst-content table')].filter(
    (table) => table.scrollWidth > table.parentElement.clientWidth + 1).length"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("mkdocs")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"]
    command += ["--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module", params=[(1280, 900), (420, 800)], ids=["wide", "narrow"])
def page(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Page]:
    assert CHROMIUM is not None
    with Page(CHROMIUM, tmp_path_factory.mktemp("profile"), *request.param) as opened:
        yield opened


def open_page(page: Page, file: Path, *, dark: bool = False) -> None:
    page.events.clear()
    page.open(file, dark=dark)


@pytest.mark.parametrize("name", PAGES)
def test_no_page_is_wider_than_the_window(page: Page, site: Path, name: str) -> None:
    open_page(page, site / name)
    assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0
    if page.evaluate("window.innerWidth") > 1000:
        assert page.evaluate(TOO_WIDE) == 0


def test_markup_is_rendered(site: Path) -> None:
    for file in site.rglob("*.html"):
        text = file.read_text(encoding="utf-8")
        assert "<p>!!!" not in text, f"{file}: a warning is not rendered"
        cells = re.findall(r"<td[^>]*>.*?</td>", text, re.DOTALL)
        escaped = [cell for cell in cells if re.search(r"<code>[^<]*\\\|", cell)]
        assert not escaped, f"{file}: an escape is shown: {escaped[0]}"


def test_code_has_colours_and_copy_buttons(page: Page, site: Path) -> None:
    open_page(page, site / "tutorial" / "index.html")
    colours = (
        "new Set([...document.querySelectorAll('.codehilite span')]"
        ".map((span) => getComputedStyle(span).color)).size"
    )
    assert page.evaluate(colours) >= 4
    blocks = page.evaluate("document.querySelectorAll('.rst-content pre').length")
    assert blocks > 5
    assert page.evaluate("document.querySelectorAll('.copy-button').length") == blocks


def test_dark_follows_the_system_and_the_button_changes_it(page: Page, site: Path) -> None:
    open_page(page, site / "index.html", dark=True)
    theme, paper = (
        "document.documentElement.dataset.theme",
        ("getComputedStyle(document.querySelector('.wy-nav-content')).backgroundColor"),
    )
    before, colour = page.evaluate(theme), page.evaluate(paper)
    page.evaluate("document.querySelector('.theme-button').click()")
    assert page.evaluate(theme) != before
    assert page.evaluate(paper) != colour
    page.evaluate("document.querySelector('.theme-button').click()")
    assert page.evaluate(theme) == before


def test_scripts_have_no_faults_and_load_nothing_from_elsewhere(page: Page, site: Path) -> None:
    open_page(page, site / "howto" / "install" / "index.html")
    assert [fault for fault in page.faults() if "search" not in fault] == []
    assert [url for url in page.requests() if not url.startswith(("file:", "data:"))] == []


def test_pages_lead_to_their_source(page: Page, site: Path) -> None:
    open_page(page, site / "howto" / "install" / "index.html")
    links = page.evaluate("[...document.querySelectorAll('a')].map((a) => a.href)")
    assert any(link.endswith("/docs/howto/install.md") for link in links)
