"""Optimizers: the nodes they add, and that they reduce the loss."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import graphmill
from graphmill import errors, ops, train

if TYPE_CHECKING:
    from collections.abc import Callable

OPTIMIZERS: dict[str, Callable[[], train.Optimizer]] = {
    "GradientDescent": lambda: train.GradientDescentOptimizer(0.1),
    "Momentum": lambda: train.MomentumOptimizer(0.05, 0.5),
    "Nesterov": lambda: train.MomentumOptimizer(0.05, 0.5, use_nesterov=True),
    "Adagrad": lambda: train.AdagradOptimizer(0.5),
    "Adadelta": lambda: train.AdadeltaOptimizer(100.0),
    "RMSProp": lambda: train.RMSPropOptimizer(0.1),
    "centered RMSProp": lambda: train.RMSPropOptimizer(0.1, centered=True),
    "Ftrl": lambda: train.FtrlOptimizer(0.5),
    "Ftrl with shrinkage": lambda: train.FtrlOptimizer(
        0.5, l2_shrinkage_regularization_strength=0.01
    ),
    "Adam": lambda: train.AdamOptimizer(0.2),
}


@pytest.mark.parametrize("use_resource", [True, False])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_loss_falls(name: str, use_resource: bool) -> None:
    """The loss falls, for a variable read as a whole and for one with repeated row reads."""
    graph = graphmill.Graph()
    with graph.as_default():
        whole = graphmill.Variable([3.0, -2.0], name="whole", use_resource=use_resource)
        table = graphmill.Variable(
            np.array([[3, 1], [1, 2], [7, 7]], "f"), name="table", use_resource=use_resource
        )
        if use_resource:
            rows = ops.state.resource_gather(table.handle, [0, 1, 1], dtype="float32")
        else:
            rows = ops.array.gather_v2(table.handle, [0, 1, 1], 0)
        loss = ops.nn.l2_loss(rows) + ops.nn.l2_loss(whole)
        count = train.get_or_create_global_step()
        step = OPTIMIZERS[name]().minimize(loss, count)
        start = graphmill.global_variables_initializer()
    with graphmill.Session(graph=graph) as session:
        session.run(start)
        before = session.run(loss)
        for _ in range(20):
            session.run(step)
        assert session.run(loss) < 0.6 * before
        assert session.run(count) == 20
        if name != "Adam":  # whose moments move rows that were not read
            assert session.run(table)[2].tolist() == [7, 7]


def test_slots_have_the_names_of_tensorflow() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        v = graphmill.Variable([1.0], name="layer/v")
        adam = train.AdamOptimizer()
        adam.minimize(ops.nn.l2_loss(v))
    assert adam.get_slot_names() == ["m", "v"]
    assert [one.variable_name for one in adam.variables()] == [
        *("beta1_power", "beta2_power", "layer/v/Adam", "layer/v/Adam_1")
    ]
    slot = adam.get_slot(v, "m")
    assert slot is not None
    assert not slot.trainable


def test_a_learning_rate_may_be_fed() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        rate = graph.placeholder("float32", ())
        v = graphmill.Variable([1.0])
        step = train.GradientDescentOptimizer(rate).minimize(ops.nn.l2_loss(v))
    with graphmill.Session(graph=graph) as session:
        session.run(v.initializer)
        session.run(step, {rate: 0.25})
        assert session.run(v).tolist() == [0.75]


def test_gradients_may_be_changed_before_they_are_applied() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        v = graphmill.Variable([4.0])
        optimizer = train.GradientDescentOptimizer(1.0)
        pairs = optimizer.compute_gradients(ops.nn.l2_loss(v))
        clipped: Any = [
            (ops.math.clip_by_value(gradient, -1.0, 1.0), variable) for gradient, variable in pairs
        ]
        step = optimizer.apply_gradients(clipped)
    with graphmill.Session(graph=graph) as session:
        session.run(v.initializer)
        session.run(step)
        assert session.run(v).tolist() == [3]


def test_a_loss_without_variables_is_refused() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        graphmill.Variable([4.0], name="lonely")
        x = graph.placeholder("float32", (2,))
        with pytest.raises(errors.InvalidArgumentError, match=r"depends on none .* \(lonely\)"):
            train.GradientDescentOptimizer(1.0).minimize(ops.nn.l2_loss(x))


def test_moving_averages_follow_and_are_restored_by_name() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        v = graphmill.Variable([0.0], name="v")
        averages = train.ExponentialMovingAverage(0.5)
        update = averages.apply([v])
        average = averages.average(v)
        changed = v.assign([8.0])
        start = graphmill.global_variables_initializer()
    assert average is not None
    assert list(averages.variables_to_restore([v])) == ["v/ExponentialMovingAverage"]
    with graphmill.Session(graph=graph) as session:
        session.run(start)
        session.run(changed)
        session.run(update)
        assert session.run(average).tolist() == [4]


@pytest.mark.parametrize(("zero_debias", "values"), [(False, [1.0, 2.5]), (True, [2.0, 10 / 3])])
def test_averages_of_tensors_begin_at_zero(zero_debias: bool, values: list[float]) -> None:
    with graphmill.Graph().as_default() as graph, graphmill.Session() as session:
        x = graph.placeholder("float32", [], name="x")
        averages = train.ExponentialMovingAverage(0.5, None, zero_debias)
        update = averages.apply([x])
        average = averages.average(x)
        assert average is not None
        assert average.variable_name == "x/ExponentialMovingAverage"
        session.run(graphmill.global_variables_initializer())
        for fed, expected in zip([2.0, 4.0], values, strict=True):
            session.run(update, {x: fed})
            assert session.run(average) == pytest.approx(expected)


def test_average_of_a_tensor_of_unknown_shape_is_refused() -> None:
    with graphmill.Graph().as_default() as graph:
        x = graph.placeholder("float32", [None], name="x")
        with pytest.raises(errors.InvalidArgumentError, match="needs a tensor of known shape"):
            train.ExponentialMovingAverage(0.5).apply([x])


def test_name_as_third_argument_of_an_average_is_taken_with_a_warning() -> None:
    old: Any = "mean"
    with pytest.warns(DeprecationWarning, match="'name'"):
        assert train.ExponentialMovingAverage(0.5, None, old).name == "mean"


def test_ftrl_names_its_slots_and_adds_beta_to_the_penalty() -> None:
    results = []
    for options in ({"beta": 0.5}, {"l2_regularization_strength": 0.5 / (2 * 0.25)}):
        with graphmill.Graph().as_default() as graph, graphmill.Session() as session:
            w = graphmill.Variable(3.0, name="w")
            optimizer = train.FtrlOptimizer(0.25, accum_name="sums", linear_name="line", **options)
            step = optimizer.minimize(w * w)
            session.run(graphmill.global_variables_initializer())
            session.run(step)
            results.append(float(session.run(w)))
        assert {variable.variable_name for variable in graph.variables} == {
            *("w", "w/sums", "w/line")
        }
    assert results[0] == results[1]


def test_beta_of_ftrl_follows_a_fed_learning_rate() -> None:
    with graphmill.Graph().as_default() as graph, graphmill.Session() as session:
        rate = graph.placeholder("float32", ())
        w, same = graphmill.Variable(3.0), graphmill.Variable(3.0)
        step = train.FtrlOptimizer(rate, beta=0.5).minimize(w * w, var_list=[w])
        fixed = train.FtrlOptimizer(0.25, beta=0.5).minimize(same * same, var_list=[same])
        session.run(graphmill.global_variables_initializer())
        session.run([step, fixed], {rate: 0.25})
        assert session.run(w) == session.run(same) != 3


def test_shrinkage_as_eighth_argument_of_ftrl_is_taken_with_a_warning() -> None:
    old_order: Any = (0.1, -0.5, 0.1, 0.0, 0.0, False, "Ftrl", 0.2)
    with pytest.warns(DeprecationWarning, match="eighth argument of FtrlOptimizer"):
        assert train.FtrlOptimizer(*old_order).update_op == "FtrlV2"


def test_averages_of_no_variables_have_nothing_to_update() -> None:
    with graphmill.Graph().as_default(), graphmill.Session() as session:
        update = train.ExponentialMovingAverage(0.5).apply()
        assert update.op == "NoOp"
        assert session.run(update) is None
