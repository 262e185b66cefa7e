"""A kernel class makes an instance for each node, also for equal nodes of one program."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphmill
from graphmill.spi import hookimpl, kernel, op
from graphmill.testing.differential.compiled_graphs import jit_config

pytestmark = pytest.mark.jax

TIMES = 8  # more often than a kernel is called before its operations are recorded


@op("Mine>AddNumberInName")
def add_number_in_name(x: np.float32) -> np.float32:
    """Add the number at the end of the node's name."""
    return x  # the signature alone declares the op


@kernel("Mine>AddNumberInName")
class AddNumberInName:
    def __init__(self, construction: Any) -> None:
        self.xp = construction.xp
        self.number = float(construction.node_name.rpartition("_")[2])

    def __call__(self, x: Any) -> Any:
        return self.xp.add(x, np.float32(self.number))


class Plugin:
    @hookimpl
    def graphmill_register_ops(self, ops: Any) -> None:
        ops.add(add_number_in_name)

    @hookimpl
    def graphmill_register_kernels(self, kernels: Any) -> None:
        kernels.add(AddNumberInName)


@pytest.mark.parametrize("mode", ["off", "eager"])
@pytest.mark.parametrize("is_one_cluster", [False, True])
def test_each_node_has_its_own_kernel(mode: str, *, is_one_cluster: bool) -> None:
    host = graphmill.Host(plugins=[Plugin()])
    graph = graphmill.Graph(ops=host.ops)
    with graph.as_default():
        inputs = [graph.placeholder("float32", [2], name=f"x_{n}") for n in range(TIMES)]
        add = graphmill.op_function(add_number_in_name)
        sums = [add(x, name=f"sum_{n}") for n, x in enumerate(inputs)]
        total = graphmill.ops.array.pack(sums, name="total")
    fetches = total.name if is_one_cluster else [y.name for y in sums]
    feeds = {x.name: [0.0, 1.0] for x in inputs}
    definition = graph.as_graph_def()  # equal attrs of its nodes become one object
    with graphmill.Session(graph=definition, host=host, config=jit_config(mode)) as session:
        for _ in range(2):
            results = session.run(fetches, feeds)
        is_compiled = bool(session.explain(fetches, list(feeds)).compilations)
    assert [result.tolist() for result in results] == [[n, n + 1] for n in range(TIMES)]
    assert is_compiled == (mode == "eager")
