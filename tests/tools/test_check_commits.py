"""Commit messages that follow the rules pass; others are reported."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest


@pytest.fixture
def check_commits(tool: Any) -> Any:
    return tool("check_commits")


@pytest.mark.parametrize(
    "message",
    [
        "Skip segment-id validation for empty rows\n\nThey have no ids to validate.",
        "Group the modules of graphs, lowering and ops by concept\n\nForty in a folder are many.",
        "Add state machines and call counts\n\nBoth are containers of one kind.",
        "Read and write checkpoints of version 1\n\nThey are still in use.",
        "Name what to keep and drop\n\nBoth are needed.",
    ],
)
def test_good_message_has_no_faults(check_commits, message: str) -> None:
    assert list(check_commits.faults(message)) == []


@pytest.mark.parametrize(
    ("message", "fault"),
    [
        ("Fix " + "x" * 70 + "\n\nWhy.", "74 characters"),
        ("Fixed a race\n\nWhy.", "begins with 'Fixed'"),
        ("Fixes a race\n\nWhy.", "begins with 'Fixes'"),
        ("fix a race\n\nWhy.", "lower-case letter"),
        ("Fix a race.\n\nWhy.", "full stop"),
        ("Fix a race and rename the module\n\nWhy.", "two concerns ('… and rename')"),
        ("Fix a race; add a test\n\nWhy.", "two concerns ('… ; add')"),
        ("Fix races and add tests\n\nWhy.", "two concerns ('… and add')"),
        ("Fix races, drop tests\n\nWhy.", "two concerns ('… drop')"),
        ("Fix races & fix leaks\n\nWhy.", "two concerns ('… & fix')"),
        ("Fix races, then rename tests\n\nWhy.", "two concerns ('… then rename')"),
        ("Move tests and move tools\n\nWhy.", "two concerns ('… and move')"),
        ("Add\n\nWhy.", "only one word"),
        ("Fix a race", "no body"),
        ("Fix a race\nWhy.", "no empty line"),
        ("\n", "begins with ''"),
    ],
)
def test_fault_is_named(check_commits, message: str, fault: str) -> None:
    assert any(fault in found for found in check_commits.faults(message))


def test_verbs_are_imperatives_in_small_letters(check_commits) -> None:
    assert all(verb.isascii() and verb.islower() for verb in check_commits.VERBS)


@pytest.fixture
def repository(check_commits, tmp_path, monkeypatch):
    def git(*arguments: str) -> None:
        identity = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
        subprocess.run(
            ["git", *identity, *arguments], cwd=tmp_path, check=True, capture_output=True
        )

    git("init", "-q")
    for message in ("Add a file\n\nIt was missing.", "Did this", "Fix that\n\nIt was wrong."):
        git("commit", "-q", "--allow-empty", "-m", message)
    monkeypatch.setattr(check_commits, "ROOT", tmp_path)
    return tmp_path


def test_range_is_checked(check_commits, repository, capsys) -> None:
    assert check_commits.main(["HEAD~2..HEAD"]) == 1
    out = capsys.readouterr().out
    assert "'Did this'" in out
    assert out.endswith("2 commits, 2 faults\n")
    assert check_commits.main(["HEAD~1..HEAD"]) == 0


def test_missing_history_is_reported(check_commits, repository, capsys) -> None:
    assert check_commits.main([]) == 0
    assert "no commit was checked" in capsys.readouterr().out


def test_unknown_range_is_an_error(check_commits, repository, capsys) -> None:
    assert check_commits.main(["nothing..HEAD"]) == 2
    assert "nothing..HEAD" in capsys.readouterr().err
