"""The gradients of BlockLSTM and BlockLSTMV2 match finite differences."""

from __future__ import annotations

import numpy as np
import pytest

import graphmill
from graphmill.ops import math, nn

pytestmark = pytest.mark.divided

SHAPES = {
    "x": (4, 2, 3), "cs_prev": (2, 5), "h_prev": (2, 5), "w": (8, 20),
    "wci": (5,), "wcf": (5,), "wco": (5,), "b": (20,),
}  # fmt: skip
STEP = 1e-2


@pytest.mark.parametrize("peephole", [True, False])
@pytest.mark.parametrize("build", [nn.block_lstm, nn.block_lstmv2])
def test_all_gradients_match_finite_differences(build, peephole):
    rng = np.random.default_rng(5)
    values = {name: rng.standard_normal(size) * 0.5 for name, size in SHAPES.items()}
    graph = graphmill.Graph()
    with graph.as_default():
        xs = {name: graph.placeholder("float32", size, name=name) for name, size in SHAPES.items()}
        steps = graph.constant(4, "int64")
        made = build(steps, *xs.values(), use_peephole=peephole, cell_clip=0.0)
        y = math.sum(made.cs * made.cs, [0, 1, 2]) + math.sum(made.h * 3.0, [0, 1, 2])
        found = graphmill.gradients(y, list(xs.values()))
    with graphmill.Session(graph=graph) as session:
        for name, gradient in zip(xs, found, strict=True):
            direction = rng.standard_normal(SHAPES[name])
            ends = []
            for sign in (STEP, -STEP):
                moved = {**values, name: values[name] + sign * direction}
                ends.append(session.run(y, {f"{key}:0": one for key, one in moved.items()}))
            slope = (ends[0] - ends[1]) / (2 * STEP)
            grads = session.run(gradient, {f"{key}:0": one for key, one in values.items()})
            np.testing.assert_allclose(slope, (grads * direction).sum(), 2e-2, 2e-2, err_msg=name)
