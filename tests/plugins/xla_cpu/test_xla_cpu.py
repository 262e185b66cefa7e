"""JAX's CPU devices in sessions (clause R3), in a process with several of them."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.jax

SCRIPT = """
import numpy as np
import graphmill
from graphmill import errors, ops

count = {"device_count": {"CPU": 1, "XLA_CPU": 3}}
graph = graphmill.Graph()
with graph.as_default():
    x = graph.placeholder("float64", [2], name="x")
    with graph.device("/device:XLA_CPU:1"):
        v = ops.state.variable_v2(shape=[2], dtype="float64", name="v")
        init = ops.state.assign(v, x, name="init")
        one = ops.math.add_v2(x, v, name="one")
    with graph.device("/device:XLA_CPU:2"):
        two = ops.math.mul(one, ops.math.cast(ops.array.size(one), DstT="float64"), name="two")
        text = ops.string.as_string(two, name="text")
    with graph.device("/cpu:0"):
        three = ops.math.neg(two, name="three")
with graphmill.Session(graph=graph, config=count) as session:
    names = [device.name.rpartition("/device:")[2] for device in session.list_devices()]
    assert names == ["CPU:0", "XLA_CPU:0", "XLA_CPU:1", "XLA_CPU:2"], names
    session.run("init:0", {"x:0": [1, 2]})
    one, two, three = session.run([one, two, three], {"x:0": [10, 1e-300]})
    assert one.dtype == np.float64 and type(one) is np.ndarray
    np.testing.assert_array_equal(one, [11, 2])
    np.testing.assert_array_equal(two, [22, 4])
    np.testing.assert_array_equal(three, [-22, -4])
    assert session.run(text, {"x:0": [0, 0]}).tolist() == [b"2.000000", b"4.000000"]
    one = session._impl.devices.matching("/device:XLA_CPU:1")[0]
    assert one.to_device(np.float32(1)).devices() == {one.jax_device}
    one.sync()

import jax

assert not jax.config.jax_enable_x64
try:
    graphmill.Session(config={"device_count": {"XLA_CPU": 4}})
except errors.InvalidArgumentError as error:
    assert "xla_force_host_platform_device_count=4" in str(error)
else:
    raise AssertionError("a fourth device was given")
"""


def test_a_step_runs_on_several_jax_devices_r3() -> None:
    environment = {
        **os.environ,
        "XLA_FLAGS": "--xla_force_host_platform_device_count=3",
        "JAX_PLATFORMS": "cpu",
    }
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_unrequested_device_does_not_import_jax_r3() -> None:
    script = (
        "import sys, graphmill; s = graphmill.Session(); "
        "assert [d.device_type for d in s.list_devices()] == ['CPU']; "
        "assert 'jax' not in sys.modules"
    )
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
