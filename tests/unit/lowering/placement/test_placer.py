"""The placer: requests, colocation, kernels, preferences, reasons (clause P1)."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest

import graphmill
from graphmill import dtypes, errors, ops
from graphmill.lowering.placement.placer import PlacementOptions, place
from graphmill.ops.definition.op_def import ArgDef, OpDef
from graphmill.runtime.devices.device import Device, DeviceAttributes
from graphmill.runtime.devices.device_mgr import DeviceMgr
from graphmill.runtime.kernels.kernel import KernelDef
from graphmill.runtime.kernels.kernel_registry import KernelRegistry

PREFIX = "/job:localhost/replica:0/task:0/device:"


class PlainDevice(Device):
    def namespace(self, backend: str) -> Any:
        return np

    def to_device(self, value: Any) -> Any:
        return value

    def to_host(self, value: Any) -> Any:
        return value


class HostDevice(PlainDevice):
    is_host_memory = True


class Placing:
    """A graph, devices `FAST:0`, `FAST:1`, `CPU:0`, `CPU:1` in that order, and kernels."""

    def __init__(self) -> None:
        self.graph = graphmill.Graph()
        self.kernels = KernelRegistry()
        self.devices = DeviceMgr(
            [PlainDevice(DeviceAttributes(f"{PREFIX}FAST:{n}", "FAST")) for n in (0, 1)]
            + [HostDevice(DeviceAttributes(f"{PREFIX}CPU:{n}", "CPU")) for n in (0, 1)]
        )
        self.pinned: dict[str, str] = {}
        self.records: dict[str, Any] = {}

    def node(self, name: str, *inputs: Any, on: str = "", kernels: str = "FAST CPU", **more: Any):
        """Add a node of a new op with kernels on some device types."""
        dtype = more.get("dtype", dtypes.float32)
        op_def = OpDef(
            name=f"Op_{name}",
            input_args=tuple(ArgDef(f"i{n}", dtype) for n in range(len(inputs))),
            output_args=(ArgDef("o", dtype),),
            is_stateful=more.get("stateful", False),
            family="test",
        )
        for kind in kernels.split():
            definition = KernelDef(
                (op_def.name,),
                lambda *_: None,
                device=() if more.get("host") else (kind,),
                host=more.get("host", False),
            )
            self.kernels.add(definition)
            if more.get("host"):
                break
        attrs = {"_class": tuple(f"loc:@{c}".encode() for c in more.get("with_", ()))}
        return self.graph.add_node(name, op_def, [(i, 0) for i in inputs], attrs=attrs, device=on)

    def place(self, **options: Any) -> Any:
        full = options.pop("full", None)
        settings = PlacementOptions(self.devices, self.kernels, **options)
        records = place(self.graph, settings, full=full, pinned=self.pinned)
        self.records = {record.node: record for record in records}
        return self

    def __getitem__(self, name: str) -> str:
        return self.graph.node(name).assigned_device.removeprefix(PREFIX)


@pytest.fixture
def placing() -> Placing:
    return Placing()


def test_the_preferred_device_with_a_kernel_is_taken_p1(placing: Placing) -> None:
    a = placing.node("a")
    placing.node("b", a)
    placing.node("c", a, kernels="CPU")
    placing.place()
    assert (placing["b"], placing["c"]) == ("FAST:0", "CPU:0")
    assert placing.records["b"].reason == "the preferred device"
    assert placing.records["c"].reason == "the only device type with kernels for it"


@pytest.mark.parametrize(
    ("request_", "device"),
    [
        ("/cpu:1", "CPU:1"),
        ("/device:CPU:*", "CPU:0"),
        ("/task:0", "FAST:0"),
        ("/device:FAST:1",) * 2,
    ],
)
def test_a_request_whole_or_in_part_is_met_p1(placing: Placing, request_: str, device: str) -> None:
    placing.node("b", placing.node("a"), on=request_)
    assert placing.place()["b"] == device.removeprefix("/device:")
    assert placing.records["b"].reason == "requested"
    assert placing.records["b"].requested == request_


def test_colocation_is_transitive_and_carries_requests_p1(placing: Placing) -> None:
    placing.node("y", placing.node("x"), with_=["z"])
    placing.node("w", placing.node("v"), with_=["y"])
    placing.node("z", placing.node("u"), on="/device:CPU:1")
    placing.place()
    assert placing["y"] == placing["w"] == placing["z"] == "CPU:1"
    assert placing.records["w"].reason == "colocated with z, which requests it"


def test_colocation_with_a_node_that_is_gone_still_joins_p1(placing: Placing) -> None:
    placing.node("a", placing.node("s"), with_=["gone"], on="/cpu:1")
    placing.node("b", placing.node("t"), with_=["gone"])
    assert placing.place()["b"] == "CPU:1"


def test_group_is_placed_where_all_members_have_kernels_p1(placing: Placing) -> None:
    placing.node("a", placing.node("s"), kernels="CPU")
    placing.node("b", placing.node("t"), with_=["a"])
    assert placing.place()["b"] == "CPU:0"


def test_references_and_handles_are_colocated_with_users_p1() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        ref = ops.state.variable_v2(shape=(), dtype="float32", name="ref")
        with graph.device("/cpu:1"):
            ops.state.assign(ref, 1.0, name="assign")
            handle = ops.state.var_handle_op(dtype="float32", shape=(), name="handle")
        ops.state.read_variable_op(handle, dtype="float32", name="read")
    devices = Placing().devices
    place(graph, PlacementOptions(devices, graphmill.default_host().kernels))
    expected = ["ref", "assign", "handle", "read"]
    assert {graph.node(n).assigned_device for n in expected} == {PREFIX + "CPU:1"}


def test_a_generator_follows_its_consumers_p1(placing: Placing) -> None:
    one, two, both = placing.node("one"), placing.node("two"), placing.node("both")
    placing.node("x", one, both, on="/cpu:1")
    placing.node("y", two, both, on="/device:FAST:1")
    placing.place()
    assert (placing["one"], placing["two"], placing["both"]) == ("CPU:1", "FAST:1", "FAST:0")
    assert placing.records["one"].reason == "follows its consumer x"


def test_shape_ops_follow_their_input_p1() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", name="x")
        with graph.device("/cpu:1"):
            y = ops.math.add_v2(x, x)
        ops.array.shape(y, name="shape")
    options = PlacementOptions(Placing().devices, graphmill.default_host().kernels)
    records = {record.node: record for record in place(graph, options)}
    assert records["shape"].device == PREFIX + "CPU:1"
    assert records["shape"].reason.startswith("follows its input")


def test_host_kernels_prefer_host_memory_but_obey_a_request_p1(placing: Placing) -> None:
    placing.node("free", placing.node("s"), host=True)
    placing.node("bound", placing.node("t"), host=True, on="/device:FAST:0")
    placing.place()
    assert (placing["free"], placing["bound"]) == ("CPU:0", "FAST:0")


def test_the_default_device_is_preferred_where_it_can_be_p1(placing: Placing) -> None:
    placing.node("a", placing.node("s"))
    placing.node("b", placing.node("t"), on="/cpu:0")
    (default,) = placing.devices.matching("/cpu:1")
    placing.place(default_device=default)
    assert (placing["a"], placing["b"]) == ("CPU:1", "CPU:0")


def test_a_device_that_does_not_exist_is_refused_p1(placing: Placing) -> None:
    placing.node("b", placing.node("a"), on="/device:GPU:0")
    with pytest.raises(errors.InvalidArgumentError, match="Cannot assign a device") as caught:
        placing.place()
    assert caught.value.node == "b"
    assert "CPU:1" in str(caught.value)
    assert 'its sessions may need device_count={"GPU": 1}' in str(caught.value)


def test_more_devices_of_a_type_that_exists_are_not_advised_p1(placing: Placing) -> None:
    placing.node("b", placing.node("a"), on="/device:CPU:7")
    with pytest.raises(errors.InvalidArgumentError, match="supplies the device, or set") as caught:
        placing.place()
    assert "device_count" not in str(caught.value)


def test_a_device_without_a_kernel_is_refused_op_by_op_p1(placing: Placing) -> None:
    placing.node("a", placing.node("s"), kernels="CPU")
    placing.node("b", placing.node("t"), on="/device:FAST:0", with_=["a"])
    with pytest.raises(errors.InvalidArgumentError, match="no device that matches") as caught:
        placing.place()
    message = str(caught.value)
    assert "a (Op_a): kernels: FAST: no kernel, CPU: yes" in message
    assert "b (Op_b): requests /device:FAST:0; kernels: FAST: yes, CPU: yes" in message


def test_requests_that_cannot_both_be_met_are_refused_p1(placing: Placing) -> None:
    placing.node("a", placing.node("s"), on="/cpu:0", with_=["gone"])
    placing.node("b", placing.node("t"), on="/cpu:1", with_=["gone"])
    with pytest.raises(errors.InvalidArgumentError, match="Cannot colocate nodes 'a' and 'b'"):
        placing.place()


def test_request_of_a_node_overrides_that_of_a_node_colocated_with_it(placing: Placing) -> None:
    placing.node("b", placing.node("t"), on="/cpu:1", with_=["a"])
    placing.node("a", placing.node("s"), on="/cpu:0")
    placing.place()
    assert placing["a"] == placing["b"] == "CPU:0"


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("dtype", [dtypes.resource, dtypes.float32.as_ref])
def test_handle_consumers_are_colocated_p1(placing: Placing, dtype: Any, soft: bool) -> None:
    v = placing.node("v", on="/cpu:1", dtype=dtype)
    placing.node("write", v, on="/cpu:0", dtype=dtype)
    placing.node("read", v, on="/device:FAST:0", dtype=dtype)
    placing.place(allow_soft_placement=soft)
    assert placing["v"] == placing["write"] == placing["read"] == "CPU:1"
    assert placing.records["write"].reason == "colocated with v, which requests it"


def test_existing_variable_device_wins_over_request_p1(
    placing: Placing,
) -> None:
    v = placing.node("v", dtype=dtypes.resource, stateful=True)
    placing.pinned["v"] = f"{PREFIX}FAST:1"
    placing.node("write", v, on="/cpu:0", dtype=dtypes.resource)
    placing.place()
    assert placing["v"] == placing["write"] == "FAST:1"


def test_unplaced_variable_follows_first_request_p1(placing: Placing) -> None:
    v = placing.node("v", dtype=dtypes.resource)
    placing.node("write", v, on="/cpu:1", dtype=dtypes.resource)
    placing.node("read", v, on="/cpu:0", dtype=dtypes.resource)
    placing.place()
    assert placing["v"] == placing["write"] == placing["read"] == "CPU:1"


def test_a_malformed_request_names_its_node_p1(placing: Placing) -> None:
    placing.node("b", placing.node("a"), on="/devcie:CPU:0")
    with pytest.raises(errors.InvalidArgumentError, match="Malformed device") as caught:
        placing.place()
    assert caught.value.node == "b"


def test_soft_placement_ignores_impossible_requests_p1(placing: Placing) -> None:
    placing.node("none", placing.node("s"), on="/device:GPU:0")
    placing.node("lacks", placing.node("t"), on="/device:FAST:0", kernels="CPU")
    placing.node("a", placing.node("u"), on="/cpu:0")
    placing.node("b", placing.node("v"), on="/cpu:1", with_=["a"])
    placing.place(allow_soft_placement=True)
    assert (placing["none"], placing["lacks"]) == ("FAST:0", "CPU:0")
    assert placing["a"] == placing["b"] == "CPU:0"
    assert placing.records["none"].reason.startswith("soft placement")


@pytest.mark.parametrize("soft", [False, True])
def test_soft_placement_keeps_job_and_task_d10(placing: Placing, soft: bool) -> None:
    placing.node("far", placing.node("s"), on="/job:worker/task:1/cpu:0")
    with pytest.raises(errors.InvalidArgumentError, match="is not a task of the session") as caught:
        placing.place(allow_soft_placement=soft)
    assert caught.value.node == "far"
    assert "/job:worker/task:1 is no" in caught.value.message


def test_missing_kernel_is_reported_with_all_others_g3(placing: Placing) -> None:
    placing.node("b", placing.node("a"), kernels="")
    assert placing.place()["b"] == "FAST:0"


def test_stateful_nodes_keep_their_earlier_device_p1(placing: Placing) -> None:
    placing.pinned["v"] = PREFIX + "CPU:1"
    placing.node("v", placing.node("s"), stateful=True)
    placing.node("new", placing.node("t"), stateful=True)
    placing.place()
    assert placing["v"] == "CPU:1"
    assert placing.pinned == {"v": PREFIX + "CPU:1", "new": PREFIX + "FAST:0"}


def test_device_requests_of_full_graph_apply_to_subgraph_p1(placing: Placing) -> None:
    whole = Placing()
    whole.node("v", whole.node("s"))
    whole.node("user", whole.node("t"), on="/cpu:1", with_=["v"])
    placing.node("v", placing.node("s"))
    assert placing.place(full=whole.graph)["v"] == "CPU:1"


def test_placements_are_logged_on_request_p1(
    placing: Placing, caplog: pytest.LogCaptureFixture
) -> None:
    placing.node("b", placing.node("a"), on="/cpu:1")
    with caplog.at_level(logging.INFO, "graphmill.placement"):
        placing.place()
        assert not caplog.records
        placing.place(log=True)
    assert f"b: (Op_b): {PREFIX}CPU:1 (requested)" in caplog.text


def test_placements_are_printed_where_their_level_is_not_logged(
    placing: Placing, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    placing.node("b", placing.node("a"), on="/cpu:1")
    with caplog.at_level(logging.WARNING, "graphmill.placement"):
        placing.place(log=True)
    assert not caplog.records
    assert f"b: (Op_b): {PREFIX}CPU:1 (requested)" in capsys.readouterr().err


def test_placements_are_printed_where_no_logging_is_set_up_p1(
    placing: Placing, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("graphmill.placement"), "propagate", False)
    placing.node("b", placing.node("a"), on="/cpu:1")
    placing.place(log=True)
    assert f"b: (Op_b): {PREFIX}CPU:1 (requested)" in capsys.readouterr().err
