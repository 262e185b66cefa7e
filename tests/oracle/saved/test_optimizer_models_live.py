"""Training signatures take TensorFlow's steps, also from the other's checkpoint in the middle.

`GRAPHMILL_OPTIMIZER_MODELS=1000` compares 1,000 models, `GRAPHMILL_OPTIMIZER_MODELS=700:800` those
of the seeds 700 to 799.
"""

from __future__ import annotations

import os
import shutil

import numpy as np
import pytest
from tests.oracle.modes import configs
from tests.oracle.saved.generators.optimizer_models import STEPS, batches, optimizer_model

from graphmill import saved_model

pytestmark = pytest.mark.oracle


def seeds() -> range:
    first, _, end = os.environ.get("GRAPHMILL_OPTIMIZER_MODELS", "20").rpartition(":")
    return range(int(first or 0), int(end))


@pytest.mark.parametrize("seed", seeds())
def test_a_training_signature_takes_tensorflows_steps(seed, tf, tmp_path):
    compare(tf, seed, str(tmp_path))


def compare(tf, seed, folder):
    """Train, save and continue, then each from the other's variables in the middle."""
    module, signatures = optimizer_model(tf, pytest.importorskip("tf_keras"), seed)
    feeds = batches(seed)
    first, second = feeds[: STEPS // 2], feeds[STEPS // 2 :]
    start, middle, ours = (f"{folder}/{name}" for name in ("start", "middle", "ours"))
    tf.saved_model.save(module, start, signatures=signatures)
    begun = theirs(tf, signatures, first)
    tf.saved_model.save(module, middle, signatures=signatures)
    expected = theirs(tf, signatures, second)
    for mode, config in configs(seed).items():
        with saved_model.load(start, config=config, trust=True) as model:
            same(trained(model.signatures, first), begun, mode)
            shutil.copytree(start, ours, dirs_exist_ok=True)
            save(model, f"{ours}/variables/variables")
            same(trained(model.signatures, second), expected, mode)
        with saved_model.load(middle, config=config) as model:
            same(trained(model.signatures, second), expected, f"{mode}, from TensorFlow's middle")
    loaded = tf.saved_model.load(ours)
    same(theirs(tf, loaded.signatures, second), expected, "TensorFlow, from our middle")


def save(model, prefix):
    """Write the variables of a model over those of a SavedModel."""
    saver = model.meta_graph.saver_def
    model.session.run(saver.save_tensor_name, {saver.filename_tensor_name: prefix})


def trained(signatures, feeds):
    """Take the steps; return the loss of each and all variables after the last."""
    losses = [signatures["train"](**feed)["loss"] for feed in feeds]
    return losses, signatures["state"]()


def theirs(tf, signatures, feeds):
    tensors = [{key: tf.constant(value) for key, value in feed.items()} for feed in feeds]
    losses = [signatures["train"](**feed)["loss"].numpy() for feed in tensors]
    return losses, {key: value.numpy() for key, value in signatures["state"]().items()}


def same(found, expected, where):
    np.testing.assert_allclose(found[0], expected[0], 2e-3, 2e-4, err_msg=where)
    assert found[1].keys() == expected[1].keys(), where
    for key, value in expected[1].items():
        np.testing.assert_allclose(found[1][key], value, 2e-3, 2e-4, err_msg=f"{where}: {key}")
