"""The stored list of TensorFlow's public names equals TensorFlow's own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.oracle
ROOT = Path(__file__).parents[2]


def test_stored_names_are_those_of_tensorflow(tf):
    del tf
    tool = ROOT / "tools" / "make_tensorflow_names.py"
    checked = subprocess.run(
        [sys.executable, tool, "--symbols", "--check"], check=False, cwd=ROOT, capture_output=True
    )
    assert checked.returncode == 0, checked.stderr.decode()[-500:]
