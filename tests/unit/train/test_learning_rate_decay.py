"""Learning rates at some steps, and bad arguments of the decays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import graphmill
from graphmill import errors, train

if TYPE_CHECKING:
    from collections.abc import Callable


def rates(decay: Callable[[Any], Any], steps: list[int]) -> list[float]:
    graph = graphmill.Graph()
    with graph.as_default():
        step = graph.placeholder("int64", [])
        rate = decay(step)
    with graphmill.Session(graph=graph) as session:
        return [float(session.run(rate, {step: value})) for value in steps]


@pytest.mark.parametrize(
    ("decay", "expected"),
    [
        (lambda s: train.exponential_decay(1.0, s, 10, 0.5), [1, 0.5**0.5, 0.5, 0.25]),
        (lambda s: train.exponential_decay(1.0, s, 10, 0.5, staircase=True), [1, 1, 0.5, 0.25]),
        (lambda s: train.natural_exp_decay(1.0, s, 10, 1.0), np.exp([0, -0.5, -1, -2])),
        (lambda s: train.inverse_time_decay(1.0, s, 10, 1.0), [1, 1 / 1.5, 1 / 2, 1 / 3]),
        (lambda s: train.polynomial_decay(1.0, s, 10, 0.0), [1, 0.5, 0, 0]),
        (lambda s: train.polynomial_decay(1.0, s, 10, 0.0, cycle=True), [1, 0.5, 0, 0]),
        (lambda s: train.piecewise_constant(s, [5, 10], [1.0, 2.0, 3.0]), [1, 1, 2, 3]),
        (lambda s: train.cosine_decay(1.0, s, 10, 0.2), [1, 0.6, 0.2, 0.2]),
        (lambda s: train.cosine_decay_restarts(1.0, s, 10, m_mul=0.5), [1, 0.5, 0.5, 0.25]),
        (lambda s: train.linear_cosine_decay(1.0, s, 10, beta=0.0), [1, 0.25, 0, 0]),
    ],
)
def test_decays_have_tensorflows_values(decay: Any, expected: Any) -> None:
    np.testing.assert_allclose(rates(decay, [0, 5, 10, 20]), expected, rtol=1e-5, atol=1e-6)


def test_noisy_decay_with_a_seed_and_no_variance_is_the_linear_one() -> None:
    noisy = rates(lambda s: train.noisy_linear_cosine_decay(1.0, s, 10, 0.0), [0, 5])
    np.testing.assert_allclose(
        noisy, rates(lambda s: train.linear_cosine_decay(1.0, s, 10), [0, 5])
    )


def test_decay_has_the_type_of_the_learning_rate() -> None:
    with graphmill.Graph().as_default():
        rate = train.exponential_decay(np.float64(0.1), 3, 10, 0.5)
    assert rate.dtype is graphmill.float64


def test_piecewise_constant_refuses_lists_that_do_not_fit() -> None:
    with graphmill.Graph().as_default():
        with pytest.raises(errors.InvalidArgumentError, match="1 less than the length"):
            train.piecewise_constant(1, [1, 2], [0.1, 0.2])
        with pytest.raises(errors.InvalidArgumentError, match="same dtype as x"):
            train.piecewise_constant(1, [1.5], [0.1, 0.2])


def test_optimizer_follows_the_decay() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        steps = train.get_or_create_global_step()
        weight = graphmill.Variable(0.0)
        rate = train.exponential_decay(1.0, steps, 1, 0.5)
        step = train.GradientDescentOptimizer(rate).minimize(weight * 1.0, steps)
        start = graphmill.global_variables_initializer()
    with graphmill.Session(graph=graph) as session:
        session.run(start)
        for _ in range(3):
            session.run(step)
        assert session.run(weight) == -1.75
