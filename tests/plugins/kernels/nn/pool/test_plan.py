"""Pooling plans compute the shapes that all backends share."""

from __future__ import annotations

import numpy as np
import pytest

from graphmill import errors
from graphmill_plugins.kernels.nn.pool import ops
from graphmill_plugins.kernels.nn.pool.ops import pool_kernels
from graphmill_plugins.kernels.nn.pool.plan import pool_windows


def test_pool_plan_is_channels_last_for_every_format():
    last = pool_windows("MaxPool", (1, 3, 3, 1), (1, 2, 2, 1), "SAME", "NHWC").plan((2, 8, 9, 5))
    first = pool_windows("MaxPool", (1, 1, 3, 3), (1, 1, 2, 2), "SAME", "NCHW").plan((2, 5, 8, 9))
    assert last == first
    assert (last.shape, last.out, last.cut) == ((2, 8, 9, 5), (2, 4, 5, 5), None)


def test_strided_3d_windows_start_at_the_center():
    placed = pool_windows("AvgPool3D", (1, 2, 2, 2, 1), (1, 5, 5, 5, 1), "SAME", "NDHWC", rank=5)
    plan = placed.plan((1, 10, 10, 10, 3))
    assert plan.cut == (slice(None), *(slice(1, None),) * 3)
    assert (plan.shape, plan.out) == ((1, 9, 9, 9, 3), (1, 2, 2, 2, 3))


def test_gradient_plan_refuses_outputs_of_another_shape():
    placed = pool_windows("MaxPoolGrad", (1, 1, 3, 3), (1, 1, 2, 2), "SAME", "NCHW")
    assert placed.gradient_plan((2, 5, 8, 9), (2, 5, 4, 5)).out == (2, 4, 5, 5)
    with pytest.raises(errors.InvalidArgumentError, match=r"MaxPoolGrad: .*got \[2, 4, 4, 5\]"):
        placed.gradient_plan((2, 5, 8, 9), (2, 5, 4, 5), (2, 5, 4, 4))


def test_kernel_with_sizes_as_inputs_places_each_of_them_once(monkeypatch):
    placed = []

    def windows(*args):
        placed.append(args[1:3])
        return pool_windows(*args)

    monkeypatch.setattr(ops, "pool_windows", windows)
    kernels = pool_kernels("numpy", np, maximum=lambda x, plan: plan, mean=max)
    (v2,) = (made for made in kernels if made.ops == ("MaxPoolV2",))
    run = v2.function(padding="SAME", data_format="NHWC")
    x, ones = np.zeros((1, 8, 8, 3)), np.array([1, 1, 1, 1])
    assert run(x, ones * [1, 3, 3, 1], ones) is run(x, ones * [1, 3, 3, 1], ones)
    assert run(x, ones, ones * [1, 2, 2, 1]).out == (1, 4, 4, 3)
    assert placed == [((1, 3, 3, 1), (1, 1, 1, 1)), ((1, 1, 1, 1), (1, 2, 2, 1))]
