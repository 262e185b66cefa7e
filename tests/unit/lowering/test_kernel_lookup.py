"""Kernels of nodes with strings compute on the host if the device has no NumPy (clauses P1, P2)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphmill
from graphmill import errors, ops
from graphmill.lowering.kernel_lookup import find_kernel, try_find_kernel
from graphmill.runtime.devices.device import Device, DeviceAttributes
from graphmill.testing.fakes.strict_device import StrictDevice
from graphmill_plugins.cpu.device import CpuDevice


class Accelerator(StrictDevice):
    """A device that computes with JAX alone."""

    backends = ("jax",)


def device(made: type[Device] = Accelerator, kind: str = "FAST") -> Device:
    return made(DeviceAttributes(f"/job:a/replica:0/task:0/device:{kind}:0", kind))


@pytest.fixture
def graph() -> Any:
    graph = graphmill.Graph()
    with graph.as_default():
        text = graph.placeholder("string", [4])
        two = graph.constant([2, 2])
        ops.array.reshape(text, two, name="text")
        ops.array.reshape(graph.placeholder("float32", [4]), two, name="numbers")
    return graph


def test_strings_are_computed_on_the_host_p1(graph: Any) -> None:
    kernels = graphmill.default_host().kernels
    text, numbers = graph.node("text"), graph.node("numbers")
    chosen = find_kernel(kernels, text, device())
    assert chosen.definition.host
    assert chosen.backend == "numpy"
    again = try_find_kernel(kernels, text, device())
    assert again is not None
    assert again.definition is chosen.definition  # made once
    assert not find_kernel(kernels, numbers, device()).definition.host


class Board(StrictDevice):
    """A device with its own memory that computes with NumPy."""

    backends = ("numpy",)


@pytest.mark.parametrize(("made", "kind"), [(CpuDevice, "CPU"), (Board, "BOARD")])
def test_devices_with_numpy_compute_strings_themselves_p1(graph: Any, made: Any, kind: str) -> None:
    kernels = graphmill.default_host().kernels
    assert not find_kernel(kernels, graph.node("text"), device(made, kind)).definition.host


def test_kernel_of_the_device_type_is_used_unchanged_p1(graph: Any) -> None:
    class Plugin:
        @graphmill.hookimpl
        def graphmill_register_kernels(self, kernels: Any) -> None:
            @graphmill.kernel("Reshape", device=("FAST",), backend="jax")
            def reshape(tensor: Any, shape: Any) -> Any:
                return tensor

            kernels.add(reshape)

    kernels = graphmill.Host(plugins=[Plugin()]).kernels
    found = find_kernel(kernels, graph.node("text"), device())
    assert found.definition.device == ("FAST",)
    assert not found.definition.host


def test_a_node_without_a_kernel_has_none_p1() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        node = graph.placeholder("string").op
    kernels = graphmill.Host(plugins=[]).kernels
    op = ops.definition.op_def
    lonely = type("Node", (), {})()
    lonely.op_def = op.OpDef("Lonely", (), ())
    lonely.attrs, lonely.input_types, lonely.output_types = {}, node.output_types, ()
    assert try_find_kernel(kernels, lonely, device()) is None
    with pytest.raises(errors.NotFoundError, match="Lonely"):
        find_kernel(kernels, lonely, device())


@pytest.mark.jax
def test_texts_are_computed_beside_a_device_that_placement_prefers_p1(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("jax")
    from graphmill_plugins._jax import platform_devices
    from graphmill_plugins.gpu import device as gpu

    monkeypatch.setattr(gpu, "may_have_gpu", lambda: True)
    monkeypatch.setattr(gpu, "platform_devices", lambda _: platform_devices("cpu"))
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("string", [4], name="x")
        ops.array.concat_v2([x, x], graph.constant(0), name="joined")
        ops.array.gather_v2(x, graph.constant([1, 0]), graph.constant(0), name="gathered")
        ops.math.equal(x, graph.constant(b"a"), name="same")
        ops.math.neg(graph.placeholder("float32", [2], name="n"), name="numbers")
        with graph.device("/device:GPU:0"):
            ops.array.tile(x, graph.constant([2]), name="requested")
    words = np.array([b"a", b"b", b"c", b"d"], object)
    with graphmill.Session(graph=graph) as session:
        got = session.run(["joined:0", "gathered:0", "same:0", "requested:0"], {x: words})
        assert session.run("numbers:0", {"n:0": [1.0, 2.0]}).tolist() == [-1, -2]
        devices = {one.node: one.device[-5:] for one in session.explain("numbers:0").nodes}
    assert [value.tolist() for value in got] == [
        [*words, *words],
        [b"b", b"a"],
        [True, False, False, False],
        [*words, *words],
    ]
    assert devices["numbers"] == "GPU:0"
