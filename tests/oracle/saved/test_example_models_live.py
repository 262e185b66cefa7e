"""SavedModels that parse random examples return the same results in TensorFlow and graphmill.

`GRAPHMILL_EXAMPLE_MODELS=1000` compares 1,000 models, `GRAPHMILL_EXAMPLE_MODELS=700:800` those of
the seeds 700 to 799.
"""

from __future__ import annotations

import os

import pytest
from tests.oracle.saved.generators.example_models import save_example_model
from tests.oracle.saved.test_model_programs_live import compare_calls

pytestmark = pytest.mark.oracle


def seeds() -> range:
    first, _, end = os.environ.get("GRAPHMILL_EXAMPLE_MODELS", "15").rpartition(":")
    return range(int(first or 0), int(end))


@pytest.mark.parametrize("seed", seeds())
def test_a_model_of_examples_answers_like_in_tensorflow(seed, tf, tmp_path):
    compare(tf, seed, str(tmp_path))


def compare(tf, seed, folder):
    calls = save_example_model(tf, pytest.importorskip("tf_keras"), seed, folder)
    compare_calls(tf, seed, folder, calls)
