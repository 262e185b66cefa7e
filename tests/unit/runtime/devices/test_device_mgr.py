"""The devices of a session (clauses S1, S10)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphmill import errors
from graphmill.runtime.devices.device import Device, DeviceAttributes, new_incarnation
from graphmill.runtime.devices.device_mgr import DeviceMgr
from graphmill.runtime.kernels.kernel import KernelDef
from graphmill.runtime.kernels.op_kernel import OpKernel

PREFIX = "/job:localhost/replica:0/task:0/device:"


class Plain(Device):
    """A device of host memory."""

    def namespace(self, backend: str) -> Any:
        return np

    def to_device(self, value: Any) -> Any:
        return value

    def to_host(self, value: Any) -> Any:
        return value


def device(name: str) -> Plain:
    return Plain(DeviceAttributes(PREFIX + name, name.partition(":")[0], 1 << 20))


@pytest.fixture
def devices() -> DeviceMgr:
    return DeviceMgr([device("NPU:0"), device("CPU:0"), device("CPU:1")])


def test_s1_devices_are_listed_in_order_of_preference(devices: DeviceMgr) -> None:
    assert [d.name.removeprefix(PREFIX) for d in devices] == ["NPU:0", "CPU:0", "CPU:1"]
    assert len(devices) == 3


def test_s1_the_host_is_the_first_cpu_or_else_the_first_device(devices: DeviceMgr) -> None:
    assert devices.host.name == PREFIX + "CPU:0"
    assert DeviceMgr([device("NPU:0")]).host.name == PREFIX + "NPU:0"


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("", ["NPU:0", "CPU:0", "CPU:1"]),
        ("/cpu:1", ["CPU:1"]),
        ("/device:CPU:*", ["CPU:0", "CPU:1"]),
        ("/job:localhost", ["NPU:0", "CPU:0", "CPU:1"]),
        ("/job:worker", []),
        ("/device:NPU:1", []),
    ],
)
def test_s1_partial_and_old_names_match(devices: DeviceMgr, name: str, found: list[str]) -> None:
    assert [d.name.removeprefix(PREFIX) for d in devices.matching(name)] == found


def test_s1_two_devices_of_one_name_are_refused() -> None:
    with pytest.raises(errors.AlreadyExistsError, match=r"two devices are named .*CPU:0"):
        DeviceMgr([device("CPU:0"), device("CPU:0")])


def test_s1_a_session_needs_a_device() -> None:
    with pytest.raises(errors.InvalidArgumentError, match="has no device"):
        DeviceMgr([])


def test_s10_containers_are_cleared_on_all_devices(devices: DeviceMgr) -> None:
    for one in devices:
        one.resource_mgr.create("", "r", object())
        one.resource_mgr.create("box", "r", object())
    devices.clear_containers(["box"])
    assert all(one.resource_mgr.containers() == ["localhost"] for one in devices)
    devices.clear_containers([])
    assert all(one.resource_mgr.containers() == [] for one in devices)


def test_s11_closing_frees_resources_and_kernels(devices: DeviceMgr) -> None:
    (one, *_) = devices
    one.resource_mgr.create("", "r", object())
    definition = KernelDef(("Neg",), np.negative)
    one.op_segment.add_hold("s")
    one.op_segment.of_session("s").find_or_create(
        "n", lambda: OpKernel(np.negative, definition, "n", "Neg")
    )
    devices.close()
    assert one.resource_mgr.containers() == []
    with pytest.raises(errors.CancelledError, match="Session 's' has been closed"):
        one.op_segment.of_session("s")


def test_s1_attributes_are_written_as_the_message() -> None:
    attributes = DeviceAttributes("/device:NPU:0", "NPU", 1024, 77, "a card")
    message = attributes.to_proto()
    assert (message.name, message.device_type) == ("/device:NPU:0", "NPU")
    assert (message.memory_limit, message.incarnation) == (1024, 77)
    assert message.physical_device_desc == "a card"


def test_s1_incarnations_are_new_at_each_start_and_never_0() -> None:
    numbers = {new_incarnation() for _ in range(100)}
    assert len(numbers) == 100
    assert all(0 < number < 2**63 for number in numbers)
