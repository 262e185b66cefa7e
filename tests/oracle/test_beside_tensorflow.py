"""graphmill's and TensorFlow's messages coexist in one process, with equal encodings.

Each order of import gets a process of its own. In it, every message that the wheel has Python
classes for is compared field by field, and bytes go from one side to the other and back with
every field filled.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.oracle
CHILD = Path(__file__).with_name("beside_tensorflow_child.py")
# In the wheel's C++ only: there are no Python classes to compare with.
WITHOUT_PYTHON = {"chunk", "master", "splitter_versions", "worker"}


@pytest.fixture(scope="module", params=["tensorflow_first", "graphmill_first"])
def report(request) -> dict:
    """Return the findings of the child process for one import order."""
    done = subprocess.run(
        [sys.executable, str(CHILD), request.param],
        capture_output=True,
        text=True,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_all_messages_were_compared(report):
    assert set(report["files_without_twin"]) == WITHOUT_PYTHON
    assert report["compared"] >= 220
    assert report["filled_fields"] >= 850


def test_fields_are_tensorflows(report):
    assert report["different_descriptors"] == {}


def test_tensorflows_bytes_are_ours(report):
    assert report["misread_by_us"] == []


def test_our_bytes_are_tensorflows(report):
    assert report["misread_by_tensorflow"] == []


def test_classes_are_not_shared(report):
    assert report["shared_classes"] == []
