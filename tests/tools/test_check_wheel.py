"""Distributions that are not the same in both builds are named."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def check_wheel(tool: Any) -> Any:
    return tool("check_wheel")


def test_equal_builds_have_no_differences(check_wheel: Any) -> None:
    assert check_wheel.differences({"a.whl": "1"}, {"a.whl": "1"}) == []


def test_different_and_missing_distributions_are_named(check_wheel: Any) -> None:
    first = {"a.whl": "1", "b.tar.gz": "2"}
    assert check_wheel.differences(first, {"a.whl": "3"}) == ["a.whl", "b.tar.gz"]


def test_given_source_date_is_used(check_wheel: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    assert check_wheel.source_date() == "1700000000"


def test_disturbed_copies_differ_in_times_and_permissions(check_wheel: Any, tmp_path: Path) -> None:
    file = tmp_path / "folder" / "module.py"
    file.parent.mkdir()
    file.write_text("x = 1")
    file.chmod(0o600)
    check_wheel.disturb(tmp_path)
    assert file.stat().st_mtime == 1_000_000_000
    assert file.stat().st_mode & 0o777 == 0o640


def test_builds_that_differ_fail(
    check_wheel: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    built = iter([{"a.whl": "1"}, {"a.whl": "2"}])
    monkeypatch.setattr(check_wheel, "build", lambda *_: next(built))
    monkeypatch.setattr(check_wheel.shutil, "copytree", lambda *_, **__: None)
    monkeypatch.setattr(check_wheel.sys, "argv", ["check_wheel.py"])
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1")
    assert check_wheel.main() == 1
    assert "a.whl: the two builds differ" in capsys.readouterr().err
