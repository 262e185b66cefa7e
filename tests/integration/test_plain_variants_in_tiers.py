"""A variant of a plugin's own class goes into built-in containers and comes out, in each tier."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphmill
from graphmill import dtypes, proto
from graphmill.ops.op_def import ArgDef, OpDef
from graphmill.spi import kernel
from graphmill.testing.foreign import ForeignPlugin
from graphmill.testing.tier_programs import graph_def

TIERS = ("off", "tiered", "eager")
STEPS = 6


class Box:
    """Nothing of it looks like a tensor; what it calls its shape is none of a tensor."""

    shape = "round"

    def __init__(self, value: Any) -> None:
        self.value = value

    def zeros_like(self, xp: Any) -> Box:
        return Box(xp.zeros_like(self.value))

    def add(self, xp: Any, other: Any) -> Box:
        return Box(xp.add(self.value, other.value))


@kernel("ForeignBox")
def box(xp: Any, x: Any) -> Box:
    return Box(xp.add(x, x))


@kernel("ForeignOpen")
def open_(xp: Any, v: Any) -> Any:
    return xp.add(v.value, 1)


FLOAT, VARIANT = dtypes.float32, dtypes.variant
OPS = (
    OpDef("ForeignBox", (ArgDef("x", FLOAT),), (ArgDef("v", VARIANT),)),
    OpDef("ForeignOpen", (ArgDef("v", VARIANT),), (ArgDef("y", FLOAT),)),
)
CONSTANTS = (
    *("e = Const(dtype=int32, value='int32: []')", "zero = Const(dtype=int32, value='int32: 0')"),
    *("one = Const(dtype=int32, value='int32: 1')", "two = Const(dtype=int32, value='int32: 2')"),
)
MAPS = "m(v: variant) -> (variant): y = Identity(v); return y"
CONTAINERS: dict[str, tuple[str, ...]] = {
    "pack and unpack": ("k = Pack([b, b])", "u = Unpack(k, num=2, axis=0)", "o = Identity(u[1])"),
    "queue": (
        "q = FIFOQueueV2(component_types=[variant], shapes=[[]])",
        "w = QueueEnqueueV2(q, [b], Tcomponents=[variant])",
        "o = QueueDequeueV2(q, component_types=[variant], after=[w])",
    ),
    "queue of many": (
        "k = Pack([b, b])",
        "q = FIFOQueueV2(component_types=[variant], shapes=[[]])",
        "w = QueueEnqueueManyV2(q, [k], Tcomponents=[variant])",
        "r = QueueDequeueManyV2(q, two, component_types=[variant], after=[w])",
        *("u = Unpack(r, num=2, axis=0)", "o = Identity(u[1])"),
    ),
    "staging": (
        "w = Stage([b], dtypes=[variant], shared_name='s')",
        "o = Unstage(dtypes=[variant], shared_name='s', after=[w])",
    ),
    "staging of some bytes": (
        "w = Stage([b], dtypes=[variant], shared_name='s', memory_limit=1000)",
        "o = Unstage(dtypes=[variant], shared_name='s', memory_limit=1000, after=[w])",
    ),
    "function": ("o = PartitionedCall([b], Tout=[variant], f=m)",),
}


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("container", CONTAINERS)
def test_a_plain_variant_comes_out_as_it_went_in(container: str, tier: str) -> None:
    host = graphmill.Host(plugins=[ForeignPlugin(OPS, (box, open_))])
    config = proto.ConfigProto()
    config.graphmill.jit = tier
    config.graphmill.jit_min_cluster_size = 1
    nodes = (*CONSTANTS, "b = ForeignBox(x)", *CONTAINERS[container], "y = ForeignOpen(o)")
    graph = graph_def(host.ops, nodes, (MAPS,), {"x": "float32: 2"})
    with graphmill.Session(graph=graph, host=host, config=config) as session:
        for step in range(STEPS):
            assert session.run("y:0", {"x:0": np.float32(step)}) == 2 * step + 1
            assert host.background.wait_idle(60.0)
