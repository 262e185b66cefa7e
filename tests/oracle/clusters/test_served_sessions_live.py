"""TensorFlow's clients get equal results from our server and TensorFlow's (W2)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.oracle

CHILD = Path(__file__).with_name("served_sessions_child.py")
TIMEOUT = 300
PARTS = [
    *("values", "types", "extend", "variables", "reference_variables", "queue", "errors"),
    *("timeout", "close_in_a_step", "partial_runs", "callables", "trace", "devices"),
    "monitored_training",
]
OURS = (sys.executable, "-m", "graphmill", "serve", "--trust")
# Where graphmill and TensorFlow are in different environments, this names TensorFlow's Python.
PYTHON = os.environ.get("GRAPHMILL_TENSORFLOW_PYTHON", sys.executable)
THEIRS = (PYTHON, str(CHILD), "serve", "--trust")


def outcome_on(command: tuple[str, ...]) -> dict[str, Any]:
    """Run the clients on a new server; return the result of each part."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            word, address = server.stdout.readline().split()
            assert word == "READY"
            run = subprocess.run(
                [PYTHON, str(CHILD), f"grpc://{address}"],
                capture_output=True,
                text=True,
                timeout=TIMEOUT,
                check=False,
            )
        finally:
            server.terminate()
    assert run.returncode == 0, run.stderr[-4000:]
    (line,) = [line for line in run.stdout.splitlines() if line.startswith("RESULT ")]
    found: dict[str, Any] = json.loads(line.removeprefix("RESULT "))
    return found


@pytest.fixture(scope="module")
def outcomes():
    return outcome_on(OURS), outcome_on(THEIRS)


@pytest.mark.parametrize("part", PARTS)
def test_clients_of_tensorflow_see_no_difference(outcomes, part):
    ours, theirs = outcomes
    assert ours[part] == theirs[part]
