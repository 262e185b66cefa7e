"""The script finds the README's commands, and creates a new user's environment.

The commands themselves are run by `.ci/run`, because they set up an environment each.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def script() -> Iterator[ModuleType]:
    spec = importlib.util.spec_from_file_location("run_readme", ROOT / "tools" / "run_readme.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look there
    sys.path.insert(0, str(ROOT / "tools"))  # as when it is run
    spec.loader.exec_module(module)
    yield module
    sys.path.remove(str(ROOT / "tools"))
    del sys.modules[spec.name]


def test_readme_has_both_commands(script: Any) -> None:
    commands = script.commands_of((ROOT / "README.md").read_text(encoding="utf-8"))
    assert sorted(commands) == ["run", "test"]
    assert "graphmill run examples/digits" in commands["run"].line
    assert commands["run"].pattern is not None
    assert "pytest" in commands["test"].line


def test_first_screen_of_the_readme_has_both_commands() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert "<!-- command: test -->" in lines[:25]


def test_ci_runs_both_commands() -> None:
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", ROOT / ".ci" / "run", "--dry-run"],
        env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True,
    )  # fmt: skip
    here = f"would run: Python 3.{sys.version_info.minor}."
    lines = [line for line in done.stdout.splitlines() if line.startswith(here)]
    for command in ("run", "test"):
        assert any("newest dependencies" in line and f": {command} (" in line for line in lines)


def test_new_user_has_empty_home_and_no_pythonpath(
    script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    monkeypatch.setenv("VIRTUAL_ENV", "/somewhere")
    monkeypatch.setenv("GRAPHMILL_DISABLE_PLUGINS", "cpu")
    monkeypatch.setenv("PIP_INDEX_URL", "https://example.org/simple")
    environment = script.clean_environment(tmp_path)
    assert environment["HOME"] == str(tmp_path)
    assert environment["PIP_INDEX_URL"] == "https://example.org/simple"
    assert not {"PYTHONPATH", "VIRTUAL_ENV", "GRAPHMILL_DISABLE_PLUGINS"} & set(environment)


def test_new_user_has_no_jax_cache_by_default(
    script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "/somewhere")
    environment = script.clean_environment(tmp_path)
    assert not [name for name in environment if name.startswith("JAX_")]
    kept = script.with_compiled(environment, tmp_path / "compiled")
    assert kept["JAX_COMPILATION_CACHE_DIR"] == str(tmp_path.resolve() / "compiled")
    assert environment.items() < kept.items()


def test_a_command_finds_the_folder_of_compiled_programs(
    script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tree").mkdir()
    monkeypatch.setattr(script, "ROOT", tmp_path / "tree")
    folder = tmp_path.resolve() / "compiled"
    command = script.Command("run", f'test "$JAX_COMPILATION_CACHE_DIR" = "{folder}"', None)
    assert script.run(command, compiled=folder) == 0
    assert script.run(command) == 1


def test_command_has_its_share_of_the_tests(
    script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tree").mkdir()
    monkeypatch.setattr(script, "ROOT", tmp_path / "tree")
    command = script.Command("run", 'test "$GRAPHMILL_TEST_SHARE" = 2/4', None)
    assert script.run(command, share="2/4") == 0
    assert script.run(command) == 1


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_copy_has_tracked_files_only(
    script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = tmp_path / "tree"
    (tree / "core").mkdir(parents=True)
    (tree / "core" / "new.py").write_text("")
    (tree / "core" / "old.pyc").write_text("")
    (tree / ".gitignore").write_text("*.pyc\n")
    subprocess.run(["git", "init", "-q", str(tree)], check=True)
    monkeypatch.setattr(script, "ROOT", tree)
    script.copy_tree(tmp_path / "copy")
    copied = {str(path.relative_to(tmp_path / "copy")) for path in (tmp_path / "copy").rglob("*")}
    assert copied == {"core", "core/new.py", ".gitignore"}


def test_all_files_but_caches_are_copied_without_git(
    script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = tmp_path / "tree"
    for name in ("core/__pycache__/x.pyc", "core/x.py", ".venv/bin/python", ".git/HEAD"):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text("")
    monkeypatch.setattr(script, "ROOT", tree)
    script.copy_tree(tmp_path / "copy")
    copied = {path.name for path in (tmp_path / "copy").rglob("*")}
    assert copied == {"core", "x.py"}


@pytest.mark.parametrize(
    ("line", "pattern", "code"),
    [
        ("echo '  7  0.98'", r"^\s*7\s", 0),
        ("echo '  3  0.98'", r"^\s*7\s", 1),
        ("echo 7; exit 5", "7", 5),
        ("true", None, 0),
        ('test -z "$(ls -A $HOME)"', None, 0),
    ],
)
def test_a_command_passes_when_its_answer_is_right(
    script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, pattern: str, code: int
) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    monkeypatch.setattr(script, "ROOT", tree)
    assert script.run(script.Command("x", line, pattern)) == code


def test_python3_of_a_command_is_the_interpreter_that_was_requested(
    script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    tree, python = tmp_path / "tree", tmp_path / "python"
    tree.mkdir()
    python.write_text('#!/bin/sh\necho "asked: $*"\n')
    python.chmod(0o755)
    monkeypatch.setattr(script, "ROOT", tree)
    requested = script.Python(python, (3, 11, 0))
    limits = tmp_path / "limits.txt"
    line = "python3 -m venv .venv; echo limits: $PIP_CONSTRAINT"
    assert script.run(script.Command("x", line, None), requested, limits) == 0
    printed = capfd.readouterr().out.splitlines()
    assert printed[1:3] == ["asked: -m venv .venv", f"limits: {limits}"]
    assert printed[3] == "(Python 3.11.0 with nothing installed)"


def test_installed_versions_are_printed(
    script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    site = tmp_path / "tree" / ".venv" / "lib" / "python3.11" / "site-packages"
    for name in ("numpy-2.0.2", "Pillow-10.1.0"):
        (site / f"{name}.dist-info").mkdir(parents=True)
    monkeypatch.setattr(script, "ROOT", tmp_path / "tree")
    line = f"mkdir -p .venv && cp -r {tmp_path}/tree/.venv/lib .venv"
    assert script.run(script.Command("x", line, None)) == 0
    assert " with numpy 2.0.2, Pillow 10.1.0)" in capfd.readouterr().out


def test_long_silence_of_a_command_is_shown(
    script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert script._echo("echo one", tmp_path, dict(os.environ)) == (0, ["one"])
    assert "no output" not in capsys.readouterr().out
    monkeypatch.setattr(script, "_LONG_SILENCE", -1.0)
    assert script._echo("echo one", tmp_path, dict(os.environ)) == (0, ["one"])
    assert capsys.readouterr().out == "$ echo one\n(no output for 0 s)\none\n"
