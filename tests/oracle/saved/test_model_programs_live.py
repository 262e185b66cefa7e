"""SavedModels of random functions return the same results in TensorFlow and graphmill.

`GRAPHMILL_MODEL_PROGRAMS=1000` compares 1,000 models, `GRAPHMILL_MODEL_PROGRAMS=700:800` those of
the seeds 700 to 799.
"""

from __future__ import annotations

import os

import numpy as np
import pytest
from tests.oracle.saved.model_programs import save_program

from graphmill import saved_model
from graphmill.testing.differential.compiled_graphs import jit_config

pytestmark = pytest.mark.oracle


def seeds() -> range:
    first, _, end = os.environ.get("GRAPHMILL_MODEL_PROGRAMS", "30").rpartition(":")
    return range(int(first or 0), int(end))


@pytest.mark.parametrize("seed", seeds())
def test_a_model_answers_like_in_tensorflow(seed, tf, tmp_path):
    compare(tf, seed, str(tmp_path))


def compare(tf, seed, folder):
    """Fail where a call of a signature differs."""
    calls = save_program(tf, seed, folder)
    loaded = tf.saved_model.load(folder)
    expected = []
    for name, values in calls:
        tensors = {key: tf.constant(value) for key, value in values.items()}
        found = loaded.signatures[name](**tensors)
        expected.append({key: np.asarray(value.numpy()) for key, value in found.items()})
    for mode in ("off", "eager"):
        with saved_model.load(folder, config=jit_config(mode)) as model:
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
