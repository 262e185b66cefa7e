"""Write the checkpoint that train.py continues, with TensorFlow: `python make_checkpoint.py`.

A TensorFlow 1 program: the two spirals, a network of two layers with dropout, Adam with a decaying
rate. It stops after 20 steps, long before it has learnt the spirals, and prints its accuracy.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import tensorflow.compat.v1 as tf

HERE = Path(__file__).parent


def spirals(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return points on two spirals, and the spiral of each point: 0 or 1."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 2, count)
    turn = np.sqrt(rng.uniform(0, 1, count)) * 2.5 * np.pi
    angle = turn + np.pi * label
    points = np.stack([turn * np.cos(angle), turn * np.sin(angle)], 1) / 6
    return (points + rng.normal(0, 0.03, points.shape)).astype(np.float32), label.astype(np.int32)


def main() -> None:
    """Train 20 steps and save."""
    tf.disable_v2_behavior()
    tf.set_random_seed(1)
    x = tf.placeholder(tf.float32, [None, 2], "x")
    label = tf.placeholder(tf.int32, [None], "label")
    keep = tf.placeholder_with_default(1.0, [], "keep")
    hidden = x
    for index, units in enumerate((48, 48)):
        size = int(hidden.shape[1])
        w = tf.get_variable(f"w{index}", [size, units], initializer=tf.glorot_uniform_initializer())
        b = tf.get_variable(f"b{index}", [units], initializer=tf.zeros_initializer())
        hidden = tf.nn.dropout(tf.nn.relu(hidden @ w + b), rate=1 - keep)
    w = tf.get_variable("w2", [48, 2], initializer=tf.glorot_uniform_initializer())
    logits = tf.identity(hidden @ w, "logits")
    loss = tf.losses.sparse_softmax_cross_entropy(label, logits)
    tf.identity(loss, "loss")
    step = tf.train.get_or_create_global_step()
    rate = tf.train.exponential_decay(0.01, step, 500, 0.7)
    train = tf.train.AdamOptimizer(rate).minimize(loss, step, name="train")
    right = tf.equal(tf.argmax(logits, 1, output_type=tf.int32), label)
    accuracy = tf.reduce_mean(tf.cast(right, tf.float32), name="accuracy")
    saver = tf.train.Saver()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for number in range(20):
            points, labels = spirals(128, number)
            session.run(train, {x: points, label: labels, keep: 0.9})
        points, labels = spirals(1000, 10_000)
        print(f"accuracy {session.run(accuracy, {x: points, label: labels}):.3f}")
        saver.save(session, str(HERE / "checkpoint" / "spirals"), step)


if __name__ == "__main__":
    main()
