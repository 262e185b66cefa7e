"""A plugin's transport carries tensors between devices (clause R1)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphmill
import graphmill.spi
from graphmill import errors, ops
from graphmill.testing.case_graph import GraphMaker
from graphmill.testing.case_nodes import parse_function, parse_node

HERE, THERE = "/device:CPU:0", "/device:CPU:1"


class Rendezvous(graphmill.spi.IntraProcessRendezvous):
    def __init__(self, keys: list[str]) -> None:
        super().__init__()
        self.keys = keys

    def send(self, key: str, args: Any, value: Any, is_dead: bool = False) -> None:
        self.keys.append(key)
        super().send(key, args, value, is_dead)


class Carrier(graphmill.spi.Transport):
    """Records the keys of values; creates the given object instead of a rendezvous."""

    def __init__(self, made: Any = None) -> None:
        self.keys: list[str] = []
        self.steps: list[int] = []
        self.made = made

    def new_rendezvous(self, step_id: int) -> Any:
        self.steps.append(step_id)
        if isinstance(self.made, Exception):
            raise self.made
        return Rendezvous(self.keys) if self.made is None else self.made

    @graphmill.hookimpl
    def graphmill_register_transports(self, transports: Any) -> None:
        transports.add("carrier", self)


def session_with(carrier: Carrier, graph: Any, name: str = "carrier") -> graphmill.Session:
    config = {"device_count": {"CPU": 2}, "graphmill": {"transport": name, "jit": "off"}}
    return graphmill.Session(graph=graph, config=config, host=graphmill.Host(plugins=[carrier]))


def two_devices() -> tuple[graphmill.Graph, Any, Any, Any]:
    graph = graphmill.Graph()
    with graph.as_default():
        with graph.device(HERE):
            x = graph.placeholder("float32", [2], name="x")
            here = ops.math.square(x, name="here")
        with graph.device(THERE):
            there = ops.math.neg(here, name="there")
    return graph, x, here, there


def test_transport_is_called_once_per_multi_device_step() -> None:
    carrier = Carrier()
    graph, x, here, there = two_devices()
    with session_with(carrier, graph) as session:
        assert session.run(there, {x: [1, 2]}).tolist() == [-1, -4]
        assert len(carrier.keys) == 1
        session.run(here, {x: [1, 2]})
        assert len(carrier.steps) == 1  # on one device
        session.run(there, {x: [1, 2]})
    assert len(set(carrier.steps)) == 2


def test_unnamed_transport_is_not_called() -> None:
    carrier = Carrier()
    graph, x, _, there = two_devices()
    with session_with(carrier, graph, "") as session:
        session.run(there, {x: [1, 2]})
    assert not carrier.steps


def test_a_partial_run_uses_the_transport() -> None:
    """A partial run uses the transport (clause S8)."""
    carrier = Carrier()
    graph, x, _, there = two_devices()
    with session_with(carrier, graph) as session:
        handle = session.partial_run_setup([there], [x])
        assert session.partial_run(handle, there, {x: np.float32([1, 2])}).tolist() == [-1, -4]
    assert len(carrier.steps) == 1


def test_a_function_call_on_two_devices_uses_the_transport() -> None:
    """The call of a function on two devices uses the transport (clause E10)."""
    carrier = Carrier()
    made = GraphMaker(graphmill.default_host().ops)
    made.function(parse_function("f(x: float32) -> (float32): y = Neg(x); z = Neg(y); return z"))
    made.graph_def.library.function[0].node_def[1].device = THERE
    made.node(parse_node("a = Const(value='float32: 2.0', dtype=float32)"))
    made.graph_def.node.add(name="call", op="f", input=["a"], device=HERE)
    with session_with(carrier, made.graph_def) as session:
        assert session.run("call:0") == 2
    assert carrier.keys


def test_unregistered_name_is_refused() -> None:
    with pytest.raises(errors.NotFoundError, match=r"'carier'.*did you mean 'carrier'"):
        session_with(Carrier(), two_devices()[0], "carier")


@pytest.mark.parametrize(
    ("made", "text"), [(3, "which is not a Rendezvous"), (ValueError("no link"), "no link")]
)
def test_one_that_fails_is_named(made: Any, text: str) -> None:
    graph, x, _, there = two_devices()
    with session_with(Carrier(made), graph) as session:
        with pytest.raises(errors.InternalError, match=f"the transport 'carrier' of .*{text}"):
            session.run(there, {x: [1, 2]})
        assert session.run("here:0", {x: [1, 2]}).tolist() == [1, 4]


@pytest.mark.parametrize("method", ["send", "recv_async"])
@pytest.mark.parametrize("kind", [OSError, ValueError])
def test_failed_transfer_names_the_plugin(method: str, kind: type[Exception]) -> None:
    class Broken(graphmill.spi.IntraProcessRendezvous):
        def send(self, key: str, args: Any, value: Any, is_dead: bool = False) -> None:
            if method == "send":
                raise kind("cable cut")
            super().send(key, args, value, is_dead)

        def recv_async(self, key: str, args: Any, done: Any) -> None:
            if method == "recv_async":
                raise kind("cable cut")
            super().recv_async(key, args, done)

    graph, x, _, there = two_devices()
    with session_with(Carrier(Broken()), graph) as session:
        text = f"Broken.{method} of plugin 'Carrier'.*cable cut"
        with pytest.raises(errors.InternalError, match=text) as caught:
            session.run(there, {x: [1, 2]})
    assert caught.value.plugin == "Carrier"


def test_invalid_transport_is_refused() -> None:
    class Plugin:
        @graphmill.hookimpl
        def graphmill_register_transports(self, transports: Any) -> None:
            transports.add("carrier", 5)

    graph = two_devices()[0]
    with pytest.raises(errors.OpError, match="is not a Transport"):
        graphmill.Session(
            graph=graph,
            config={"graphmill": {"transport": "carrier"}},
            host=graphmill.Host(plugins=[Plugin()]),
        )


class Dividing(graphmill.spi.ExecutorFactory):
    """Creates ordinary executors, and records the rendezvous that its parameters create."""

    def __init__(self) -> None:
        self.made: list[Any] = []

    def new_executor(self, params: Any, graph: Any) -> Any:
        self.made.append(params.new_rendezvous(7))
        return params.find_executor("DEFAULT").new_executor(params, graph)

    @graphmill.hookimpl
    def graphmill_register_executors(self, executors: Any) -> None:
        executors.add("DIVIDING", self)


def test_an_executor_can_create_rendezvous_of_the_sessions_transport() -> None:
    carrier, factory = Carrier(), Dividing()
    host = graphmill.Host(plugins=[carrier, factory])
    graph, x, _, there = two_devices()
    config = {
        "device_count": {"CPU": 2},
        "experimental": {"executor_type": "DIVIDING"},
        "graphmill": {"transport": "carrier", "jit": "off"},
    }
    with graphmill.Session(graph=graph, config=config, host=host) as session:
        session.run(there, {x: [1, 2]})
    assert [type(made) for made in factory.made] == [Rendezvous, Rendezvous]
    assert carrier.steps.count(7) == 2
