"""Whole models return TensorFlow's results; GRAPHMILL_BENCH_MODELS names their folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from graphmill.testing.model_case import ModelCase, model_folders

pytestmark = pytest.mark.oracle
ROOT = os.environ.get("GRAPHMILL_BENCH_MODELS", "")


@pytest.mark.skipif(not ROOT, reason="GRAPHMILL_BENCH_MODELS is not set")
@pytest.mark.parametrize("folder", model_folders(Path(ROOT)) if ROOT else [], ids=lambda f: f.name)
def test_model_gives_tensorflow_results(folder, tmp_path, graphmill_host):
    case = ModelCase(folder, tmp_path)
    with case.session(graphmill_host) as session:
        for step in range(case.steps):
            assert case.run_step(session, step).problem == "", f"step {step}"
