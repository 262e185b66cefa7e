"""Executors and devices that observe kernel calls see each call in every tier."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import pytest

import graphmill
from graphmill.explain.compilation import INTERPRETED
from graphmill.runtime.devices.device import Device, DeviceAttributes, DeviceFactory
from graphmill.runtime.executor import ExecutorFactory
from graphmill.runtime.wrapping_executor import WrappingExecutor, executor_over
from graphmill.testing.tier_programs import PROGRAMS
from graphmill_plugins.cpu.device import CpuDevice
from graphmill_plugins.xla_cpu.device import XlaCpuDevice

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.graph.graph import Graph
    from graphmill.graph.node import Node
    from graphmill.runtime.executor import Executor, LocalExecutorParams
    from graphmill.runtime.kernels.op_kernel import OpKernel

TIERS: Final = ("off", "tiered", "eager")
STEPS: Final = 6
TYPE: Final = "WATCHED"


class Watcher:
    """A plugin with an executor and a device that count kernel calls by op."""

    def __init__(self, **declared: bool) -> None:
        self.calls: Counter[str] = Counter()
        self.factory = type("Factory", (_CountingFactory,), declared)(self)
        self.device_class = type("WatchedDevice", (_WatchedDevice,), declared)

    def counted(self, kernel: OpKernel) -> Callable[..., Any]:
        """Return a function that counts each call and forwards it."""
        compute = kernel.compute

        def call(*inputs: Any, **keywords: Any) -> Any:
            self.calls[kernel.op] += 1
            return compute(*inputs, **keywords)

        return call

    @graphmill.hookimpl
    def graphmill_register_executors(self, executors: Any) -> None:
        executors.add("COUNTING", self.factory)

    @graphmill.hookimpl
    def graphmill_register_devices(self, devices: Any) -> None:
        devices.add(TYPE, _WatchedFactory(self))


class _CountingFactory(ExecutorFactory):
    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher

    def new_executor(self, params: LocalExecutorParams, graph: Graph) -> Executor:
        def wrap(node: Node, kernel: OpKernel) -> OpKernel:
            return kernel if kernel.op != "Neg" else kernel.with_call(self._watcher.counted(kernel))

        return WrappingExecutor(executor_over(params, graph, wrap))


class _WatchedDevice(CpuDevice):
    watcher: Watcher

    def compute_of(self, kernel: OpKernel) -> Callable[..., Any]:
        return self.watcher.counted(kernel)


class _WatchedFactory(DeviceFactory):
    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher

    def create_devices(self, config: Any, name_prefix: str) -> list[Device]:
        device = self._watcher.device_class(
            DeviceAttributes(f"{name_prefix}/device:{TYPE}:0", TYPE)
        )
        device.watcher = self._watcher
        return [device]


def calls_in_steps(
    watcher: Watcher, program: str, tier: str, *, executor: str = "", device: str = ""
) -> tuple[list[int], Any]:
    """Return the number of `Neg` calls in each step, and the record of the last."""
    host = graphmill.Host(plugins=[watcher])
    made = PROGRAMS[program]
    message = made.graph_def(host.ops, device=device)
    config = graphmill.ConfigProto()
    config.experimental.executor_type = executor
    config.graphmill.jit = tier
    config.graphmill.jit_min_cluster_size = 1
    counts = []
    with graphmill.Session(graph=message, host=host, config=config) as session:
        for _ in range(STEPS):
            watcher.calls.clear()
            session.run(made.fetch, made.feeds)
            counts.append(watcher.calls["Neg"])
            host.background.wait_idle()
        record = session.explain(made.fetch, list(made.feeds))
    return counts, record


def nodes_of_op(record: Any, op: str) -> list[Any]:
    return [node for node in record.nodes if node.op == op]


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_executor_over_kernels_sees_each_call_in_every_tier(program: str, tier: str) -> None:
    counts, record = calls_in_steps(Watcher(), program, tier, executor="COUNTING")
    expected, _ = calls_in_steps(Watcher(), program, "off", executor="COUNTING")
    assert counts == expected
    assert min(counts) > 0
    for node in record.nodes:
        assert node.tier == INTERPRETED
        reason = "compilation is off" if tier == "off" else "'COUNTING' must see each call"
        assert reason in node.tier_reason


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_compute_of_device_observes_calls_in_every_tier(program: str, tier: str) -> None:
    counts, record = calls_in_steps(Watcher(), program, tier, device=f"/device:{TYPE}:0")
    expected, _ = calls_in_steps(Watcher(), program, "off", device=f"/device:{TYPE}:0")
    assert counts == expected
    assert min(counts) > 0
    for node in nodes_of_op(record, "Neg"):
        assert node.tier == INTERPRETED
        reason = "compilation is off" if tier == "off" else "WATCHED:0 must see each call"
        assert reason in node.tier_reason


@pytest.mark.parametrize("where", [{"executor": "COUNTING"}, {"device": f"/device:{TYPE}:0"}])
def test_device_without_compute_of_is_compiled(where: dict[str, str]) -> None:
    watcher = Watcher(observes_kernels=False)
    counts, record = calls_in_steps(watcher, "graph", "eager", **where)
    assert counts == [0] * STEPS
    assert all(node.cluster for node in nodes_of_op(record, "Neg"))


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("program", ["function", "If branch", "While body"])
def test_device_sees_the_nodes_of_functions_that_others_call(program: str, tier: str) -> None:
    watcher = Watcher()
    host = graphmill.Host(plugins=[watcher])
    made = PROGRAMS[program]
    message = made.graph_def(host.ops)
    for node in (node for function in message.library.function for node in function.node_def):
        if node.op == "Neg":
            node.device = f"/device:{TYPE}:0"
    config = {"graphmill": {"jit": tier, "jit_min_cluster_size": 1}}
    counts = []
    with graphmill.Session(graph=message, host=host, config=config) as session:
        for _ in range(STEPS):
            watcher.calls.clear()
            session.run(made.fetch, made.feeds)
            counts.append(watcher.calls["Neg"])
            host.background.wait_idle()
        nodes = session.explain(made.fetch, list(made.feeds)).nodes
    assert min(counts) > 0
    assert len(set(counts)) == 1, "a compiled function does without its device"
    if tier != "off" and program != "function":  # that call is inlined
        assert any("runs on another device" in node.tier_reason for node in nodes)


def test_built_in_executors_and_devices_need_not_see_calls() -> None:
    """All but the debugger's executor, which stops between any two nodes."""
    executors = graphmill.default_host().executors
    observing = [name for name in sorted(executors.keys()) if executors.get(name).observes_kernels]
    assert observing == ["STEPPING"]
    assert not CpuDevice.observes_kernels
    assert not XlaCpuDevice.observes_kernels


def test_compute_of_declaration_applies_to_inherited_compute() -> None:
    class Mixin:
        def compute_of(self, kernel: OpKernel) -> Callable[..., Any]:
            return kernel.compute

    class Own(XlaCpuDevice):
        def compute_of(self, kernel: OpKernel) -> Callable[..., Any]:
            return super().compute_of(kernel)

    class Plain(XlaCpuDevice):
        pass

    class Mixed(Mixin, CpuDevice):
        pass

    class Below(Own):
        pass

    assert Own.observes_kernels
    assert Below.observes_kernels
    assert Mixed.observes_kernels
    assert not Plain.observes_kernels
