"""A value that is received from another device may be dead, so its branch is unknown."""

from __future__ import annotations

import numpy as np
import pytest

import graphmill
from graphmill import ops
from graphmill.ops import control_flow


def conditional_over_two_devices() -> graphmill.Graph:
    """Return a conditional whose false side takes x, which a Switch on CPU:1 sends.

    On CPU:0 the side is recognized by its constant: what it receives has no visible Switch.
    """
    graph = graphmill.Graph()
    with graph.as_default():
        with graph.device("/device:CPU:1"):
            x = graph.placeholder("float32", (), name="x")
        with graph.device("/device:CPU:0"):
            pred = ops.math.less(x, 0.0)
            false, _ = control_flow.switch(pred, pred)
        with graph.device("/device:CPU:1"):
            x_false, _ = control_flow.switch(x, pred)
        with graph.device("/device:CPU:0"):
            with graph.control_dependencies([ops.array.identity(false)]):
                one = graph.constant(np.float32(1.0))
            _, x_true = control_flow.switch(ops.math.neg(x), pred)
            sides = [(x_false + x_false) - one, ops.math.tanh(x_true)]
            control_flow.merge(sides, name="y")
    return graph


@pytest.mark.parametrize("mode", ["off", "tiered", "eager"])
def test_a_conditional_takes_a_side_whose_value_is_received(mode: str) -> None:
    config = {"device_count": {"CPU": 2}, "graphmill": {"jit": mode, "jit_min_cluster_size": 1}}
    with graphmill.Session(graph=conditional_over_two_devices(), config=config) as session:
        for _ in range(6):
            assert session.run("y:0", {"x:0": 2.0}) == 3.0
            assert session.run("y:0", {"x:0": -1.0}) == pytest.approx(np.tanh(1.0))
