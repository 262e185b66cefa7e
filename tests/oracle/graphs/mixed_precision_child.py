"""Optimize and run graphs with TensorFlow and oneDNN, which other tests switch off.

Reads from stdin a pickled list of (GraphDef, name of an optimizer, names of outputs, feeds), and
writes a pickled list of (optimized GraphDef, values of the outputs).
"""

from __future__ import annotations

import os
import pickle
import sys
from typing import Any

os.environ["TF_ENABLE_ONEDNN_OPTS"] = "1"
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import tensorflow as tf
from tensorflow.python.grappler import tf_optimizer

tf1 = tf.compat.v1
CPU = "/job:localhost/replica:0/task:0/device:CPU:0"


def config_of(optimizer: str, iterations: int) -> Any:
    config = tf1.ConfigProto()
    rewrite = config.graph_options.rewrite_options
    rewrite.optimizers.append(optimizer)
    rewrite.min_graph_nodes = -1
    rewrite.meta_optimizer_iterations = iterations
    return config


def pruned(message: bytes, outputs: list[str]) -> Any:
    """Return x and what the outputs need; other nodes would also influence the optimizer."""
    graph = tf1.GraphDef.FromString(message)
    nodes = {node.name: node for node in graph.node}
    pending, needed = [name.partition(":")[0] for name in [*outputs, "x"]], set()
    while pending:
        name = pending.pop()
        if name not in needed:
            needed.add(name)
            pending += [source.lstrip("^").partition(":")[0] for source in nodes[name].input]
    kept = [node for node in graph.node if node.name in needed]
    return tf1.GraphDef(node=kept, versions=graph.versions)


def optimized(graph: Any, optimizer: str, outputs: list[str]) -> bytes:
    meta_graph = tf1.train.export_meta_graph(graph=graph)
    for node in meta_graph.graph_def.node:
        node.device = CPU
    names = [name.partition(":")[0] for name in outputs]
    meta_graph.collection_def["train_op"].node_list.value.extend(names)
    config = config_of(optimizer, 1)
    optimizer_graph = tf_optimizer.OptimizeGraph(config, meta_graph, verbose=False)
    return bytes(optimizer_graph.SerializeToString())


def main() -> None:
    results = []
    for message, optimizer, outputs, feeds in pickle.load(sys.stdin.buffer):
        with tf1.Graph().as_default() as graph:
            tf1.import_graph_def(pruned(message, outputs), name="")
            with tf1.Session(graph=graph, config=config_of(optimizer, 0)) as session:
                values = session.run(outputs, feeds)
            results.append((optimized(graph, optimizer, outputs), values))
    sys.stdout.buffer.write(pickle.dumps(results))


if __name__ == "__main__":
    main()
