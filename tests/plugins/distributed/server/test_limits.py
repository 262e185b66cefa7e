"""Limits of a server and its responses to excess requests."""

from __future__ import annotations

from typing import Any

import pytest

import graphmill
from graphmill import errors, ops

pytest.importorskip("grpc")

from tests.plugins.distributed.server.test_cluster import free_addresses

from graphmill_plugins.distributed.server.limits import Limits, StepSlots


def config_with(**settings: Any) -> Any:
    config = graphmill.ConfigProto()
    made = config.graph_options.rewrite_options.custom_optimizers.add(name="distributed")
    for name, value in settings.items():
        if isinstance(value, bool):
            made.parameter_map[name].b = value
        elif isinstance(value, str):
            made.parameter_map[name].s = value.encode()
        else:
            made.parameter_map[name].i = value
    return config


def chain(length: int) -> graphmill.Graph:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.constant(1.0, name="x")
        for number in range(length - 1):
            x = ops.math.neg(x, name=f"n{number}")
    return graph


def test_sessions_are_bounded_and_a_closed_one_makes_room() -> None:
    with graphmill.Server(config=config_with(max_sessions=1)) as server:
        with (
            graphmill.Session(server.target, graph=chain(1)) as first,
            graphmill.Session(server.target, graph=chain(1)) as second,
        ):
            first.run("x:0")
            with pytest.raises(errors.ResourceExhaustedError, match="max_sessions"):
                second.run("x:0")
        with graphmill.Session(server.target, graph=chain(1)) as third:
            assert third.run("x:0") == 1


def test_graphs_are_bounded_when_made_and_when_they_grow() -> None:
    with graphmill.Server(config=config_with(max_graph_nodes=5)) as server:
        with (
            graphmill.Session(server.target, graph=chain(6)) as session,
            pytest.raises(errors.ResourceExhaustedError, match=r"has 6 nodes, .* limit is 5"),
        ):
            session.run("x:0")
        graph = chain(4)
        with graphmill.Session(server.target, graph=graph) as session:
            session.run("x:0")
            with graph.as_default():
                for number in range(2):
                    graph.constant(2.0, name=f"more{number}")
            with pytest.raises(errors.ResourceExhaustedError, match="has 6 nodes"):
                session.run("more1:0")


def test_graphs_of_other_masters_are_bounded() -> None:
    tasks = {"worker": free_addresses(2)}
    graph = graphmill.Graph()
    with graph.as_default(), graph.device("/job:worker/task:1"):
        x = graph.placeholder(graphmill.float32, name="x")
        for number in range(6):
            x = ops.math.neg(x, name=f"n{number}")
    with (
        graphmill.Server(tasks, "worker", 1, config=config_with(max_graph_nodes=5)),
        graphmill.Server(tasks, "worker", 0) as master,
        graphmill.Session(master.target, graph=graph) as session,
        pytest.raises(errors.ResourceExhaustedError, match="max_graph_nodes"),
    ):
        session.run("n5:0", {"x:0": 1.0})


def test_running_steps_are_bounded() -> None:
    slots = StepSlots(Limits(max_running_steps=2))
    with (
        slots,
        slots,
        pytest.raises(errors.ResourceExhaustedError, match="2 steps are running"),
        slots,
    ):
        pass
    with slots:
        pass


def test_a_step_too_many_is_refused_while_another_runs() -> None:
    with (
        graphmill.Server(config=config_with(max_running_steps=1)) as server,
        graphmill.Session(server.target, graph=chain(1)) as session,
    ):
        with (
            server._impl._master._slots,  # as a step of another client has it
            pytest.raises(errors.ResourceExhaustedError, match="max_running_steps"),
        ):
            session.run("x:0")
        assert session.run("x:0") == 1


def test_resetting_may_be_forbidden() -> None:
    with (
        graphmill.Server(config=config_with(allow_reset=False)) as server,
        pytest.raises(errors.PermissionDeniedError, match="allow_reset"),
    ):
        graphmill.reset(server.target)
    with graphmill.Server() as server:
        graphmill.reset(server.target)


@pytest.mark.parametrize(
    "settings", [{"max_sessions": -1}, {"max_graph_nodes": "many"}, {"allow_reset": 1}]
)
def test_invalid_limit_is_refused(settings: Any) -> None:
    with pytest.raises(
        errors.InvalidArgumentError, match=f"{next(iter(settings))} of plugin distributed"
    ):
        graphmill.Server(config=config_with(**settings))
