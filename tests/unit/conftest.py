"""Run the command line within the test's process."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from graphmill.cli.main import run_command_line
from graphmill.cli.options import Settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.plugin.host import Host


@dataclass(frozen=True)
class Outcome:
    """The result of a command line call: exit code, stdout, stderr."""

    code: int
    out: str
    err: str


@pytest.fixture
def graphmill_cli(capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """Return a function that runs the command line on arguments."""

    def call(*arguments: str, host: Host | None = None) -> Outcome:
        code = run_command_line(arguments, Settings(host=host))
        return Outcome(code, *capsys.readouterr())

    return call


@pytest.fixture
def digits() -> Path:
    """The folder of the example model."""
    return Path(__file__).parents[2] / "examples" / "digits"
