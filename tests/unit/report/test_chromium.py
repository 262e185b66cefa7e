"""The browser of the tests: a page that does not answer is an error, not an endless wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.unit.report.chromium import Page

if TYPE_CHECKING:
    from pathlib import Path


def _browser(folder: Path, script: str) -> str:
    path = folder / "browser"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def test_browser_that_never_answers_is_an_error(tmp_path: Path) -> None:
    browser = _browser(tmp_path, "exec cat <&3")
    with pytest.raises(AssertionError, match=r"no answer .* to Target\.createTarget within 0\.1 s"):
        Page(browser, tmp_path, 10, 10, limit=0.1)


def test_browser_that_has_ended_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"ended before Target\.createTarget"):
        Page(_browser(tmp_path, "head -c 1 <&3"), tmp_path, 10, 10)
