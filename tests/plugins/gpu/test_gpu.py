"""GPU devices (clause R3) and their options; tests that need a GPU are marked."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import pytest

import graphmill
from graphmill import errors, ops, proto
from graphmill_plugins.gpu import device as gpu

PREFIX = "/job:localhost/replica:0/task:0"


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Make JAX find four fake GPUs; return them."""
    devices = [
        SimpleNamespace(id=n, device_kind="Fake", memory_stats=lambda n=n: {"bytes_limit": 100 + n})
        for n in range(4)
    ]
    monkeypatch.setattr(gpu, "may_have_gpu", lambda: True)
    monkeypatch.setattr(gpu, "platform_devices", lambda platform: devices)
    monkeypatch.setattr(gpu.GpuDevice, "__init__", _init)
    return devices


def _init(self: Any, attributes: Any, jax_device: Any) -> None:
    graphmill_device = super(gpu.JaxDevice, self)
    graphmill_device.__init__(attributes)
    self.jax_device = jax_device


def create(**options: Any) -> list[Any]:
    config = proto.ConfigProto(**options)
    return gpu.GpuDeviceFactory().create_devices(config, PREFIX)


def test_all_gpus_are_offered_by_default_r3(found: list[Any]) -> None:
    made = create()
    assert [device.name for device in made] == [f"{PREFIX}/device:GPU:{n}" for n in range(4)]
    assert [device.attributes.memory_limit for device in made] == [100, 101, 102, 103]
    assert made[0].attributes.physical_device_desc == "device: 0, name: Fake"


def test_device_count_limits_gpus_r3(found: list[Any]) -> None:
    assert len(create(device_count={"GPU": 2})) == 2
    assert create(device_count={"GPU": 0}) == []


def test_visible_device_list_chooses_and_orders_gpus_r3(found: list[Any]) -> None:
    made = create(gpu_options=proto.GPUOptions(visible_device_list="2, 0"))
    assert [(device.name[-5:], device.jax_device.id) for device in made] == [
        ("GPU:0", 2),
        ("GPU:1", 0),
    ]


@pytest.mark.parametrize(
    ("text", "match"),
    [("0,x", "Could not parse"), ("1,1", "Could not parse"), ("4", "invalid GPU id 4")],
)
def test_a_bad_visible_device_list_is_refused_r3(found: list[Any], text: str, match: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=match):
        create(gpu_options=proto.GPUOptions(visible_device_list=text))


def test_memory_options_reach_jax_and_leave_no_trace_r3(
    found: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("XLA_PYTHON_CLIENT_PREALLOCATE", "XLA_PYTHON_CLIENT_MEM_FRACTION")
    monkeypatch.delenv(names[0], raising=False)
    monkeypatch.setenv(names[1], ".9")
    seen: list[Any] = []

    def devices(platform: str) -> list[Any]:
        seen.extend(os.environ.get(name) for name in names)
        return found

    monkeypatch.setattr(gpu, "platform_devices", devices)
    create(gpu_options=proto.GPUOptions(allow_growth=True, per_process_gpu_memory_fraction=0.25))
    assert seen == ["false", "0.25"]
    assert [os.environ.get(name) for name in names] == [None, ".9"]


@pytest.mark.parametrize(
    ("platforms", "visible", "expected"),
    [("cpu", None, False), ("cuda,cpu", None, True), ("cuda", "", False), ("cuda", "-1", False)],
)
def test_environment_decides_whether_gpu_is_probed_r3(
    monkeypatch: pytest.MonkeyPatch, platforms: str, visible: str | None, expected: bool
) -> None:
    monkeypatch.setenv("JAX_PLATFORMS", platforms)
    if visible is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert gpu.may_have_gpu() is expected


def test_jax_is_not_probed_without_device_files_r3(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAX_PLATFORMS", raising=False)
    monkeypatch.setattr(gpu, "_DEVICE_FILES", ("/no/such/file",))
    monkeypatch.setattr(gpu, "platform_devices", lambda _: pytest.fail("JAX was asked"))
    assert create() == []


@pytest.mark.gpu
@pytest.mark.jax
def test_nodes_prefer_the_gpu_and_values_return_p1_r3(
    caplog: pytest.LogCaptureFixture,
) -> None:
    if not gpu.may_have_gpu():
        pytest.skip("there is no GPU")
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [2, 2], name="x")
        y = ops.math.mat_mul(x, x, name="y")
        ops.string.as_string(y, name="text")
    with (
        caplog.at_level("INFO", "graphmill.placement"),
        graphmill.Session(graph=graph, config={"log_device_placement": True}) as session,
    ):
        assert session.run(y, {x: [[1, 2], [3, 4]]}).tolist() == [[7, 10], [15, 22]]
        assert session.run("text:0", {x: [[1, 0], [0, 1]]})[0, 0] == b"1.000000"
    assert f"y: (MatMul): {PREFIX}/device:GPU:0" in caplog.text
    assert f"text: (AsString): {PREFIX}/device:CPU:0" in caplog.text


def test_session_that_asks_for_gpus_in_vain_is_warned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "why_no_gpu", lambda: "the machine has no GPU driver")
    with pytest.warns(UserWarning, match="no device of type GPU.*the machine has no GPU driver"):
        session = graphmill.Session(config={"device_count": {"GPU": 1}})
    with session:
        assert {device.device_type for device in session.list_devices()} == {"CPU"}


@pytest.mark.parametrize(
    ("variable", "value", "reason"),
    [
        ("CUDA_VISIBLE_DEVICES", "-1", "CUDA_VISIBLE_DEVICES hides all GPUs"),
        ("JAX_PLATFORMS", "cpu", "JAX_PLATFORMS=cpu excludes GPUs"),
    ],
)
def test_reason_for_no_gpu_names_the_variable(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, reason: str
) -> None:
    for name in ("CUDA_VISIBLE_DEVICES", "JAX_PLATFORMS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, value)
    assert gpu.why_no_gpu() == reason
    assert not gpu.may_have_gpu()


def test_machine_without_a_driver_has_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CUDA_VISIBLE_DEVICES", "JAX_PLATFORMS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(gpu, "_DEVICE_FILES", ("/nowhere/gpu",))
    assert gpu.why_no_gpu() == "the machine has no GPU driver (none of /nowhere/gpu)"
