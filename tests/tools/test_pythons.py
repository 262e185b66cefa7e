"""Interpreters are found by running executables of their name."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def pythons(tool: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    module = tool("pythons")
    monkeypatch.setattr(module.sys, "executable", "/nowhere/python3")
    return module


def script(path: Path, *lines: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    path.chmod(0o755)
    return path


def fake_python(path: Path, *version: int, **differs: Any) -> Path:
    """Write a script that answers the probe like an interpreter of a version."""
    answer = {
        "executable": str(path),
        "version": version,
        **dict.fromkeys(("is_final", "is_usual", "makes_venv", "has_pip"), True),
        **differs,
    }
    return script(path, f"echo '{json.dumps(answer)}'")


def found(pythons: Any, *folders: Path, **variables: Any) -> list[str]:
    """Return the versions found on this path."""
    environment = {"PATH": ":".join(map(str, folders)), **{k: str(v) for k, v in variables.items()}}
    return [str(python) for python in pythons.find_pythons(environment)]


def test_each_supported_minor_version_is_found_once(pythons: Any, tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    fake_python(one / "python3.13", 3, 13, 0)
    fake_python(one / "python3.10", 3, 10, 2)
    fake_python(other / "python3.13", 3, 13, 9)
    fake_python(other / "python3.11", 3, 11, 2)
    assert found(pythons, one, other) == ["3.11.2", "3.13.0"]


def test_failing_shim_is_skipped_for_the_real_interpreter(pythons: Any, tmp_path: Path) -> None:
    shim = script(tmp_path / "bin" / "python3.12", "echo not selected >&2", "exit 127")
    for version in ("3.12.1", "3.12.10", "3.12.9"):
        numbers = map(int, version.split("."))
        fake_python(tmp_path / "root" / "versions" / version / "bin" / "python3.12", *numbers)
    assert found(pythons, shim.parent) == []
    assert found(pythons, shim.parent, PYENV_ROOT=tmp_path / "root") == ["3.12.10"]


def test_pyenv_lists_its_versions(pythons: Any, tmp_path: Path) -> None:
    root = tmp_path / "root"
    script(tmp_path / "bin" / "pyenv", f'test "$1" = root && echo {root}')
    fake_python(root / "versions" / "3.14.2" / "bin" / "python3.14", 3, 14, 2)
    assert found(pythons, tmp_path / "bin") == ["3.14.2"]


def test_pyenv_is_found_in_the_home_folder(pythons: Any, tmp_path: Path) -> None:
    fake_python(tmp_path / ".pyenv" / "versions" / "3.11.7" / "bin" / "python3.11", 3, 11, 7)
    assert found(pythons, HOME=tmp_path) == ["3.11.7"]


def test_a_machine_may_have_one_python3_alone(pythons: Any, tmp_path: Path) -> None:
    fake_python(tmp_path / "python3", 3, 12, 3)
    assert found(pythons, tmp_path) == ["3.12.3"]


def test_a_name_may_promise_another_version(pythons: Any, tmp_path: Path) -> None:
    fake_python(tmp_path / "python3.12", 3, 13, 1)
    assert found(pythons, tmp_path) == ["3.13.1"]


@pytest.mark.parametrize(
    "differs",
    [
        {"is_final": False},
        {"is_usual": False},  # free-threaded, or PyPy
        {"makes_venv": False, "has_pip": False},
    ],
    ids=lambda differs: ", ".join(differs),
)
def test_an_interpreter_that_cannot_be_used_is_passed_over(
    pythons: Any, tmp_path: Path, differs: dict[str, bool]
) -> None:
    fake_python(tmp_path / "one" / "python3.12", 3, 12, 0, **differs)
    fake_python(tmp_path / "other" / "python3.12", 3, 12, 1)
    assert found(pythons, tmp_path / "one", tmp_path / "other") == ["3.12.1"]


@pytest.mark.parametrize("lines", [["exit 1"], ["echo nonsense"], ["echo '{}' >&2"]])
def test_non_python_executable_is_ignored(pythons: Any, tmp_path: Path, lines: list[str]) -> None:
    assert pythons.probe(script(tmp_path / "python3.11", *lines)) is None


def test_the_running_interpreter_is_found(tool: Any) -> None:
    pythons = tool("pythons")
    me = pythons.probe(Path(sys.executable))
    assert me.version == sys.version_info[:3]
    assert [str(one) for one in pythons.find_pythons({}, [me.minor])] == [str(me)]
