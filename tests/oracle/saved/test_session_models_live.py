"""SavedModels of random graphs of TensorFlow 1.x return the same results in both runtimes.

`GRAPHMILL_SESSION_MODELS=1000` compares 1,000 models, `GRAPHMILL_SESSION_MODELS=700:800` those of
the seeds 700 to 799.
"""

from __future__ import annotations

import os

import numpy as np
import pytest
from tests.oracle.modes import configs
from tests.oracle.saved.generators.session_models import save_session_model

from graphmill import saved_model
from graphmill.testing.oracle.tensorflow_oracle import session_config

pytestmark = pytest.mark.oracle


def seeds() -> range:
    first, _, end = os.environ.get("GRAPHMILL_SESSION_MODELS", "30").rpartition(":")
    return range(int(first or 0), int(end))


@pytest.mark.parametrize("seed", seeds())
def test_a_graph_of_tensorflow_1_answers_like_in_tensorflow(seed, tf, tmp_path):
    compare(tf, seed, str(tmp_path))


def compare(tf, seed, folder):
    """Fail where a call of a signature differs."""
    calls = save_session_model(tf, seed, folder)
    expected = theirs(tf, folder + "/model", calls)
    for mode, config in configs(seed).items():
        with saved_model.load(folder + "/model", config=config) as model:
            for number, (name, values) in enumerate(calls):
                call = model.signatures[name]
                found = call(**{key: values[key] for key in call.inputs})
                for key, wanted in expected[number].items():
                    same(found[key], wanted, f"{mode}, call {number} of {name}: {key}")


def theirs(tf, folder, calls):
    """Return the results of TensorFlow for each call."""
    v1 = tf.compat.v1
    with v1.Session(graph=tf.Graph(), config=session_config()) as session:
        definitions = v1.saved_model.load(session, ["serve"], folder).signature_def
        results = []
        for name, values in calls:
            feeds, fetches = {}, {}
            for key, info in definitions[name].inputs.items():
                parts = values[key] if isinstance(values[key], tuple) else (values[key],)
                feeds.update(zip(tensors(info), parts, strict=True))
            for key, info in definitions[name].outputs.items():
                fetches[key] = tensors(info)
            results.append(session.run(fetches, feeds))
        return results


def tensors(info):
    """Return the names of the tensors of an input or output."""
    sparse = info.coo_sparse
    if not sparse.values_tensor_name:
        return [info.name]
    return [sparse.indices_tensor_name, sparse.values_tensor_name, sparse.dense_shape_tensor_name]


def same(found, expected, where):
    parts = found if isinstance(found, tuple) else (found,)
    for one, other in zip(parts, expected, strict=True):
        assert np.asarray(one).dtype == other.dtype, where
        np.testing.assert_allclose(one, other, 1e-6, 1e-8, err_msg=where)
