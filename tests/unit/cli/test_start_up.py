"""Commands start quickly: they import only the modules that they need."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

_HEAVY = {"jax", "jaxlib", "grpc", "rich", "fsspec", "hypothesis", "tensorflow"}
_REPORT = """
import sys
from graphmill.cli.main import run_command_line
code = run_command_line(sys.argv[1:])
print(*sys.modules, file=sys.stderr)
sys.exit(code)
"""


def imported_by(*arguments: str) -> set[str]:
    """Return the top-level names of all modules that a command line imports."""
    done = subprocess.run(
        [sys.executable, "-c", _REPORT, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return {name.partition(".")[0] for name in done.stderr.split()}


def test_run_imports_no_heavy_modules(digits: Path) -> None:
    picture = f"image=@{digits / 'seven.png'}"
    modules = imported_by("run", str(digits / "saved_model_tf2"), picture, "--top", "3")
    assert not modules & _HEAVY


def test_arrays_need_no_pillow(digits: Path) -> None:
    arguments = ("run", str(digits / "digits_frozen.pb"), "image=np.zeros((1, 8, 8, 1))")
    assert "PIL" not in imported_by(*arguments)


def test_help_imports_no_package_of_an_extra() -> None:
    assert not imported_by("--help") & (_HEAVY | {"uvicorn", "PIL", "onnx", "ray"})


@pytest.mark.parametrize("command", ["plugins", "devices", "show"])
def test_other_commands_import_no_heavy_modules(digits: Path, command: str) -> None:
    arguments = [str(digits / "saved_model_tf1")] if command == "show" else []
    assert not imported_by(command, *arguments) & _HEAVY
