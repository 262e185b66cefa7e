"""The scheme of a target selects the session factory (clause W0)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphmill
from graphmill import errors, proto
from graphmill.ops.attrs.attr_types import ShapeAttr
from graphmill.plugin.host import Host
from graphmill.runtime.devices.device_mgr import DeviceMgr
from graphmill.runtime.session_interface import SessionFactory
from graphmill.session.direct_session import DirectSession
from graphmill.session.session_devices import create_devices
from graphmill.testing.proto_builders import const_def, graph_def, node_def

TASK = "/job:worker/replica:0/task:3"
X = node_def("x", "Placeholder", dtype="float32")
Y = node_def("y", "Neg", "x", T="float32")


class Elsewhere(DirectSession):
    """A session of this process that claims to be on a server."""


class ElsewhereFactory(SessionFactory):
    """Creates `Elsewhere` for targets `away://...`."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def new_session(self, target: str, config: Any, host: Host) -> Elsewhere:
        self.calls.append(("new", target))
        return Elsewhere(host, config)

    def reset(self, target: str, containers: Any, config: Any, host: Host) -> None:
        self.calls.append(("reset", target, containers))

    @graphmill.hookimpl
    def graphmill_register_session_factories(self, session_factories: Any) -> None:
        session_factories.add("away", self)


def test_w0_the_scheme_of_the_target_chooses_the_factory() -> None:
    factory = ElsewhereFactory()
    with graphmill.Session("away://there:1", graph_def(X, Y), host=Host([factory])) as session:
        assert session.run("y:0", {"x:0": 2.0}) == -2
        assert session.make_callable("y:0", ["x:0"])(3.0) == -3
    assert factory.calls == [("new", "away://there:1")]


def test_w0_reset_goes_to_the_factory_of_the_target() -> None:
    factory = ElsewhereFactory()
    graphmill.reset("away://there:1", ["a"], host=Host([factory], load_entry_points=False))
    assert factory.calls == [("reset", "away://there:1", ["a"])]


@pytest.mark.parametrize("call", [graphmill.Session, graphmill.reset])
def test_w0_unknown_scheme_lists_alternatives(call: Any) -> None:
    host = Host([ElsewhereFactory()], load_entry_points=False)
    with pytest.raises(
        errors.NotFoundError, match=r"known are '' \(this process\), 'away://\.\.\.'"
    ):
        call("smoke://there", host=host)


@pytest.fixture
def host() -> Host:
    return Host()


@pytest.fixture
def devices(host: Host) -> DeviceMgr:
    return DeviceMgr(create_devices(host, proto.ConfigProto(), TASK))


def test_devices_of_a_server_are_named_after_its_task(host: Host, devices: DeviceMgr) -> None:
    assert devices.host.name == f"{TASK}/device:CPU:0"
    session = DirectSession(host, proto.ConfigProto(), devices)
    session.extend(graph_def(X, Y))
    signature = ("x:0",), ("y:0",), ()
    assert session.run(signature, [2.0], None, None) == [-2]
    assert session.list_devices()[0].name == f"{TASK}/device:CPU:0"
    session.close()


def _counter() -> Any:
    variable = node_def("v", "VarHandleOp", dtype="float32", shape=ShapeAttr(()), shared_name=b"v")
    one = const_def("one", 1.0)
    return graph_def(
        variable,
        one,
        node_def("set", "AssignVariableOp", "v", "one", dtype="float32"),
        node_def("add", "AssignAddVariableOp", "v", "one", dtype="float32"),
        node_def("get", "ReadVariableOp", "v", dtype="float32"),
    )


def test_sessions_of_a_server_share_device_resources(host: Host, devices: DeviceMgr) -> None:
    first, second = (DirectSession(host, proto.ConfigProto(), devices) for _ in range(2))
    for session in (first, second):
        session.extend(_counter())
    first.run(((), (), ("set",)), [], None, None)
    second.run(((), (), ("add",)), [], None, None)
    assert first.run(((), ("get:0",), ()), [], None, None) == [2]
    first.close()
    assert second.run(((), ("get:0",), ()), [], None, None) == [2]
    second.close()
    assert devices.host.resource_mgr.containers() == ["localhost"]


def test_sessions_of_a_server_have_stateful_kernels_of_their_own(
    host: Host, devices: DeviceMgr
) -> None:
    draw = node_def("draw", "RandomUniform", "shape", T="int32", dtype="float32", seed=3, seed2=4)
    shape = const_def("shape", [2])
    drawn = []
    for _ in range(2):
        session = DirectSession(host, proto.ConfigProto(), devices)
        session.extend(graph_def(shape, draw))
        drawn.append([session.run(((), ("draw:0",), ()), [], None, None)[0] for _ in range(2)])
        session.close()
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert not np.array_equal(drawn[0][0], drawn[0][1])
