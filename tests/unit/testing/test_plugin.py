"""The pytest plugin: invalid options, and waits for background compilations."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from graphmill.runtime.threads.background_jobs import BackgroundWork

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def test_test_path_is_not_taken_as_report_file(tmp_path: Path) -> None:
    test = tmp_path / "test_mine.py"
    test.write_text("def test_it(): pass\n")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--graphmill-levels"]
    done = subprocess.run([*command, str(test)], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 4
    assert "put the option after the paths" in done.stderr
    assert test.read_text() == "def test_it(): pass\n"


@pytest.fixture
def work() -> Iterator[BackgroundWork]:
    made = BackgroundWork()
    yield made
    assert made.is_idle
    assert made.num_done == 1


def test_teardown_waits_for_background_work(work: BackgroundWork) -> None:
    work.submit(None, lambda: sum(range(3_000_000)))
