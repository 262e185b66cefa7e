"""SavedModels of random functions of texts return the same results in TensorFlow and graphmill.

`GRAPHMILL_TEXT_MODELS=1000` compares 1,000 models, `GRAPHMILL_TEXT_MODELS=700:800` those of the
seeds 700 to 799.
"""

from __future__ import annotations

import os

import pytest
from tests.oracle.saved.generators.text_models import save_text_model
from tests.oracle.saved.test_model_programs_live import compare_calls

pytestmark = pytest.mark.oracle


def seeds() -> range:
    first, _, end = os.environ.get("GRAPHMILL_TEXT_MODELS", "15").rpartition(":")
    return range(int(first or 0), int(end))


@pytest.mark.parametrize("seed", seeds())
def test_a_model_of_texts_answers_like_in_tensorflow(seed, tf, tmp_path):
    compare(tf, seed, str(tmp_path))


def compare(tf, seed, folder):
    compare_calls(tf, seed, folder + "/model", save_text_model(tf, seed, folder))
