"""Gradients of tensor arrays that only one branch of a conditional creates are kept."""

from __future__ import annotations

import numpy as np
import pytest

import graphmill
from graphmill import ops
from graphmill.testing.differential.compiled_graphs import jit_config

data = ops.tensor_array


@pytest.mark.parametrize("mode", ["off", "deterministic", "eager"])
def test_gradients_that_one_branch_creates_are_kept(mode: str) -> None:
    with graphmill.Graph().as_default() as graph:
        x = graph.placeholder("float32", [2, 2], name="x")
        handle, flow = data.tensor_array_v3(2, dtype="float32", element_shape=[2])
        flow = data.tensor_array_scatter_v3(handle, [0, 1], x, flow)
        chosen = graph.placeholder("bool", [], name="chosen")
        value = graphmill.cond(
            chosen,
            lambda: data.tensor_array_read_v3(handle, 1, flow, dtype="float32"),
            lambda: graph.constant([5.0, 5.0]),
        )
        (gradient,) = graphmill.gradients([value * 3.0], [x])
        with graphmill.Session("", graph, jit_config(mode)) as session:
            feeds = {x: np.ones((2, 2), np.float32), chosen: True}
            for _ in range(2):
                assert session.run(gradient, feeds).tolist() == [[0, 0], [3, 3]]
                assert session.run(gradient, feeds | {chosen: False}).tolist() == [[0, 0], [0, 0]]
