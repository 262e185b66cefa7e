"""Random training programs take TensorFlow's steps, also from a checkpoint in the middle.

`GRAPHMILL_TRAINING_PROGRAMS=1000` compares 1,000 programs, `GRAPHMILL_TRAINING_PROGRAMS=700:800`
those of the seeds 700 to 799.
"""

from __future__ import annotations

import os

import numpy as np
import pytest
from tests.oracle.modes import configs
from tests.oracle.saved.generators.training_programs import training_program

import graphmill
from graphmill.testing.oracle.tensorflow_oracle import session_config

pytestmark = pytest.mark.oracle


def seeds() -> range:
    first, _, end = os.environ.get("GRAPHMILL_TRAINING_PROGRAMS", "30").rpartition(":")
    return range(int(first or 0), int(end))


@pytest.mark.parametrize("seed", seeds())
def test_training_takes_tensorflows_steps(seed, tf, tmp_path):
    compare(tf, seed, str(tmp_path))


def trained(session, program, feeds):
    """Take the steps; return the loss before each, and all variables after the last."""
    losses = []
    for feed in feeds:
        losses.append(session.run(program.loss, feed))
        session.run(program.step, feed)
    return [np.asarray(losses), *session.run(program.variables)]


def compare(tf, seed, folder):
    """Train, save, continue; then restore the other's checkpoint and continue again."""
    program = training_program(tf, seed)
    half = len(program.feeds) // 2
    first, second = program.feeds[:half], program.feeds[half:]
    saver = program.saver
    theirs, ours = ({saver.filename_tensor_name: f"{folder}/{one}"} for one in ("theirs", "ours"))
    with tf.compat.v1.Session(graph=program.graph, config=session_config()) as session:
        session.run(program.start)
        expected = trained(session, program, first)
        session.run(saver.save_tensor_name, theirs)
        expected += trained(session, program, second)
    message = program.graph.as_graph_def().SerializeToString()
    for mode, config in configs(seed).items():
        with graphmill.Session(graph=message, config=config) as session:
            session.run(program.start)
            found = trained(session, program, first)
            session.run(saver.save_tensor_name, ours)
            same(found + trained(session, program, second), expected, mode)
            session.run(saver.restore_op_name, theirs)
            same(found + trained(session, program, second), expected, f"{mode}, restored theirs")
            session.run(saver.restore_op_name, ours)
            same(found + trained(session, program, second), expected, f"{mode}, restored ours")
    with tf.compat.v1.Session(graph=program.graph, config=session_config()) as session:
        session.run(saver.restore_op_name, ours)
        same(found + trained(session, program, second), expected, "TensorFlow restored ours")


def same(found, expected, where):
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, 2e-3, 2e-4, err_msg=where)
