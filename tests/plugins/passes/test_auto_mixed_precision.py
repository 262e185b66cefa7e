"""`auto_mixed_precision` and its variants convert nodes to half types."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphmill
from graphmill import dtypes, errors, ops, proto
from graphmill.ops.attrs.attr_types import FuncAttr
from graphmill.spi import (
    ArgDef,
    AttrDef,
    Device,
    DeviceAttributes,
    HalfPrecision,
    KernelDef,
    OpDef,
    OpTraits,
)
from graphmill.testing.fakes.third_party_plugin import ThirdPartyPlugin
from graphmill.testing.proto_builders import const_def, function_def, graph_def, node_def

BFLOAT16 = "auto_mixed_precision_onednn_bfloat16"
ROUNDED = "auto_mixed_precision_cpu"
X = np.random.default_rng(0).normal(size=(4, 4)).astype(np.float32)


@pytest.fixture(autouse=True)
def with_onednn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TF_ENABLE_ONEDNN_OPTS", raising=False)


@pytest.fixture
def graph() -> graphmill.Graph:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [4, 4], name="x")
        product = ops.math.mat_mul(x, x, name="product")
        relu = ops.nn.relu(product, name="relu")
        unsafe = ops.math.exp(ops.math.tanh(relu, name="tanh"), name="exp")
        ops.array.identity(unsafe, name="out")
    return graph


def run(
    graph: Any, config: dict[str, Any], host: Any = None, fetch: str = "out:0", jit: str = "off"
) -> tuple[Any, dict[str, Any]]:
    """Return the fetched value, and the nodes that ran, by name."""
    metadata = proto.RunMetadata()
    options = proto.RunOptions(output_partition_graphs=True)
    config = {"graphmill": {"jit": jit}, **config}
    with graphmill.Session(graph=graph, config=config, host=host) as session:
        value = session.run(fetch, {"x:0": X}, options, metadata)
    return value, {node.name: node for part in metadata.partition_graphs for node in part.node}


def rewrite(**options: Any) -> dict[str, Any]:
    return {"graph_options": {"rewrite_options": options}}


def types(nodes: dict[str, Any], *names: str) -> list[str]:
    return [dtypes.as_dtype(nodes[name].attr["T"].type).name for name in names]


NAMES = ("product", "relu", "tanh", "exp")


@pytest.mark.parametrize("toggle", ["ON", "AGGRESSIVE"])
@pytest.mark.parametrize("field", [BFLOAT16, "auto_mixed_precision_mkl"])
def test_safe_nodes_on_a_cpu_are_computed_in_bfloat16(graph, field: str, toggle: str) -> None:
    exact, _ = run(graph, {})
    value, nodes = run(graph, rewrite(**{field: toggle}))
    assert types(nodes, *NAMES) == ["bfloat16", "bfloat16", "float32", "float32"]
    assert nodes["tanh"].input == ["relu-0-CastToFp32-0-AutoMixedPrecision"]
    assert value.dtype == np.float32
    assert 1e-4 < np.abs(value - exact).max() < 0.1


@pytest.mark.parametrize("jit", ["off", "eager"])
def test_values_are_rounded_to_float16_in_each_tier(graph, jit: str) -> None:
    value, nodes = run(graph, rewrite(auto_mixed_precision_cpu="ON"), jit=jit)
    half = X.astype(np.float16).astype(np.float32)
    product = (half @ half).astype(np.float16).astype(np.float32)
    np.testing.assert_allclose(value, np.exp(np.tanh(np.maximum(product, 0))), rtol=1e-6)
    if jit == "off":
        assert types(nodes, *NAMES) == ["float32"] * 4


@pytest.mark.parametrize(
    "config",
    [
        rewrite(auto_mixed_precision="ON"),  # no device declares a half type
        rewrite(**{BFLOAT16: "OFF"}),
        rewrite(**{BFLOAT16: "ON"}, disable_meta_optimizer=True),
        rewrite(optimizers=["constfold"]),
    ],
)
def test_nodes_keep_their_types_without_a_request(graph, config: Any) -> None:
    exact, _ = run(graph, {})
    value, nodes = run(graph, config)
    assert types(nodes, *NAMES) == ["float32"] * 4
    np.testing.assert_array_equal(value, exact)


def test_list_of_optimizers_requests_mixed_precision(graph) -> None:
    _, nodes = run(graph, rewrite(optimizers=[BFLOAT16]))
    assert types(nodes, "product") == ["bfloat16"]


def test_environment_of_tensorflow_switches_bfloat16_off(graph, monkeypatch) -> None:
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "0")
    _, nodes = run(graph, rewrite(**{BFLOAT16: "ON"}))
    assert types(nodes, "product") == ["float32"]


def test_unknown_toggle_is_refused(graph) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="auto_mixed_precision"):
        run(graph, rewrite(auto_mixed_precision="SOMETIMES"))


def test_fetched_nodes_keep_their_types(graph) -> None:
    value, nodes = run(graph, rewrite(**{BFLOAT16: "ON"}), fetch="product:0")
    assert types(nodes, "product") == ["float32"]
    np.testing.assert_allclose(value, X @ X, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("fetch", ["call:0", "out:0"])
@pytest.mark.parametrize("executor", ["", "SINGLE_THREADED_EXECUTOR"])
def test_nodes_of_functions_are_converted(fetch: str, executor: str) -> None:
    product = node_def("product", "MatMul", "a", "a", T="float32")
    body = function_def("f", {"a": "float32"}, {"r": ("float32", "product:product:0")}, product)
    call = node_def(
        "call",
        "PartitionedCall",
        "x",
        Tin=["float32"],
        Tout=["float32"],
        f=FuncAttr("f", {}),
        executor_type=executor.encode(),
    )
    x = node_def("x", "Placeholder", dtype="float32", shape=None)
    out = node_def("out", "Identity", "call", T="float32")
    message = graph_def(x, call, out, functions=[body])
    value, _ = run(message, rewrite(**{BFLOAT16: "ON"}), fetch=fetch)
    half = X.astype(dtypes.bfloat16.as_numpy_dtype)
    expected = (half.astype(np.float32) @ half.astype(np.float32)).astype(half.dtype)
    np.testing.assert_allclose(value, expected.astype(np.float32), rtol=0.01)
    assert not np.array_equal(value, X @ X)


def test_loop_is_converted_as_a_whole() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [4, 4], name="x")
        weights = graph.constant(np.full((4, 4), 0.3, np.float32))
        _, product = graphmill.while_loop(
            lambda i, _: i < 3,
            lambda i, product: (i + 1, ops.math.mat_mul(product, weights, name="product")),
            [graph.constant(0), x],
        )
        ops.array.identity(product, name="out")
    value, nodes = run(graph, rewrite(**{BFLOAT16: "ON"}))
    loop = [node for node in nodes.values() if node.op in ("Merge", "NextIteration", "Exit")]
    assert {types(nodes, node.name)[0] for node in loop} == {"int32", "bfloat16"}
    weights = np.full((4, 4), 0.3)
    np.testing.assert_allclose(value, X @ weights @ weights @ weights, rtol=0.1, atol=0.1)


def test_values_of_a_loop_are_rounded() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [4, 4], name="x")
        weights = graph.constant(np.full((4, 4), 0.3, np.float32))
        _, product = graphmill.while_loop(
            lambda i, _: i < 3,
            lambda i, product: (i + 1, ops.math.mat_mul(product, weights)),
            [graph.constant(0), x],
        )
        ops.array.identity(product, name="out")
    value, _ = run(graph, rewrite(auto_mixed_precision_cpu="ON"))
    expected = X.astype(np.float16)
    weights = np.full((4, 4), 0.3, np.float16).astype(np.float32)
    for _ in range(3):
        expected = (expected.astype(np.float32) @ weights).astype(np.float16)
    np.testing.assert_array_equal(value, expected.astype(np.float32))


def test_variable_of_version_1_is_read_in_float32() -> None:
    message = graph_def(
        node_def("x", "Placeholder", dtype="float32", shape=None),
        node_def("v", "VariableV2", dtype="float32", shape=None),
        const_def("one", X),
        node_def("set", "Assign", "v", "one", T="float32"),
        node_def("read", "Identity", "v", "^set", T="float32"),
        node_def("product", "MatMul", "read", "x", T="float32"),
        node_def("out", "Identity", "product", T="float32"),
    )
    _, nodes = run(message, rewrite(**{BFLOAT16: "ON"}, dependency_optimization="OFF"))
    assert types(nodes, "read", "product") == ["float32", "bfloat16"]


def test_batch_normalization_without_half_types_is_replaced_by_one_that_has_them() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [4, 4], name="x")
        image = ops.array.reshape(x, graph.constant([1, 4, 4, 1]))
        weights = graph.constant(np.full((1, 1, 1, 4), 0.7, np.float32))
        product = ops.nn.conv2d(image, weights, strides=[1, 1, 1, 1], padding="SAME")
        numbers = [graph.constant(np.full(4, 0.5, np.float32))] * 4
        normal = ops.nn.fused_batch_norm(product, *numbers, is_training=False, name="normal")
        ops.array.identity(normal[0], name="out")
    exact, nodes = run(graph, {})
    assert nodes["normal"].op == "FusedBatchNorm"
    value, nodes = run(graph, rewrite(**{BFLOAT16: "ON"}))
    assert nodes["normal"].op == "FusedBatchNormV2"
    assert types(nodes, "normal") == ["bfloat16"]
    np.testing.assert_allclose(value, exact, rtol=0.05, atol=0.05)


@pytest.mark.parametrize(
    ("types_of_kernel", "expected"),
    [(["float32"], "float32"), (["float32", "bfloat16"], "bfloat16")],
)
def test_kernel_of_a_plugin_is_not_replaced_by_one_for_a_half_type(
    graph, types_of_kernel: list[str], expected: str
) -> None:
    @graphmill.kernel("MatMul", backend="numpy", priority=10, types={"T": types_of_kernel})
    def halves(xp: Any, a: Any, b: Any) -> Any:
        return xp.full_like(a, 0.5)

    host = graphmill.Host(plugins=[ThirdPartyPlugin(kernels=[halves])])
    value, nodes = run(graph, rewrite(**{BFLOAT16: "ON"}), host)
    assert types(nodes, "product") == [expected]
    np.testing.assert_allclose(value, np.full((4, 4), np.exp(np.tanh(0.5))), rtol=0.02)


class HalfDevice(Device):
    """A device that computes with NumPy, faster in a half type."""

    backends = ("numpy",)
    is_host_memory = True
    half_type = "bfloat16"

    def namespace(self, backend: str) -> Any:
        return np

    def to_device(self, value: Any) -> Any:
        return value

    def to_host(self, value: Any) -> Any:
        return value


class HalfDeviceFactory(graphmill.spi.DeviceFactory):
    def create_devices(self, config: Any, name_prefix: str) -> list[HalfDevice]:
        return [HalfDevice(DeviceAttributes(f"{name_prefix}/device:HALF:0", "HALF", 1 << 30))]


FAST = OpDef(
    "Mine>Fast",
    (ArgDef("x", type_attr="T"),),
    (ArgDef("y", type_attr="T"),),
    (AttrDef("T", "type"),),
    traits=OpTraits(bfloat16=HalfPrecision.ALLOW),
)
ODD = OpDef("Mine>Odd", traits=OpTraits(float16=HalfPrecision.CLEAR))


def plugin_of(*definitions: OpDef) -> Any:
    class Plugin:
        @graphmill.hookimpl
        def graphmill_register_devices(self, devices: Any) -> None:
            devices.add("HALF", HalfDeviceFactory, priority=150)

        @graphmill.hookimpl
        def graphmill_register_ops(self, ops: Any) -> None:
            for definition in definitions:
                ops.add(definition)

        @graphmill.hookimpl
        def graphmill_register_kernels(self, kernels: Any) -> None:
            for device in ("HALF", "CPU"):
                kernels.add(KernelDef(("Mine>Fast",), lambda _np, x: x * x, device=device))

    return graphmill.Host(plugins=[Plugin()])


def test_op_and_device_of_a_plugin_take_part() -> None:
    host = plugin_of(FAST)
    message = graph_def(
        node_def("x", "Placeholder", dtype="float32", shape=None),
        node_def("fast", "Mine>Fast", "x", T="float32", device="/device:HALF:0"),
        node_def("slow", "Mine>Fast", "x", T="float32", device="/device:CPU:0"),
        node_def("sum", "AddV2", "fast", "slow", T="float32", device="/device:CPU:0"),
        node_def("out", "Identity", "sum", T="float32", device="/device:CPU:0"),
    )
    config = {**rewrite(auto_mixed_precision="ON"), "allow_soft_placement": True}
    value, nodes = run(message, config, host)
    assert types(nodes, "fast", "slow") == ["bfloat16", "float32"]
    half = X.astype(dtypes.bfloat16.as_numpy_dtype)
    np.testing.assert_array_equal(value, (half * half).astype(np.float32) + X * X)


def test_op_without_a_type_attr_cannot_declare_a_half_type() -> None:
    with pytest.raises(errors.OpError, match="float16 needs an attr with the type"):
        plugin_of(ODD)
