"""Plugins supply a session's executors, devices, passes and observers (clauses E1, S1, P4)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphmill
from graphmill import errors
from graphmill.runtime.devices.device import Device, DeviceAttributes, DeviceFactory
from graphmill.runtime.executor import Executor, ExecutorFactory
from graphmill.testing.proto_builders import graph_def, node_def

X = node_def("x", "Placeholder", dtype="float32", shape=None)
Y = node_def("y", "Neg", "x", T="float32")
PREFIX = "/job:localhost/replica:0/task:0/device:"


class Recorder(Executor):
    """An executor that wraps another one and records runs."""

    def __init__(self, inner: Executor, runs: list[int]) -> None:
        self.inner = inner
        self.runs = runs
        self.closed = False

    def run_async(self, args: Any, done: Any) -> None:
        self.runs.append(args.step_id)
        self.inner.run_async(args, done)

    def close(self) -> None:
        self.closed = True


class ExecutorPlugin:
    def __init__(self) -> None:
        self.runs: list[int] = []
        self.made: list[Recorder] = []
        self.host: Any = None

    @graphmill.hookimpl
    def graphmill_register_executors(self, executors: Any) -> None:
        plugin = self

        class Factory(ExecutorFactory):
            def new_executor(self, params: Any, graph: Any) -> Executor:
                inner = plugin.host.executors.get("DEFAULT").new_executor(params, graph)
                plugin.made.append(Recorder(inner, plugin.runs))
                return plugin.made[-1]

        executors.add("RECORDER", Factory)


def test_e1_config_selects_plugin_executor() -> None:
    plugin = ExecutorPlugin()
    plugin.host = graphmill.Host(plugins=[plugin])
    config = {"experimental": {"executor_type": "RECORDER"}, "graphmill": {"jit": "off"}}
    with graphmill.Session(graph=graph_def(X, Y), host=plugin.host, config=config) as session:
        for _ in range(3):
            assert session.run("y:0", {"x:0": 1.0}) == -1
        assert len(plugin.made) == 1
    assert len(plugin.runs) == len(set(plugin.runs)) == 3
    assert plugin.made[0].closed
    with graphmill.Session(graph=graph_def(X, Y), host=plugin.host) as session:
        session.run("y:0", {"x:0": 1.0})
    assert len(plugin.runs) == 3


@pytest.mark.parametrize("error", [KeyError("oops"), errors.AbortedError("stopped")])
def test_s12_an_executor_that_breaks_is_a_typed_error(error: Exception) -> None:
    class Broken(ExecutorFactory, Executor):
        def new_executor(self, params: Any, graph: Any) -> Executor:
            return self

        def run_async(self, args: Any, done: Any) -> None:
            raise error

    class Plugin:
        @graphmill.hookimpl
        def graphmill_register_executors(self, executors: Any) -> None:
            executors.add("BROKEN", Broken)

    config = {"experimental": {"executor_type": "BROKEN"}}
    host = graphmill.Host(plugins=[Plugin()])
    with graphmill.Session(graph=graph_def(X, Y), host=host, config=config) as session:
        expected = type(error) if isinstance(error, errors.OpError) else errors.InternalError
        with pytest.raises(expected, match=r"Broken of plugin .* failed: KeyError|stopped"):
            session.run("y:0", {"x:0": 1.0})


def test_e1_unknown_executor_type_lists_alternatives() -> None:
    config = {"experimental": {"executor_type": "DEFALT"}}
    with pytest.raises(errors.NotFoundError, match="DEFAULT") as caught:
        graphmill.Session(config=config)
    assert "SINGLE_THREADED_EXECUTOR" in caught.value.message


class HostMemory(Device):
    """A device of host memory under another name."""

    is_host_memory = True

    def namespace(self, backend: str) -> Any:
        return np

    def to_device(self, value: Any) -> Any:
        return value

    def to_host(self, value: Any) -> Any:
        return value


class NpuFactory(DeviceFactory):
    error: Exception | None = None

    def create_devices(self, config: Any, name_prefix: str) -> list[Device]:
        if self.error is not None:
            raise self.error
        return [HostMemory(DeviceAttributes(f"{name_prefix}/device:NPU:0", "NPU", 7))]


class DevicePlugin:
    factory = NpuFactory

    @graphmill.hookimpl
    def graphmill_register_devices(self, devices: Any) -> None:
        devices.add("NPU", self.factory)


def test_s1_plugin_supplies_a_device_and_nodes_request_it() -> None:
    host = graphmill.Host(plugins=[DevicePlugin()])
    on_npu = node_def("y", "Neg", "x", T="float32", device="/device:NPU:0")
    with graphmill.Session(graph=graph_def(X, on_npu), host=host) as session:
        assert PREFIX + "NPU:0" in [d.name for d in session.list_devices()]
        assert session.run("y:0", {"x:0": 2.0}) == -2


@pytest.mark.parametrize("error", [RuntimeError("no driver"), errors.UnavailableError("no driver")])
def test_s12_device_factory_failure_is_a_typed_error(error: Exception) -> None:
    class Failing(NpuFactory):
        pass

    Failing.error = error

    class Plugin(DevicePlugin):
        factory = Failing

    expected = type(error) if isinstance(error, errors.OpError) else errors.InternalError
    with pytest.raises(expected, match="no driver"):
        graphmill.Session(host=graphmill.Host(plugins=[Plugin()]))


def test_p4_plugin_pass_changes_the_run_but_not_the_session_graph() -> None:
    class Plugin:
        @graphmill.hookimpl
        def graphmill_register_passes(self, passes: Any) -> None:
            passes.add("negative_to_absolute", self.rewrite, phase="POST_PLACEMENT")

        def rewrite(self, graph: Any, options: Any) -> None:
            for node in graph.nodes:
                if node.op == "Neg":
                    new = graph.add_node(
                        "abs",
                        options.host.ops.get("Abs"),
                        node.sources,
                        attrs={"T": node.attrs["T"]},
                    )
                    new.assigned_device = node.assigned_device
                    for edge in list(node.out_edges):
                        graph.replace_input(edge.dst, edge.dst_input, new, 0)
                    graph.remove_node(node)

    host = graphmill.Host(plugins=[Plugin()])
    with graphmill.Session(graph=graph_def(X, Y), host=host) as session:
        assert session.run("y:0", {"x:0": -2.0}) == 2
        assert [node.op for node in session.graph] == ["Placeholder", "Neg"]


def test_p4_failing_pass_names_pass_and_plugin() -> None:
    class Plugin:
        @graphmill.hookimpl
        def graphmill_register_passes(self, passes: Any) -> None:
            passes.add("breaking", self.fail, phase="PRE_PLACEMENT")

        def fail(self, graph: Any, options: Any) -> None:
            raise KeyError("oops")

    host = graphmill.Host(plugins=[Plugin()])
    with (
        graphmill.Session(graph=graph_def(X, Y), host=host) as session,
        pytest.raises(
            errors.InternalError, match=r"pass 'breaking' .*PRE_PLACEMENT: KeyError"
        ) as e,
    ):
        session.run("y:0", {"x:0": 1.0})
    assert "Plugin" in e.value.plugin


def test_s6_step_observers_are_notified_of_every_step(probe: Any) -> None:
    observed: list[Any] = []

    class Observer:
        @graphmill.hookimpl
        def graphmill_step_started(self, step: Any) -> None:
            observed.append(("started", step.fetches, step.feeds))

        @graphmill.hookimpl
        def graphmill_step_finished(self, step: Any, seconds: float, error: Any) -> None:
            observed.append(("finished", seconds >= 0, error and error.node))

    host = graphmill.Host(plugins=[Observer(), probe])
    bad = node_def("bad", "Probe>Raise", "x")
    with graphmill.Session(graph=graph_def(X, Y, bad), host=host) as session:
        session.run("y:0", {"x:0": 1.0})
        with pytest.raises(errors.InvalidArgumentError):
            session.run("bad:0", {"x:0": 1.0})
    assert observed == [
        ("started", ("y:0",), ("x:0",)),
        ("finished", True, None),
        ("started", ("bad:0",), ("x:0",)),
        ("finished", True, "bad"),
    ]
