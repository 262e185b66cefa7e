"""Ops with one large value, drawn from all op cases: each step ends soon, with a typed error.

`tools/sweep_limits.py` runs all of these instances, which takes hours; here are a few hundred. They
are drawn from the op cases, so a new op is among them as soon as it has a case.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

TOOL: Final = Path(__file__).parents[2] / "tools" / "sweep_limits.py"
NEEDS_LINUX: Final = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def run_sample(seed: int, *options: str) -> str:
    """Run some instances in a process of their own; return what is found."""
    limits = ["--deadline", "0.2", "--late", "5"]
    command = [sys.executable, TOOL, "--seed", str(seed), *limits, *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    return done.stdout if done.returncode else ""


@NEEDS_LINUX
@pytest.mark.divided
@pytest.mark.parametrize("seed", range(4))
def test_step_with_a_large_value_is_bounded(seed: int) -> None:
    assert not run_sample(seed, "--sample", "100")


@NEEDS_LINUX
@pytest.mark.divided
def test_step_with_many_elements_is_bounded() -> None:
    assert not run_sample(1, "--sample", "20", "--grow")
