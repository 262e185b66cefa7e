"""Fuzz target: run a serialized GraphDef without any effect."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from case_seeds import case_seeds
from session_config import session_config
from typed_errors import typed_errors

import graphmill
from graphmill import proto

_DATA = Path(__file__).parents[1] / "data" / "v1_gradients"
_CONFIG = session_config(
    200, 1 << 24, forbid_effects=["fs.read", "fs.write", "net", "process", "python"]
)
_MAX_FETCHES = 3


@cache
def seeds() -> list[bytes]:
    """Return graphs with control flow, functions, lists and variables."""
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.constant([[1.0, 2.0], [3.0, 4.0]], name="x")
        graph.constant([b"one", b"two"], name="text")
        graphmill.ops.math.add_v2(x @ x, 1.0, name="y")
    small = graph.as_graph_def()
    function = small.library.function.add()
    function.signature.name = "f"
    function.signature.input_arg.add(name="x", type=1)
    function.signature.output_arg.add(name="y", type=1)
    function.node_def.add(name="s", op="Square", input=["x"]).attr["T"].type = 1
    function.ret["y"] = "s:y:0"
    call = small.node.add(name="call", op="PartitionedCall", input=["x"])
    call.attr["Tin"].list.type.append(1)
    call.attr["Tout"].list.type.append(1)
    call.attr["f"].func.name = "f"
    stored = (_DATA / "cond_in_loop.pb").read_bytes()
    cases = case_seeds("control_flow", "functional", "tensor_list", "state")
    return [small.SerializeToString(), stored, *cases]


def read_message(data: bytes) -> proto.GraphDef:
    """Return the graph in a seed."""
    return proto.GraphDef.FromString(data)


def write_message(message: proto.GraphDef, data: bytes) -> bytes:
    """Return a graph as input."""
    del data
    return message.SerializeToString()


def fuzz(data: bytes) -> None:
    """Parse a graph and run its last nodes."""
    with (
        typed_errors(),
        graphmill.Session(graph=data, config=_CONFIG) as session,
    ):
        names = [node.name for node in session.graph.nodes][-_MAX_FETCHES:]
        for name in names:
            with typed_errors():
                session.run(name)


if __name__ == "__main__":
    import sys

    from harness import main

    main(sys.modules[__name__])
