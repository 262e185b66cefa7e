"""Convolution plans compute the shapes that all backends share."""

from __future__ import annotations

import numpy as np
import pytest

from graphmill import errors
from graphmill_plugins.kernels.nn.conv import ops
from graphmill_plugins.kernels.nn.conv.ops import conv_gradient_kernels, conv_kernels
from graphmill_plugins.kernels.nn.conv.plan import convolution_plan, input_gradient_plan
from graphmill_plugins.kernels.nn.window import make_windows

ATTRS = {"strides": (1, 2, 2, 1), "padding": "SAME", "dilations": (1,) * 4, "data_format": "NHWC"}


def same_windows(data_format: str = "NHWC"):
    return make_windows("Conv2D", strides=(1,) * 4, padding="SAME", data_format=data_format)


def test_convolution_plan_is_channels_last_for_every_format():
    last = convolution_plan(same_windows(), (2, 8, 9, 6), (3, 3, 3, 4))
    first = convolution_plan(same_windows("NCHW"), (2, 6, 8, 9), (3, 3, 3, 4))
    assert last == first
    assert (last.shape, last.out, last.groups) == ((2, 8, 9, 6), (2, 8, 9, 4), 2)


def test_input_gradient_plan_completes_spatial_sizes():
    whole = input_gradient_plan(same_windows(), (2, 8, 9, 3), (3, 3, 3, 4), (2, 8, 9, 4))
    assert input_gradient_plan(same_windows(), (8, 9), (3, 3, 3, 4), (2, 8, 9, 4)) == whole


def test_input_gradient_plan_refuses_another_gradient():
    with pytest.raises(errors.InvalidArgumentError, match=r"actual = \[2, 8, 8, 4\]"):
        input_gradient_plan(same_windows(), (8, 9), (3, 3, 3, 4), (2, 8, 8, 4))


def test_kernel_plans_each_shape_once(monkeypatch):
    planned = []

    def plan(windows, *shapes):
        planned.append(shapes)
        return convolution_plan(windows, *shapes)

    monkeypatch.setattr(ops, "convolution_plan", plan)
    kernels = conv_kernels("numpy", np, convolve=lambda x, kernel, plan: plan, depthwise=max)
    run = kernels[0].function(**ATTRS)
    x, weights = np.zeros((1, 8, 8, 3)), np.zeros((3, 3, 3, 4))
    assert run(x, weights) is run(x, weights)
    assert run(x[:, :6], weights).out == (1, 3, 4, 4)
    assert planned == [((1, 8, 8, 3), (3, 3, 3, 4)), ((1, 6, 8, 3), (3, 3, 3, 4))]


def test_backend_may_take_fewer_types_of_one_op():
    only = {"Conv2DBackpropInput": (np.float32,)}
    work = dict.fromkeys(
        ("of_input", "of_filter", "of_depthwise_input", "of_depthwise_filter"), max
    )
    types = {k.ops[0]: k.types["T"] for k in conv_gradient_kernels("x", np, **work, types=only)}
    assert types["Conv2DBackpropInput"] == (np.float32,)
    assert types["Conv2DBackpropFilter"] == ops.CONV_TYPES
