"""Random small graphs give equal results in TensorFlow and graphmill (S6)."""

from __future__ import annotations

import numpy as np
import pytest

from graphmill.testing.generators.dataflow_graphs import random_graph

pytestmark = pytest.mark.oracle
SEEDS = 300


@pytest.mark.parametrize("seed", range(SEEDS))
def test_sessions_agree(seed, tf, graphmill_host):
    from graphmill.session.session import Session
    from graphmill.testing.oracle.tensorflow_oracle import session_config

    made = random_graph(seed, graphmill_host.ops)
    graph = tf.Graph()
    with graph.as_default():
        content = made.graph_def.SerializeToString()
        tf.import_graph_def(tf.compat.v1.GraphDef.FromString(content), name="")
    with tf.compat.v1.Session(graph=graph, config=session_config()) as session:
        expected = session.run(list(made.fetches), made.feeds)
    with Session(graph=made.graph_def, host=graphmill_host) as session:
        results = session.run(list(made.fetches), made.feeds)
    for name, expected_value, actual_value in zip(made.fetches, expected, results, strict=True):
        where = f"{made.name}, {name}"
        assert np.asarray(actual_value).dtype == np.asarray(expected_value).dtype, where
        np.testing.assert_allclose(
            actual_value, expected_value, rtol=2e-4, atol=2e-3, err_msg=where
        )
