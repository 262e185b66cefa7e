"""Train an LSTM over sequences of any length, built from TensorFlow 1's loops; export its loop.

    python examples/lstm/train.py

The task: the sum of the two numbers of a sequence that are marked. The loop is `while_loop`, which
builds Switch, Merge, Enter, Exit and NextIteration. Its gradient is a second loop. At the end the
trained loop is exported to a JAX function, whose own gradient is compared with graphmill's.
"""

from __future__ import annotations

import numpy as np

import graphmill
from graphmill import functions as F
from graphmill import ops

UNITS = 16
LENGTH = 6


def sequences(count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return sequences of (number, mark), float32 `[LENGTH, count, 2]`, and the sums `[count]`."""
    numbers = rng.uniform(0, 1, (LENGTH, count))
    marks = np.zeros((LENGTH, count))
    for column in range(count):
        marks[rng.choice(LENGTH, 2, replace=False), column] = 1
    return np.stack([numbers, marks], 2).astype(np.float32), (numbers * marks).sum(0, np.float32)


class Lstm:
    """An LSTM layer and a linear output; inputs are time-major, `[time, batch, 2]`."""

    def __init__(self, rng: np.random.Generator) -> None:
        kernel = rng.normal(0, 0.3, (2 + UNITS, 4 * UNITS)).astype(np.float32)
        bias = np.zeros(4 * UNITS, np.float32)
        bias[2 * UNITS : 3 * UNITS] = 1  # the forget gate is open at first
        self.kernel = graphmill.Variable(kernel, name="lstm/kernel")
        self.bias = graphmill.Variable(bias, name="lstm/bias")
        weights = rng.normal(0, 0.3, (UNITS, 1)).astype(np.float32)
        self.out = graphmill.Variable(weights, name="out/kernel")

    def __call__(self, x: graphmill.Tensor) -> graphmill.Tensor:
        """Return a number for each sequence."""
        zeros = F.zeros(F.stack([F.shape(x)[1], UNITS]), "float32")
        length = F.shape(x)[0]

        def body(t: graphmill.Tensor, c: graphmill.Tensor, h: graphmill.Tensor) -> tuple:
            joined = F.concat([F.gather(x, t), h], 1)
            i, j, f, o = F.split(F.matmul(joined, self.kernel) + self.bias, 4, 1)
            c = ops.math.sigmoid(f) * c + ops.math.sigmoid(i) * ops.math.tanh(j)
            return t + 1, c, ops.math.sigmoid(o) * ops.math.tanh(c)

        _, _, h = graphmill.while_loop(lambda t, *_: t < length, body, [0, zeros, zeros])
        return F.squeeze(F.matmul(h, self.out), [1])


def train(steps: int = 400) -> tuple[float, float]:
    """Train; return the mean squared error on new sequences, and the difference of gradients."""
    rng = np.random.default_rng(3)
    graph = graphmill.Graph()
    with graph.as_default():
        x = F.placeholder("float32", [None, None, 2], name="x")
        y = F.placeholder("float32", [None], name="y")
        network = Lstm(rng)
        answer = network(x)
        loss = F.reduce_mean(ops.math.square(answer - y))
        step = graphmill.train.AdamOptimizer(0.02).minimize(loss)
        (gradient,) = graphmill.gradients(loss, [network.kernel])
        start = graphmill.global_variables_initializer()
    with graphmill.Session(graph=graph) as session:
        session.run(start)
        for _ in range(steps):
            inputs, sums = sequences(32, rng)
            session.run(step, {x: inputs, y: sums})
        inputs, sums = sequences(64, rng)
        error, expected = session.run([loss, gradient], {x: inputs, y: sums})
        difference = np.abs(jax_gradient(session, x, y, loss, inputs, sums) - expected).max()
    return float(error), float(difference)


def jax_gradient(
    session: graphmill.Session,
    x: graphmill.Tensor,
    y: graphmill.Tensor,
    loss: graphmill.Tensor,
    inputs: np.ndarray,
    sums: np.ndarray,
) -> np.ndarray:
    """Export the loss to JAX, and return JAX's gradient with respect to the LSTM's kernel."""
    import jax

    function = graphmill.export.convert(
        session, "jax", {"x": x, "y": y}, {"loss": loss}, max_iterations=LENGTH
    )
    with jax.enable_x64(True):
        feeds = {"x": inputs, "y": sums}
        gradients = jax.grad(lambda params: function(params, feeds)["loss"])(function.params)
    return np.asarray(gradients["lstm/kernel"])


if __name__ == "__main__":
    error, difference = train()
    print(f"mean squared error {error:.4f}; JAX's gradient differs by at most {difference:.1e}")
