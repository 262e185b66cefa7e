"""SdcaOptimizer: random orders, inputs that do not fit; op cases cover the arithmetic."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from graphmill.errors import InvalidArgumentError
from graphmill_plugins.kernels.training.sdca_optimizer import SdcaOptimizerKernel

ATTRS = {"l1": 0.0, "l2": 1.0, "num_loss_partitions": 1, "num_inner_iterations": 1}
NONE: list[Any] = []


def optimize(*inputs, **attrs):
    all_attrs = {**ATTRS, **attrs}
    construction: Any = SimpleNamespace(attrs=all_attrs, attr=all_attrs.__getitem__)
    return SdcaOptimizerKernel(construction)(None, *inputs)


def dense_inputs(features, labels, state, weights):
    count = len(labels)
    return (
        *(NONE, NONE, NONE, [features], np.ones(count, np.float32), labels),
        *(NONE, NONE, [weights], state),
    )


@pytest.mark.parametrize("adaptive", [False, True])
@pytest.mark.parametrize("loss", ["logistic_loss", "squared_loss", "hinge_loss"])
def test_repeated_passes_close_the_duality_gap(loss, adaptive):
    rng = np.random.default_rng(0)
    features = rng.normal(size=(12, 3)).astype(np.float32)
    labels = (features[:, 0] > 0).astype(np.float32)
    state, weights = np.zeros((12, 4), np.float32), np.zeros(3, np.float32)
    for _ in range(300):
        inputs = dense_inputs(features, labels, state, weights)
        state, _, (delta,) = optimize(*inputs, loss_type=loss, adaptive=adaptive)
        weights = weights + delta
    gap = state[:, 1].sum() + state[:, 2].sum() + (weights * weights).sum()
    assert abs(gap) < 1e-2


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"features": np.ones((1, 2), np.float32)}, "dense features have 1 rows for 2 examples"),
        ({"weights": np.ones(3, np.float32)}, "there are 3 weights for 2 dense features"),
    ],
)
def test_inputs_that_tensorflow_reads_out_of_bounds_are_refused(changed, message):
    inputs_by_name = {
        "features": np.ones((2, 2), np.float32),
        "labels": np.ones(2, np.float32),
        "state": np.zeros((2, 4), np.float32),
        "weights": np.ones(2, np.float32),
    }
    inputs = dense_inputs(**{**inputs_by_name, **changed})
    with pytest.raises(InvalidArgumentError, match=message):
        optimize(*inputs, loss_type="squared_loss", adaptive=False)


def test_sparse_values_that_are_too_few_are_refused(bind_kernel, ctx):
    zero, one = np.array([0, 0]), np.ones(1, np.float32)
    inputs = (
        *([zero], [np.array([4, 5])], [one], NONE, one, one),
        *([np.array([4, 5])], [np.ones(2, np.float32)], NONE, np.zeros((1, 4), np.float32)),
    )
    with pytest.raises(InvalidArgumentError, match="1 sparse feature values for 2"):
        optimize(*inputs, loss_type="squared_loss", adaptive=False)
