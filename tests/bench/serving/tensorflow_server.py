"""Run TensorFlow's server of one task; it prints READY as `graphmill serve` does."""

from __future__ import annotations

import argparse
import json

import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("--cluster", type=json.loads)
parser.add_argument("--job")
parser.add_argument("--task", type=int)
options = parser.parse_args()
server = tf.distribute.Server(
    tf.train.ClusterSpec(options.cluster), job_name=options.job, task_index=options.task
)
print("READY", flush=True)
server.join()
