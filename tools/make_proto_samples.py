"""Write the messages that `tests/unit/proto` parses, with TensorFlow's own classes.

    python tools/make_proto_samples.py        (an environment with tensorflow-cpu)

Each sample is small and uses many kinds of fields. The samples are serialized deterministically
(map entries sorted by key), so a reader that supports every field writes the same bytes.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf

if TYPE_CHECKING:
    from google.protobuf.message import Message

HERE = Path(__file__).resolve().parent.parent / "tests" / "unit" / "proto" / "data"
v1 = tf.compat.v1


def graph_def() -> v1.GraphDef:
    """Return a graph with a function, a device, a control edge and many kinds of attribute."""

    @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32, name="image")])
    def double(x):
        with tf.control_dependencies([tf.debugging.assert_non_negative(x)]):
            return 2.0 * x

    with tf.Graph().as_default() as graph:
        x = v1.placeholder(tf.float32, [None, 3], name="x")
        unknown = v1.placeholder(tf.int64, name="unknown_rank")
        with tf.device("/job:worker/task:1/device:CPU:0"):
            w = tf.constant(np.arange(6, dtype=np.float32).reshape(3, 2), name="w")
        with tf.control_dependencies([unknown]):
            tf.matmul(x, w, transpose_b=False, name="y")
        tf.constant([b"one", b"two"], name="words")
        tf.strided_slice(x, [0, 1], [2, 3], end_mask=1, name="part")
        tf.nn.max_pool2d(tf.zeros([1, 4, 4, 1]), 2, 2, "SAME", name="pool")
        tf.queue.FIFOQueue(3, [tf.int32, tf.string], [[2], []], name="queue")
        double(x)
    return graph.as_graph_def()


def config_proto() -> v1.ConfigProto:
    """Return a session config with values in each of its parts."""
    config = v1.ConfigProto(
        device_count={"CPU": 2, "GPU": 0},
        intra_op_parallelism_threads=3,
        allow_soft_placement=True,
        device_filters=["/job:ps", "/job:worker/task:1"],
        operation_timeout_in_ms=2500,
    )
    config.gpu_options.per_process_gpu_memory_fraction = 0.25
    config.gpu_options.allow_growth = True
    config.gpu_options.experimental.virtual_devices.add(memory_limit_mb=[100.5, 200.0])
    optimizer = config.graph_options.optimizer_options
    optimizer.opt_level = optimizer.L0
    optimizer.global_jit_level = optimizer.ON_2
    rewriter = config.graph_options.rewrite_options
    rewriter.constant_folding = rewriter.OFF
    rewriter.optimizers.extend(["pruning", "function"])
    rewriter.custom_optimizers.add(name="mine").parameter_map["rate"].f = 0.5
    config.session_inter_op_thread_pool.add(num_threads=4, global_name="shared")
    config.rpc_options.compression_algorithm = "gzip"
    config.cluster_def.job.add(name="worker").tasks[1] = "host:2222"
    config.experimental.executor_type = "SINGLE_THREADED_EXECUTOR"
    config.experimental.collective_group_leader = "/job:worker/task:0"
    return config


def run_metadata() -> v1.RunMetadata:
    """Return the metadata of a fully traced run."""
    metadata = v1.RunMetadata()
    with v1.Session(graph=tf.Graph()) as session, session.graph.as_default():
        y = tf.identity(v1.placeholder_with_default([1.0, 2.0], [2], name="x"), name="y")
        options = v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE, output_partition_graphs=True)
        session.run(y, options=options, run_metadata=metadata)
    return metadata


def meta_graph_v1() -> v1.MetaGraphDef:
    """Return a TensorFlow 1 MetaGraph: loop, conditional, variables, queue runner, saver."""
    v1.disable_control_flow_v2()
    with tf.Graph().as_default():
        v = v1.get_variable(
            "v", [4, 2], partitioner=v1.fixed_size_partitioner(2), use_resource=False
        )
        n = v1.while_loop(lambda i: i < 3, lambda i: i + 1, [tf.constant(0)], name="loop")
        v1.cond(n > 1, lambda: tf.constant(1), lambda: n + 1, name="choice")
        queue = tf.queue.FIFOQueue(2, tf.float32, name="queue")
        enqueue = queue.enqueue(1.0)
        v1.train.add_queue_runner(v1.train.QueueRunner(queue, [enqueue]))
        v1.add_to_collection("fetches", "loop/Exit:0")
        saver = v1.train.Saver(list(v))
        return v1.train.export_meta_graph(saver_def=saver.as_saver_def())


def saved_model() -> Message:
    """Return a TensorFlow 2 SavedModel with a variable, an asset, a table and signatures."""
    from tensorflow.core.protobuf import saved_model_pb2

    class Model(tf.Module):
        def __init__(self, asset):
            super().__init__()
            self.v = tf.Variable([1.0, 2.0], name="v")
            self.asset = tf.saved_model.Asset(asset)
            self.scale = tf.constant(2.0)

        @tf.function(input_signature=[{"image": tf.TensorSpec([None, 2], tf.float32)}])
        def __call__(self, inputs):
            return {"scores": inputs["image"] * self.v * self.scale}

    with tempfile.TemporaryDirectory() as folder:
        asset = Path(folder) / "words.txt"
        asset.write_text("one\ntwo\n")
        model = Model(str(asset))
        tf.saved_model.save(model, f"{folder}/model", signatures={"serve": model.__call__})
        data = Path(f"{folder}/model/saved_model.pb").read_bytes()
    message = saved_model_pb2.SavedModel.FromString(data)
    for meta_graph in message.meta_graphs:  # most of the bytes, all alike
        del meta_graph.meta_info_def.stripped_op_list.op[3:]
    return message


def main() -> None:
    """Write all samples."""
    HERE.mkdir(parents=True, exist_ok=True)
    for make in (graph_def, config_proto, run_metadata, saved_model, meta_graph_v1):
        data = make().SerializeToString(deterministic=True)
        (HERE / f"{make.__name__}.pb").write_bytes(data)
        print(f"{make.__name__}: {len(data)} bytes")


if __name__ == "__main__":
    main()
