"""Installed but unused plugins cost next to nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

import graphmill
from graphmill.plugin.markers import hookimpl
from graphmill.runtime.devices.device import DeviceFactory
from graphmill.runtime.kernels.kernel_registry import KernelRegistry

BENCH = Path(__file__).parents[2] / "bench"


def test_fifty_installed_plugins_cost_little_more_than_their_import() -> None:
    """Fifty installed plugins cost little more processor time than their import.

    The yardstick is what `importlib` takes to find and import them, some 30 ms.
    """
    program = "import plugin_costs; print(*plugin_costs.discovery(rounds=6))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(BENCH), *sys.path])}
    environment.pop("GRAPHMILL_DISABLE_PLUGINS", None)
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    without, with_all, by_importlib = map(float, done.stdout.split())
    assert with_all - without < 2 * by_importlib


def test_unrequested_device_type_costs_nothing() -> None:
    configs: list[object] = []

    class Factory(DeviceFactory):
        def create_devices(self, config, name_prefix):
            configs.append(config)
            return []

    class Plugin:
        @hookimpl
        def graphmill_register_devices(self, devices):
            devices.add("UNUSED", Factory, priority=1)

        @hookimpl
        def graphmill_register_kernels(self, kernels):
            kernels.add_module("no_such_module", ops=["NobodyHasThis"])

    def kernel_calls(host: graphmill.Host) -> tuple[int, list[str]]:
        graph = graphmill.Graph()
        with graph.as_default():
            x = graph.placeholder("float32", [2], name="x")
            y = x * 2.0 + 1.0
        with graphmill.Session(graph=graph, host=host) as session:
            call = session.make_callable(y, [x])
            for _ in range(3):
                call(np.float32([1, 2]))
            return len(session.list_devices()), [d.name for d in session.list_devices()]

    plain, unused = graphmill.Host(), graphmill.Host(plugins=[Plugin()])
    assert kernel_calls(plain) == kernel_calls(unused)
    assert len(configs) == 1  # once a session, and never for a step


def test_kernel_lookup_happens_at_executor_build_only(monkeypatch) -> None:
    looked: list[str] = []
    original = KernelRegistry._search

    def search(self, op_def, *arguments, **keywords):
        looked.append(op_def.name)
        return original(self, op_def, *arguments, **keywords)

    monkeypatch.setattr(KernelRegistry, "_search", search)
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [2], name="x")
        y = graphmill.ops.nn.relu(x * 2.0)
    config = graphmill.ConfigProto()
    config.graphmill.jit = "off"
    with graphmill.Session(graph=graph, config=config, host=graphmill.Host()) as session:
        call = session.make_callable(y, [x])
        call(np.float32([1, 2]))
        first = list(looked)
        for _ in range(10):
            call(np.float32([1, 2]))
    assert sorted(set(first)) == ["Const", "Mul", "Relu"]
    assert looked == first
