"""A step reports the error that failed it, not the cancellation that it caused (clause E8)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphmill
from graphmill import dtypes, proto
from graphmill.errors import DataLossError
from graphmill.ops.definition.op_def import ArgDef, OpDef


class Plugin:
    """`Hold` waits; when the step is cancelled, the held kernels succeed in order. `Fail` fails."""

    def __init__(self) -> None:
        self.held: dict[str, Any] = {}

    @graphmill.hookimpl
    def graphmill_register_ops(self, ops: Any) -> None:
        y = ArgDef("y", dtypes.float32)
        for name in ("Mine>Outer", "Mine>Inner", "Mine>Fail"):
            ops.add(OpDef(name, (), (y,), is_stateful=True))

    @graphmill.hookimpl
    def graphmill_register_kernels(self, kernels: Any) -> None:
        @graphmill.kernel("Mine>Outer", async_=True, waits=True)
        def outer(ctx: Any, done: Any) -> None:
            self.held["outer"] = done

        @graphmill.kernel("Mine>Inner", async_=True, waits=True)
        def inner(ctx: Any, done: Any) -> None:
            self.held["inner"] = done
            ctx.cancellation.register(self.release)

        @graphmill.kernel("Mine>Fail", host=True)
        def fail() -> Any:
            assert set(self.held) == {"outer", "inner"}
            raise DataLossError("the disk is on fire")

        for made in (outer, inner, fail):
            kernels.add(made)

    def release(self) -> None:
        """End the kernels successfully, that of the caller first, as a pool may do."""
        self.held.pop("outer")(np.float32(1))
        self.held.pop("inner")(np.float32(2))


def graph_def() -> proto.GraphDef:
    """Return a graph whose function fails while its other node and its caller wait."""
    message = proto.GraphDef()
    function = message.library.function.add()
    function.signature.name = "body"
    function.signature.is_stateful = True
    function.signature.output_arg.add(name="y", type=1)
    function.node_def.add(name="later", op="NoOp")  # runs after "inner": the last comes first
    function.node_def.add(name="inner", op="Mine>Inner")
    function.node_def.add(name="fail", op="Mine>Fail", input=["^later"])
    y = function.node_def.add(name="sum", op="AddV2", input=["inner:y:0", "fail:y:0"])
    y.attr["T"].type = 1
    function.ret["y"] = "sum:z:0"
    message.node.add(name="later", op="NoOp")
    message.node.add(name="outer", op="Mine>Outer")
    call = message.node.add(name="call", op="StatefulPartitionedCall", input=["^later"])
    call.attr["f"].func.name = "body"
    call.attr["Tin"].list.SetInParent()
    call.attr["Tout"].list.type.append(1)
    call.attr["executor_type"].s = b"DEFAULT"
    return message


def test_a_caller_that_is_cancelled_first_does_not_hide_the_error() -> None:
    host = graphmill.Host([Plugin()])
    with (
        graphmill.Session(graph=graph_def(), host=host) as session,
        pytest.raises(DataLossError, match="the disk is on fire") as raised,
    ):
        session.run(["outer:0", "call:0"])
    assert raised.value.node == "fail"
