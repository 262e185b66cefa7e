"""The op reference and the page on differences are up to date."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("jax")
pytestmark = [pytest.mark.jax, pytest.mark.divided]
ROOT = Path(__file__).parents[2]


def test_pages_match_generated_output():
    tool = ROOT / "tools" / "make_op_reference.py"
    checked = subprocess.run([sys.executable, tool, "--check"], check=False, cwd=ROOT)
    assert checked.returncode == 0, "run tools/make_op_reference.py"
