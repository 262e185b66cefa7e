"""The pytest plugin says what is wrong with its options."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def test_a_path_of_tests_is_never_taken_for_the_file_of_the_report(tmp_path: Path) -> None:
    test = tmp_path / "test_mine.py"
    test.write_text("def test_it(): pass\n")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--graphmill-levels"]
    done = subprocess.run([*command, str(test)], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 4
    assert "put the option behind the paths" in done.stderr
    assert test.read_text() == "def test_it(): pass\n"
