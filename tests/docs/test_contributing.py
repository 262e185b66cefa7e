"""The commands and paths in CONTRIBUTING.md lead to tests and files."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("jax")
pytestmark = [pytest.mark.jax, pytest.mark.divided]

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").replace("\\\n", " ")
COMMANDS = re.findall(r"\.venv/bin/pytest (-q [^`\n]*tests/[^`\n]*)", TEXT)
SELECTIONS = [command for command in COMMANDS if " -k " in command]


def collected(arguments: list[str]) -> set[str]:
    """Return the files in which pytest finds tests."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "--share=1/1", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    return {line.partition("::")[0] for line in done.stdout.splitlines() if "::" in line}


@pytest.mark.parametrize("command", SELECTIONS)
def test_selection_finds_tests_in_each_file(command: str) -> None:
    """A `-k` that matches no test of a file silently leaves the file out."""
    arguments = shlex.split(command)
    files = {argument for argument in arguments if argument.startswith("tests/")}
    assert collected(arguments) == files


def test_commands_and_paths_exist() -> None:
    assert len(SELECTIONS) >= 2
    assert len(COMMANDS) > len(SELECTIONS)
    paths = set(re.findall(r"(?:core|plugins|tests|tools)/[\w./-]*\w", TEXT))
    assert len(paths) > 20
    assert sorted(path for path in paths if not (ROOT / path).exists()) == []
