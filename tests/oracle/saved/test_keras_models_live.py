"""SavedModels of random Keras models return the same results in TensorFlow and graphmill.

`GRAPHMILL_KERAS_MODELS=1000` compares 1,000 models, `GRAPHMILL_KERAS_MODELS=700:800` those of the
seeds 700 to 799.
"""

from __future__ import annotations

import os

import pytest
from tests.oracle.saved.generators.keras_models import save_keras_model
from tests.oracle.saved.test_model_programs_live import compare_calls

pytestmark = pytest.mark.oracle


def seeds() -> range:
    first, _, end = os.environ.get("GRAPHMILL_KERAS_MODELS", "15").rpartition(":")
    return range(int(first or 0), int(end))


@pytest.mark.parametrize("seed", seeds())
def test_a_keras_model_answers_like_in_tensorflow(seed, tf, tmp_path):
    compare(tf, seed, str(tmp_path))


def compare(tf, seed, folder):
    keras = pytest.importorskip("tf_keras")
    compare_calls(tf, seed, folder, save_keras_model(tf, keras, seed, folder))
