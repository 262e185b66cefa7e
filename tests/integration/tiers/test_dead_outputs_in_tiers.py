"""A `DEAD` output of a plugin's kernel has the same effect in every tier."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

import graphmill
from graphmill import errors, ops
from graphmill.spi import DEAD, OpTraits

if TYPE_CHECKING:
    from collections.abc import Callable

TIERS: Final = ("off", "tiered", "eager")
STEPS: Final = 6  # a signature is compiled after the third one


def gate(traits: OpTraits) -> Callable[..., Any]:
    """Return an op that forwards positive values; other outputs are dead."""

    @graphmill.op("Mine>Gate", outputs=("y",), traits=traits)
    @graphmill.kernel("Mine>Gate")
    def let_through(xp: Any, x: graphmill.float32) -> graphmill.float32:
        return x if bool(x > 0) else DEAD

    return let_through


def router(traits: OpTraits) -> Callable[..., Any]:
    """Return an op that routes a value by its sign: negative values first."""

    @graphmill.op("Mine>Gate", outputs=("y", "z"), traits=traits)
    @graphmill.kernel("Mine>Gate")
    def route(xp: Any, x: graphmill.float32) -> tuple[graphmill.float32, graphmill.float32]:
        return (DEAD, x) if bool(x > 0) else (x, DEAD)

    return route


def host_with(declared: Any) -> graphmill.Host:
    class Plugin:
        @staticmethod
        @graphmill.hookimpl
        def graphmill_register_ops(ops: Any) -> None:
            ops.add(declared)

        @staticmethod
        @graphmill.hookimpl
        def graphmill_register_kernels(kernels: Any) -> None:
            kernels.add(declared)

    return graphmill.Host(plugins=[Plugin])


def session_of(declared: Any, tier: str) -> graphmill.Session:
    """Return a session: `chosen` merges two branches, `alone` reads the first output."""
    host = host_with(declared)
    graph = graphmill.Graph(ops=host.ops)
    with graph.as_default():
        x = graph.placeholder("float32", [], name="x")
        outputs = graph.outputs_of(graph.create_op("Mine>Gate", [x]))
        first = ops.math.neg(ops.math.exp(outputs[0]))
        ops.math.neg(first, name="alone")
        ops.math.neg(ops.math.square(x), name="beside")
        if len(outputs) > 1:
            second = ops.math.neg(ops.math.square(outputs[1]))
            ops.control_flow.merge([first, second], name="chosen")
    config = {"graphmill": {"jit": tier, "jit_min_cluster_size": 1}}
    return graphmill.Session(graph=graph, config=config, host=host)


@pytest.mark.parametrize("tier", TIERS)
def test_consumer_of_dead_output_does_not_run(tier: str) -> None:
    with session_of(gate(OpTraits(gives_dead=True)), tier) as session:
        for _ in range(STEPS):
            assert session.run("alone:0", {"x:0": 2.0}) == pytest.approx(np.exp(2.0))
            with pytest.raises(errors.InvalidArgumentError, match="'alone:0' was not evaluated"):
                session.run("alone:0", {"x:0": -2.0})
            assert session.run("beside:0", {"x:0": -2.0}) == -4
            session._impl.host.background.wait_idle(30)


@pytest.mark.parametrize("tier", TIERS)
def test_outputs_are_dead_independently(tier: str) -> None:
    with session_of(router(OpTraits(gives_dead=True)), tier) as session:
        for _ in range(STEPS):
            chosen, beside = session.run(["chosen:0", "beside:0"], {"x:0": 2.0})
            assert (chosen, beside) == (-4, -4)
            chosen, beside = session.run(["chosen:0", "beside:0"], {"x:0": -2.0})
            assert (chosen, beside) == (pytest.approx(-np.exp(-2.0)), -4)
            session._impl.host.background.wait_idle(30)


@pytest.mark.parametrize("made", [gate, router])
def test_undeclared_dead_output_is_a_kernel_fault(made: Any) -> None:
    with session_of(made(OpTraits()), "off") as session:
        for value in (-2.0, 2.0) if made is router else (-2.0,):
            with pytest.raises(errors.InternalError, match="gives_dead=True") as caught:
                session.run("alone:0", {"x:0": value})
            assert caught.value.op_type == "Mine>Gate"


def test_dead_output_is_not_folded() -> None:
    host = host_with(gate(OpTraits(gives_dead=True)))
    graph = graphmill.Graph(ops=host.ops)
    with graph.as_default():
        (y,) = graph.outputs_of(graph.create_op("Mine>Gate", [graph.constant(-1.0)]))
        ops.math.neg(y, name="y")
    with (
        graphmill.Session(graph=graph, host=host) as session,
        pytest.raises(errors.InvalidArgumentError, match="was not evaluated"),
    ):
        session.run("y:0")
