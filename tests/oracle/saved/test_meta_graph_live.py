"""Training goes on from TensorFlow's MetaGraph and checkpoint with the same losses, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import graphmill
from graphmill import train

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.oracle

STEPS = 8


def start_training(tf: Any, folder: Path) -> str:
    """Train a few steps from queues in TensorFlow; return the checkpoint."""
    v1 = tf.compat.v1
    random = np.random.default_rng(0)
    features = random.normal(size=(64, 3)).astype(np.float32)
    labels = features @ np.array([[1], [-2], [0.5]], np.float32)
    with tf.Graph().as_default(), v1.Session() as session:
        row = v1.train.slice_input_producer(
            [tf.constant(features), tf.constant(labels)], shuffle=False
        )
        x, y = v1.train.batch(row, batch_size=8)
        step = v1.train.get_or_create_global_step()
        w = v1.get_variable("w", [3, 1], use_resource=False)
        b = v1.get_variable("b", [1], use_resource=True)
        loss = tf.reduce_mean(tf.square(tf.matmul(x, w) + b - y), name="loss")
        rate = v1.train.exponential_decay(0.05, step, 10, 0.9)
        v1.train.AdamOptimizer(rate).minimize(loss, step)  # adds itself to "train_op"
        v1.add_to_collection("losses", loss)
        session.run(v1.global_variables_initializer())
        coordinator = v1.train.Coordinator()
        threads = v1.train.start_queue_runners(session, coordinator)
        for _ in range(STEPS):
            session.run(v1.get_collection("train_op"))
        path: str = v1.train.Saver().save(session, str(folder / "theirs"), step)
        coordinator.request_stop()
        coordinator.join(threads)
    return path


def continued(graph: Any, session: Any, saver: Any, api: Any, start: str, end: str) -> list[Any]:
    """Go on from checkpoint `start`, save `end`, and return the losses."""
    (loss,), (step,) = graph.get_collection("losses"), graph.get_collection("train_op")
    saver.restore(session, start)
    coordinator = api.Coordinator()
    threads = api.start_queue_runners(session, coordinator)
    losses = [session.run([loss, step])[0] for _ in range(STEPS)]
    saver.save(session, end)
    coordinator.request_stop()
    coordinator.join(threads)
    return losses


def ours(start: str, end: str) -> list[Any]:
    graph = graphmill.Graph()
    saver = train.import_meta_graph(f"{start}.meta", graph=graph)
    with graphmill.Session(graph=graph) as session:
        return continued(graph, session, saver, train, start, end)


def theirs(tf: Any, start: str, end: str) -> list[Any]:
    v1 = tf.compat.v1
    with tf.Graph().as_default() as graph, v1.Session() as session:
        saver = v1.train.import_meta_graph(f"{start}.meta")
        return continued(graph, session, saver, v1.train, start, end)


def test_training_continues_with_the_same_losses_in_both_directions(
    tf: Any, tmp_path: Path
) -> None:
    start = start_training(tf, tmp_path)
    first, ours_end, theirs_end = (str(tmp_path / name) for name in ("x", "ours", "theirs-2"))
    np.testing.assert_allclose(
        ours(start, ours_end), theirs(tf, start, theirs_end), rtol=1e-4, atol=1e-6
    )
    np.testing.assert_allclose(
        theirs(tf, ours_end, first), ours(theirs_end, first), rtol=1e-3, atol=1e-5
    )
