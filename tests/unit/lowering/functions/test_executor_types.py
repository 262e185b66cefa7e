"""`PartitionedCall` runs its function with the executor that `executor_type` names.

Semantics: `PartitionedCallOp` in `tensorflow/core/kernels/partitioned_function_ops.cc`.
"""

from __future__ import annotations

from typing import Any

import pytest

import graphmill
from graphmill import errors
from graphmill.ops.attrs.attr_types import FuncAttr
from graphmill.runtime.wrapping_executor import executor_over
from graphmill.spi import ExecutorFactory, hookimpl
from graphmill.testing.proto_builders import const_def, function_def, graph_def, node_def

DOUBLE = function_def(
    "double",
    {"n": "int32"},
    {"y": ("int32", "product:z:0")},
    const_def("two", 2),
    node_def("product", "Mul", "n", "two:output:0", T="int32"),
)


def calling(op: str, executor_type: str) -> Any:
    types = {"Tin": ["int32"], "Tout": ["int32"], "executor_type": executor_type.encode()}
    call = node_def("call", op, "x", f=FuncAttr("double"), **types)
    last = node_def("y", "Neg", "call", T="int32")
    return graph_def(node_def("x", "Placeholder", dtype="int32"), call, last, functions=[DOUBLE])


class Counting:
    """A plugin with an executor that counts its graphs."""

    def __init__(self) -> None:
        self.graphs: list[list[str]] = []

    @hookimpl
    def graphmill_register_executors(self, executors: Any) -> None:
        graphs = self.graphs

        class Factory(ExecutorFactory):
            def new_executor(self, params: Any, graph: Any) -> Any:
                graphs.append(sorted(node.op for node in graph.nodes))
                return executor_over(params, graph, lambda node, kernel: kernel)

        executors.add("COUNTING", Factory)


@pytest.mark.parametrize("op", ["PartitionedCall", "StatefulPartitionedCall"])
@pytest.mark.parametrize("jit", ["off", "tiered", "eager"])
def test_the_function_has_the_executor_and_its_caller_has_not(op: str, jit: str) -> None:
    plugin = Counting()
    host = graphmill.Host(plugins=[plugin])
    config = {"graphmill": {"jit": jit, "jit_after_steps": 1}}
    with graphmill.Session(graph=calling(op, "COUNTING"), host=host, config=config) as session:
        for _ in range(6):
            assert session.run("y:0", {"x:0": 3}) == -6
        assert host.background.wait_idle(60)
        assert session.run("y:0", {"x:0": 4}) == -8
    assert [ops for ops in plugin.graphs if ops != ["Const", "Mul", "_Arg", "_Retval"]] == []
    assert plugin.graphs


@pytest.mark.parametrize("executor_type", ["DEFAULT", "INLINE", "SINGLE_THREADED_EXECUTOR"])
def test_builtin_executors_can_be_named(executor_type: str) -> None:
    with graphmill.Session(graph=calling("PartitionedCall", executor_type)) as session:
        assert session.run("y:0", {"x:0": 3}) == -6


def test_an_unknown_executor_is_an_error_of_the_call() -> None:
    with (
        graphmill.Session(graph=calling("PartitionedCall", "NO_SUCH")) as session,
        pytest.raises(errors.NotFoundError, match="no executor 'NO_SUCH' is registered") as caught,
    ):
        session.run("y:0", {"x:0": 3})
    assert caught.value.node == "call"
