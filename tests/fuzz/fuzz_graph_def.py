"""Fuzz target: run a serialized GraphDef without any effect."""

from __future__ import annotations

import contextlib
from pathlib import Path

import graphmill
from graphmill import errors, proto

_DATA = Path(__file__).parents[1] / "data" / "v1_gradients"
_CONFIG = {
    "operation_timeout_in_ms": 2_000,
    "graphmill": {
        "jit": "off",
        "memory_budget_bytes": 1 << 24,
        "forbid_effects": ["fs.read", "fs.write", "net", "process", "python"],
    },
}
_MAX_FETCHES = 3


def seeds() -> list[bytes]:
    """Return graphs with control flow, and one of a few nodes with a function."""
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
    stored = [path.read_bytes() for path in sorted(_DATA.glob("*.pb"))[:2]]
    return [small.SerializeToString(), *stored]


def fuzz(data: bytes) -> None:
    """Parse a graph and run its last nodes."""
    with (
        contextlib.suppress(errors.OpError),
        graphmill.Session(graph=data, config=_CONFIG) as session,
    ):
        names = [node.name for node in session.graph.nodes][-_MAX_FETCHES:]
        for name in names:
            with contextlib.suppress(errors.OpError):
                session.run(name, options=proto.RunOptions(timeout_in_ms=1_000))


if __name__ == "__main__":
    import sys

    from harness import main

    main(sys.modules[__name__])
