"""Run TensorFlow in the same process."""

from __future__ import annotations

import os

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")


def pytest_collection_modifyitems(items):
    """Ignore TensorFlow's own deprecation warnings."""
    ignore = pytest.mark.filterwarnings("ignore::DeprecationWarning:tensorflow")
    for item in items:
        if item.get_closest_marker("oracle"):
            item.add_marker(ignore)


@pytest.fixture(scope="session")
def tf():
    return pytest.importorskip("tensorflow")
