"""Run cases in TensorFlow (`tf.compat.v1.Session.make_callable`), for the worker."""

from __future__ import annotations

import os
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import tensorflow as tf

tf1 = tf.compat.v1


class Runner:
    """A session of a case, after its initial runs; `step` takes feeds by position."""

    def __init__(self, case: Any, config: dict[str, Any]) -> None:
        options = tf1.ConfigProto()
        for device, count in case.device_count.items():
            options.device_count[device] = count
        graph = tf.Graph()
        with graph.as_default():
            self.session = session = tf1.Session(graph=graph, config=options)
            if case.is_saved_model:
                tf1.saved_model.load(session, case.tags, str(case.model))
            else:
                graph_def = tf1.GraphDef.FromString(case.model.read_bytes())
                tf.import_graph_def(graph_def, name="")
            operation = graph.get_operation_by_name
            for targets, feeds in case.init_runs:
                session.run([operation(name) for name in targets], feeds)
            fetches = [graph.get_tensor_by_name(name) for name in case.fetches]
            names = case.feed_names
            self._call = session.make_callable(
                [*fetches, *(operation(name) for name in case.targets)],
                [graph.get_tensor_by_name(name) for name in names],
            )
            self._count = len(fetches)
        self.step = self._call if not case.targets else self._step

    def _step(self, *values: Any) -> list[Any]:
        return self._call(*values)[: self._count]

    def tier(self) -> str:
        return ""

    def close(self) -> None:
        self.session.close()


def warm_up() -> None:
    """Run a small graph, so that the process's one-time work is done before timing."""
    with tf.Graph().as_default(), tf1.Session() as session:
        x = tf1.placeholder(tf.float32, [2, 2])
        session.run(tf.matmul(x, x), {x: [[0.0, 0.0], [0.0, 0.0]]})


def versions() -> str:
    return f"TensorFlow {tf.__version__}"
