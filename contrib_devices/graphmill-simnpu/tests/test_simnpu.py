"""The simulated accelerator passes the conformance suites and shows asynchronous execution."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import graphmill
from graphmill.ops import math, nn
from graphmill.spi import LimitedAllocator, errors
from graphmill.testing.case import load_cases
from graphmill.testing.conformance import AllocatorTests, DeviceTests, KernelTests, TierTests
from graphmill.testing.timeouts import no_leaked_threads

DEVICE = "/device:SIMNPU:0"
X = np.array([[1, -2], [3, 4]], np.float32)


class TestSimNpu(DeviceTests):
    device = DEVICE


class TestSimNpuKernels(KernelTests):
    device = DEVICE
    families = tuple(
        {case.family for case in load_cases()} - {"dataset"}
    )  # datasets stay on the host


class TestSimNpuTiers(TierTests):
    device = DEVICE
    backend = "simnpu"


class TestSimNpuMemory(AllocatorTests):
    @pytest.fixture
    def allocator(self):
        return LimitedAllocator(DEVICE, self.limit)


def config(**settings: object) -> graphmill.ConfigProto:
    made = graphmill.ConfigProto(device_count={"SIMNPU": 1})
    entry = made.graph_options.rewrite_options.custom_optimizers.add(name="simnpu")
    for key, value in settings.items():
        setattr(entry.parameter_map[key], "i" if isinstance(value, int) else "s", value)
    return made


def layer() -> graphmill.Graph:
    graph = graphmill.Graph()
    with graph.as_default(), graph.device(DEVICE):
        x = graph.placeholder("float32", [None, 2], name="x")
        product = math.mat_mul(x, graph.constant(X), name="product")
        nn.relu(nn.bias_add(product, graph.constant([1.0, -20.0])), name="y")
    return graph


def test_a_layer_is_one_command() -> None:
    options = graphmill.RunOptions(output_partition_graphs=True)
    metadata = graphmill.RunMetadata()
    with graphmill.Session(graph=layer(), config=config()) as session:
        got = session.run("y:0", {"x:0": X}, options=options, run_metadata=metadata)
    np.testing.assert_allclose(got, np.maximum(X @ X + np.float32([1, -20]), 0))
    ops = {node.op for part in metadata.partition_graphs for node in part.node}
    assert "SimNpu>MatMulBiasRelu" in ops
    assert "MatMul" not in ops


def test_a_product_that_others_read_stays() -> None:
    with graphmill.Session(graph=layer(), config=config()) as session:
        product, y = session.run(["product:0", "y:0"], {"x:0": X})
    np.testing.assert_allclose(product, X @ X)
    np.testing.assert_allclose(y, np.maximum(X @ X + np.float32([1, -20]), 0))


def test_kernels_return_before_they_have_computed() -> None:
    from graphmill_simnpu.device import SimNpuFactory

    (device,) = SimNpuFactory().create_devices(config(), "/job:localhost/replica:0/task:0")
    gate = threading.Event()
    x = device.to_device(X)
    held = device.launch(lambda v: gate.wait(30) and v, (x,), {}, dtype=X.dtype)
    after = device.launch(np.add, (held, x), {}, dtype=X.dtype)
    assert after.dtype == np.float32
    assert not after._is_ready.is_set()
    gate.set()
    np.testing.assert_allclose(device.to_host(after), X + X)
    device.close()


def test_memory_is_limited_and_released() -> None:
    with graphmill.Session(graph=layer(), config=config(memory_limit=4096)) as session:
        for _ in range(200):  # each step frees the memory that it used
            session.run("y:0", {"x:0": X})
        with pytest.raises(errors.ResourceExhaustedError, match=r"SIMNPU:0 is out of memory.*4096"):
            session.run("y:0", {"x:0": np.ones((1000, 2), np.float32)})
        assert session.run("y:0", {"x:0": X}).shape == (2, 2)


def test_fault_is_injected_at_the_named_node() -> None:
    graph = layer()
    with (
        graphmill.Session(graph=graph, config=config(fail_at=b"product")) as session,
        pytest.raises(errors.InternalError, match="configured to fail"),
    ):
        session.run("product:0", {"x:0": X})


def test_it_can_be_lost() -> None:
    def until_it_is_lost(session):
        for _ in range(5):
            session.run("y:0", {"x:0": X})

    with (
        graphmill.Session(graph=layer(), config=config(fail_after=3)) as session,
        pytest.raises(errors.UnavailableError, match="lost after 3 commands"),
    ):
        until_it_is_lost(session)


def test_its_threads_end_with_their_session() -> None:
    before = set(threading.enumerate())
    with no_leaked_threads(), graphmill.Session(graph=layer(), config=config()) as session:
        session.run("y:0", {"x:0": X})
        started = set(threading.enumerate()) - before
        assert sum(thread.name.endswith("queue") for thread in started) == 1


def test_op_infers_output_shape() -> None:
    graph = graphmill.Graph(ops=graphmill.default_host().ops)
    a, b = graph.placeholder("float32", [None, 4]), graph.placeholder("float32", [4, 3])
    bias = graph.placeholder("float32", [3])
    node = graph.create_op("SimNpu>MatMulBiasRelu", [a, b, bias])
    assert graph.outputs_of(node)[0].shape == (None, 3)
    other = graph.placeholder("float32", [5, 3])
    with pytest.raises(errors.InvalidArgumentError, match="4 columns, b has 5 rows"):
        graph.create_op("SimNpu>MatMulBiasRelu", [a, other, bias])
