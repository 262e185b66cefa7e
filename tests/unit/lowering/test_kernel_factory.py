"""The kernels of a graph's nodes on a device (clauses E11, G3)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from graphmill import errors
from graphmill.graph.formats.import_export import graph_from_graph_def
from graphmill.lowering.kernel_factory import KernelFactory
from graphmill.lowering.policies.effects_policy import EffectsPolicy
from graphmill.plugin.host import Host
from graphmill.plugin.markers import hookimpl
from graphmill.runtime.devices.device import Device, DeviceAttributes
from graphmill.runtime.kernels.kernel import kernel
from graphmill.runtime.kernels.op_segment import StatefulKernels
from graphmill.testing.proto_builders import const_def, function_def, graph_def, node_def

FUNCTIONS: Any = SimpleNamespace(effects=EffectsPolicy())
X = node_def("x", "_Arg", T="float32", index=0)


def neg(name: str, src: str = "x") -> Any:
    return node_def(name, "Neg", src, T="float32")


class Far(Device):
    """A device with memory of its own: values are wrapped when copied to it."""

    def namespace(self, backend: str) -> Any:
        return f"namespace of {backend}"

    def to_device(self, value: Any) -> Any:
        return ("far", value)

    def to_host(self, value: Any) -> Any:
        return value[1]

    def compute_of(self, kernel: Any) -> Any:
        return kernel.compute


class Near(Far):
    is_host_memory = True


class Plugin:
    """Kernels for the tests; `made` counts the kernels of stateful nodes."""

    def __init__(self) -> None:
        self.made = 0

    @hookimpl
    def graphmill_register_kernels(self, kernels: Any) -> None:
        plugin = self

        @kernel("Neg")
        def negative(xp: Any, x: Any) -> Any:
            return xp, x

        @kernel("RandomShuffle", stateful=True)
        class Shuffle:
            def __init__(self, construction: Any) -> None:
                plugin.made += 1
                self.node = construction.node_name

            def __call__(self, ctx: Any, x: Any) -> Any:
                return self.node

        @kernel("Const", make=True)
        def const(xp: Any, value: Any) -> Any:
            return lambda: value

        @kernel("Ceil", stateful=True)
        def ceil(ctx: Any, x: Any) -> Any:
            return ctx

        @kernel("Floor", backend="numpy")
        def floor(xp: Any, x: Any) -> Any:
            return xp

        @kernel("AsString", host=True)
        def as_string(xp: Any, x: Any) -> Any:
            return xp

        @kernel("Sign", make=True)
        def sign(xp: Any) -> Any:
            raise KeyError("cannot be made")

        @kernel("Square", device="NPU")
        def square(xp: Any, x: Any) -> Any:
            return x

        for declared in (negative, Shuffle, const, as_string, sign, square, ceil, floor):
            kernels.add(declared)


@pytest.fixture
def plugin() -> Plugin:
    return Plugin()


@pytest.fixture
def make(plugin: Plugin) -> Any:
    host = Host(plugins=[plugin], load_entry_points=False)

    def make_factory(device: Device | None = None, *, op_segment: bool = True) -> KernelFactory:
        device = device or Near(DeviceAttributes("/device:CPU:0", "CPU"))
        device.op_segment.add_hold("session")
        segment = device.op_segment.of_session("session") if op_segment else StatefulKernels()
        return KernelFactory(host, device, FUNCTIONS, segment)

    make_factory.host = host  # type: ignore[attr-defined]
    return make_factory


def graph_of(make: Any, *nodes: Any, functions: Any = ()) -> Any:
    return graph_from_graph_def(graph_def(*nodes, functions=functions), make.host.ops)


def test_e11_kernel_is_bound_to_node_device_and_functions(make: Any) -> None:
    factory = make()
    made = factory.create(graph_of(make, X, neg("n")).node("n"))
    assert (made.node_name, made.op, made.device.name) == ("n", "Neg", "/device:CPU:0")
    assert made.functions is FUNCTIONS
    assert made.compute(5) == ("namespace of numpy", 5)


def test_equal_nodes_share_the_call_of_a_function(make: Any) -> None:
    """They share neither names nor states, nor a call that was made for one node."""
    factory = make()
    one = np.float32(1)
    graph = graph_of(make, X, neg("a"), neg("b"), const_def("c", one), const_def("d", one))
    assert graph.node("a").attrs is graph.node("b").attrs
    a, b, c, d = (factory.create(graph.node(name)) for name in "abcd")
    assert a.compute is b.compute
    assert (a.node_name, b.node_name) == ("a", "b")
    assert (b.definition, b.device, b.functions) == (a.definition, a.device, a.functions)
    assert b.gives_dead == a.gives_dead
    assert a.state is not b.state
    assert c.compute is not d.compute


def test_e11_stateful_kernels_are_shared_by_the_executors_of_a_session(
    make: Any, plugin: Plugin
) -> None:
    device = Near(DeviceAttributes("/device:CPU:0", "CPU"))
    graph = graph_of(make, X, node_def("s", "RandomShuffle", "x", T="float32"), neg("n"))
    one, other = make(device), make(device)
    assert one.create(graph.node("s")) is other.create(graph.node("s"))
    assert one.create(graph.node("n")) is not other.create(graph.node("n"))
    assert plugin.made == 1


def test_e11_stateless_context_kernel_is_owned_by_its_executor(
    make: Any,
) -> None:
    graph = graph_of(make, X, node_def("a", "Ceil", "x", T="float32"))
    device = Near(DeviceAttributes("/device:CPU:0", "CPU"))
    assert make(device).create(graph.node("a")) is not make(device).create(graph.node("a"))


def test_e11_function_has_its_own_stateful_kernels(make: Any, plugin: Plugin) -> None:
    device = Near(DeviceAttributes("/device:CPU:0", "CPU"))
    node = graph_of(make, X, node_def("s", "RandomShuffle", "x", T="float32")).node("s")
    first = make(device, op_segment=False).create(node)
    assert make(device, op_segment=False).create(node) is not first
    assert plugin.made == 2


def test_e11_constant_is_copied_to_device_once_except_strings(make: Any) -> None:
    factory = make(Far(DeviceAttributes("/device:NPU:0", "NPU")))
    text = const_def("s", np.array([b"a"], object))
    graph = graph_of(make, const_def("c", [1.0]), text)
    factory.choose_all(graph)
    kernel = factory.create(graph.node("c"))
    assert kernel.compute()[0] == "far"
    assert kernel.compute()[1] is kernel.compute()[1]
    assert factory.create(graph.node("s")).compute().tolist() == [b"a"]


def test_e11_host_kernel_gets_numpy_on_any_device(make: Any) -> None:
    factory = make(Far(DeviceAttributes("/device:NPU:0", "NPU")))
    graph = graph_of(make, X, node_def("t", "AsString", "x", T="float32"))
    assert factory.create(graph.node("t")).compute(1) is np


def test_g3_missing_kernels_are_reported_together_by_op(make: Any) -> None:
    twos = [node_def(f"two{i}", "Square", "x", T="float32") for i in range(7)]
    graph = graph_of(make, X, neg("n"), node_def("e", "Exp", "x", T="float32"), *twos)
    with pytest.raises(errors.NotFoundError) as caught:
        make().choose_all(graph)
    error = caught.value
    assert error.message.startswith(
        "2 ops have no kernel on /device:CPU:0:\n  Exp (node e): no kern"
    )
    assert "Square (node two0, two1, two2, two3, two4 and 2 more): " in error.message
    assert "It has kernels for device types NPU." in error.message
    assert (error.node, error.op_type, error.device) == ("e", "Exp", "/device:CPU:0")


def test_g3_ends_and_calls_of_functions_need_no_kernel(make: Any) -> None:
    function = function_def("f", {"x": "float32"}, {"y": ("float32", "x")})
    end = node_def("r", "_Retval", "c", T="float32", index=0)
    graph = graph_of(make, X, node_def("c", "f", "x"), end, functions=[function])
    factory = make()
    factory.choose_all(graph)
    made = factory.create(graph.node("c"))
    assert (made.op, made.definition.async_) == ("f", True)


def test_s12_kernel_creation_failure_names_node_and_plugin(make: Any) -> None:
    graph = graph_of(make, X, node_def("s", "Sign", "x", T="float32"))
    factory = make()
    with pytest.raises(errors.InternalError, match="KeyError: 'cannot be made'") as caught:
        factory.create(graph.node("s"))
    error = caught.value
    assert (error.node, error.op_type, error.device) == ("s", "Sign", "/device:CPU:0")
    assert "Plugin" in error.plugin
    assert error.node_def.name == "s"
    assert isinstance(error.__cause__, KeyError)


def test_g3_requested_dtypes_are_reported(make: Any) -> None:
    node = node_def("i", "Exp", "x", T="float32")
    with pytest.raises(errors.NotFoundError, match=r"'Exp' on device type 'CPU' \(T=float32\)"):
        make().choose(graph_of(make, X, node).node("i"))


@pytest.mark.parametrize(("general", "expected"), [(None, "numpy"), ("second", "second")])
def test_device_chooses_the_namespace_of_general_kernels(
    make: Any, general: str | None, expected: str
) -> None:
    class Mixed(Near):
        backends = ("numpy", "second")
        general_backend = general

    factory = make(Mixed(DeviceAttributes("/device:CPU:0", "CPU")))
    graph = graph_of(make, X, neg("n"), node_def("f", "Floor", "x", T="float32"))
    assert factory.create(graph.node("n")).compute(5) == (f"namespace of {expected}", 5)
    assert factory.create(graph.node("f")).compute(5) == "namespace of numpy"  # it is for NumPy
