"""`lower_functional_ops` does not change nodes whose kernel and op have different suppliers.

Lowered graphs are run by `tests/unit/distributed/master/test_functions_on_tasks.py`.
"""

from __future__ import annotations

from typing import Any

import pytest

import graphmill
from graphmill import proto
from graphmill.lowering.passes import PassOptions
from graphmill.ops.attrs.attr_types import FuncAttr
from graphmill.testing.fakes.third_party_plugin import ThirdPartyPlugin
from graphmill.testing.proto_builders import function_def, graph_def, node_def
from graphmill_plugins.passes.lower_functional_ops import lower_functional_ops

F32 = graphmill.float32


def branch(name: str, op: str) -> Any:
    body = node_def("n", op, "x", T=F32)
    return function_def(name, {"x": "float32"}, {"r": ("float32", "n:y:0")}, body)


@pytest.mark.parametrize("is_overridden", [False, True])
def test_conditional_with_a_kernel_of_a_plugin_is_not_lowered(is_overridden: bool) -> None:
    @graphmill.kernel("StatelessIf", host=True, priority=10)
    def overriding(cond: Any, input: Any) -> Any:  # noqa: A002 - the op's name for it
        return input

    message = graph_def(
        node_def("p", "Placeholder", dtype="bool"),
        node_def("x", "Placeholder", dtype="float32"),
        node_def(
            *("c", "StatelessIf", "p", "x"),
            then_branch=FuncAttr("then"),
            else_branch=FuncAttr("else"),
            Tcond=graphmill.bool,
            Tin=[F32],
            Tout=[F32],
            _lower_using_switch_merge=True,
        ),
        functions=[branch("then", "Neg"), branch("else", "Square")],
    )
    kernels = [overriding] if is_overridden else []
    host = graphmill.Host(plugins=[ThirdPartyPlugin(kernels=kernels)])
    graph = graphmill.Graph.from_graph_def(message)
    config = proto.ConfigProto()
    with graphmill.Session(graph=graph, host=host) as session:
        lower_functional_ops(graph, PassOptions(config, session._impl.devices, host))
    lowered = {node.op for node in graph.nodes}
    assert ("StatelessIf" in lowered) == is_overridden
    assert ("Merge" in lowered) != is_overridden
