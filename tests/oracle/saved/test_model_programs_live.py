"""SavedModels of random functions return the same results in TensorFlow and graphmill.

`GRAPHMILL_MODEL_PROGRAMS=1000` compares 1,000 models, `GRAPHMILL_MODEL_PROGRAMS=700:800` those of
the seeds 700 to 799.
"""

from __future__ import annotations

import os

import numpy as np
import pytest
from tests.oracle.modes import configs
from tests.oracle.saved.generators.model_programs import save_program

from graphmill import saved_model

pytestmark = pytest.mark.oracle


def seeds() -> range:
    first, _, end = os.environ.get("GRAPHMILL_MODEL_PROGRAMS", "30").rpartition(":")
    return range(int(first or 0), int(end))


@pytest.mark.parametrize("seed", seeds())
def test_a_model_answers_like_in_tensorflow(seed, tf, tmp_path):
    compare(tf, seed, str(tmp_path))


def compare(tf, seed, folder):
    """Fail where a call of a signature differs."""
    compare_calls(tf, seed, folder, save_program(tf, seed, folder))


def compare_calls(tf, seed, folder, calls):
    """Fail where calls of the signatures of a SavedModel differ."""
    loaded = tf.saved_model.load(folder)
    expected = []
    for name, values in calls:
        tensors = {key: tf.constant(value) for key, value in values.items()}
        found = loaded.signatures[name](**tensors)
        expected.append({key: np.asarray(value.numpy()) for key, value in found.items()})
    for mode, config in configs(seed).items():
        with saved_model.load(folder, config=config) as model:
            for number, (name, values) in enumerate(calls):
                found = model.signatures[name](**values)
                same(found, expected[number], f"{mode}, call {number} of {name}")


def same(found, expected, where):
    assert found.keys() == expected.keys(), where
    for key, value in expected.items():
        one = np.asarray(found[key])
        if one.dtype.kind in "OS":
            assert one.tolist() == value.tolist(), f"{where}: {key}"
            continue
        assert one.dtype == value.dtype, f"{where}: {key}"
        np.testing.assert_allclose(one, value, 2e-4, 2e-5, err_msg=f"{where}: {key}")
