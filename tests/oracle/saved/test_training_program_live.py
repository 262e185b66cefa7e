"""A whole training program gives the same losses with TensorFlow and graphmill.

One program is written once and called with both: a shuffled dataset, seeded initial values, a loss,
a learning rate that decays, clipped gradients, an optimizer. Then checkpoints go from one to the
other in the middle of training, with the same losses afterwards.
"""

from __future__ import annotations

import types

import numpy as np
import pytest

import graphmill

pytestmark = pytest.mark.oracle
tf = pytest.importorskip("tensorflow")

RANDOM = np.random.default_rng(3)
ROWS = RANDOM.standard_normal((40, 6)).astype(np.float32)
LABELS = RANDOM.integers(0, 3, 40)
OPTIMIZERS = ("AdamOptimizer", "MomentumOptimizer", "RMSPropOptimizer", "AdagradOptimizer")


def tensorflow():
    v1 = tf.compat.v1
    return types.SimpleNamespace(
        graph=tf.Graph,
        Session=lambda graph: v1.Session(graph=graph),
        set_random_seed=v1.set_random_seed,
        Dataset=tf.data.Dataset,
        iterator=v1.data.make_one_shot_iterator,
        Variable=lambda value, name: v1.Variable(value, name=name, use_resource=True),
        initializers=v1.initializers,
        F=types.SimpleNamespace(
            matmul=tf.matmul, dropout=v1.nn.dropout, cast=tf.cast, reduce_mean=tf.reduce_mean
        ),
        relu=tf.nn.relu,
        l2_loss=tf.nn.l2_loss,
        losses=v1.losses,
        train=v1.train,
        clip=tf.clip_by_global_norm,
        initialize=v1.global_variables_initializer,
    )


def ours():
    return types.SimpleNamespace(
        graph=graphmill.Graph,
        Session=lambda graph: graphmill.Session(graph=graph),
        set_random_seed=graphmill.set_random_seed,
        Dataset=graphmill.data.Dataset,
        iterator=graphmill.data.make_one_shot_iterator,
        Variable=lambda value, name: graphmill.Variable(value, name=name),
        initializers=graphmill.initializers,
        F=graphmill.functions,
        relu=graphmill.ops.nn.relu,
        l2_loss=graphmill.ops.nn.l2_loss,
        losses=graphmill.losses,
        train=graphmill.train,
        clip=graphmill.train.clip_by_global_norm,
        initialize=graphmill.global_variables_initializer,
    )


class Program:
    """The training program, with the modules of one of the two systems."""

    def __init__(self, m, optimizer, drops=True):
        self.graph = m.graph()
        self.session = m.Session(self.graph)
        with self.graph.as_default():
            m.set_random_seed(5)
            rows = m.Dataset.from_tensor_slices((ROWS, LABELS)).shuffle(40, seed=1).repeat()
            x, y = m.iterator(rows.batch(8)).get_next()
            w1 = m.Variable(m.initializers.glorot_uniform()([6, 10]), "w1")
            w2 = m.Variable(m.initializers.he_normal(seed=2)([10, 3]), "w2")
            bias = m.Variable(m.initializers.zeros()([3]), "bias")
            hidden = m.relu(m.F.matmul(x, w1))
            if drops:
                hidden = m.F.dropout(hidden, rate=0.25)
            m.losses.sparse_softmax_cross_entropy(y, m.F.matmul(hidden, w2) + bias)
            m.losses.add_loss(1e-3 * m.l2_loss(w1), "regularization_losses")
            self.loss = m.losses.get_total_loss()
            steps = m.train.get_or_create_global_step()
            rate = m.train.exponential_decay(0.1, steps, 5, 0.8, staircase=True)
            args = (rate, 0.9) if optimizer == "MomentumOptimizer" else (rate,)
            chosen = getattr(m.train, optimizer)(*args)
            gradients, variables = zip(*chosen.compute_gradients(self.loss), strict=True)
            clipped, _ = m.clip(gradients, 0.5)
            self.step = chosen.apply_gradients(zip(clipped, variables, strict=True), steps)
            self.saver = m.train.Saver()
            self.session.run(m.initialize())

    def run(self, count):
        return [self.session.run([self.loss, self.step])[0] for _ in range(count)]


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_losses_of_equal_programs_are_equal(optimizer):
    expected = Program(tensorflow(), optimizer).run(25)
    actual = Program(ours(), optimizer).run(25)
    np.testing.assert_allclose(actual, expected, rtol=2e-4)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_training_continues_from_a_checkpoint_of_the_other_system(optimizer, tmp_path):
    """Ten steps in one system, ten in the other and ten in the first equal 30 steps in one."""
    expected = Program(tensorflow(), optimizer, drops=False).run(30)
    programs = [Program(make(), optimizer, drops=False) for make in (ours, tensorflow)]
    losses, path = [], None
    for turn in range(3):
        program = programs[turn % 2]
        with program.graph.as_default():
            if path is not None:
                program.run(10)  # so that it reads the same batches as the other one
                program.saver.restore(program.session, path)
            losses += program.run(10)
            path = program.saver.save(program.session, str(tmp_path / f"model{turn}"))
    np.testing.assert_allclose(losses, expected, rtol=2e-4)
