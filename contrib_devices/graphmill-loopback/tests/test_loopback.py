"""The device passes the conformance suites, runs on request, and is nearly as fast as the CPU."""

from __future__ import annotations

import time

import numpy as np

import graphmill
from graphmill.ops import math, nn
from graphmill.testing.conformance import DeviceTests, KernelTests, TierTests

DEVICE = "/device:LOOPBACK:0"


class TestLoopback(DeviceTests):
    device = DEVICE


class TestLoopbackKernels(KernelTests):
    device = DEVICE


class TestLoopbackTiers(TierTests):
    device = DEVICE


def test_it_is_found_by_its_entry_point() -> None:
    host = graphmill.default_host()
    owner = host.devices.provenance("LOOPBACK")
    assert (owner.distribution, owner.plugin) == ("graphmill-loopback", "loopback")


def chain(device: str) -> graphmill.Graph:
    graph = graphmill.Graph()
    with graph.as_default(), graph.device(device):
        x = graph.placeholder("float32", [64, 64], name="x")
        y = x
        for _ in range(40):
            y = nn.relu(math.mat_mul(y, x) * 0.01 + x)
        math.sum(y, [0, 1], name="y")
    return graph


def test_it_keeps_up_with_the_cpu() -> None:
    """At least 0.8 times the CPU's speed; alternating runs expose both to the same load."""
    config = graphmill.ConfigProto(device_count={"LOOPBACK": 1})
    if "graphmill" in config.DESCRIPTOR.fields_by_name:
        config.graphmill.jit = "off"  # only the CPU's nodes would be compiled; interpret both
    x = np.random.default_rng(1).normal(size=(64, 64)).astype(np.float32)
    sessions = [
        graphmill.Session(graph=chain(name), config=config) for name in (DEVICE, "/device:CPU:0")
    ]
    calls = [session.make_callable("y:0", ["x:0"]) for session in sessions]
    results = [call(x) for call in calls]
    best = [1e9, 1e9]
    for _ in range(60):
        for index, call in enumerate(calls):
            started = time.perf_counter()
            call(x)
            best[index] = min(best[index], time.perf_counter() - started)
    for session in sessions:
        session.close()
    np.testing.assert_allclose(*results)
    assert best[1] / best[0] >= 0.8, f"{best[1] / best[0]:.2f} of the CPU's speed"
