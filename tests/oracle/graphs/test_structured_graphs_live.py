"""TensorFlow agrees with the reference evaluator on random control flow graphs (E7).

All executors are compared with the evaluator (tests/integration); here the evaluator is compared
with TensorFlow. `tools/verify_executors.py --tensorflow` compares thousands of graphs more.
"""

from __future__ import annotations

import pytest

from graphmill.graph.formats.import_export import graph_to_graph_def
from graphmill.runtime.dead import DEAD
from graphmill.testing.differential.executors import reference_values
from graphmill.testing.generators.control_flow_graphs import structured_graph

pytestmark = pytest.mark.oracle
SEEDS = 200


@pytest.mark.parametrize("references", [False, True])
@pytest.mark.parametrize("seed", range(SEEDS))
def test_the_naive_evaluator_agrees_with_tensorflow(seed, references, tf, graphmill_host):
    from graphmill.testing.oracle.tensorflow_oracle import session_config

    made = structured_graph(seed, graphmill_host.ops, references=references)
    content = graph_to_graph_def(made.graph).SerializeToString()
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(tf.compat.v1.GraphDef.FromString(content), name="")
    with tf.compat.v1.Session(graph=graph, config=session_config()) as session:
        if made.start:
            session.run(made.start)
        for name, expected in reference_values(made, graphmill_host).items():
            if expected is DEAD:
                with pytest.raises(tf.errors.InvalidArgumentError, match="does not have value"):
                    session.run(name, made.feeds)
            else:
                found = session.run(name, made.feeds)
                assert (found, found.dtype) == (expected, expected.dtype), f"{made.name}, {name}"
