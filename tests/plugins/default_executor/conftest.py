"""Graphs for tests of propagators: nodes and edges, without working kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from graphmill import dtypes
from graphmill.graph.graph import Graph
from graphmill.ops.attrs.attr_types import TensorAttr
from graphmill.ops.definition.op_registry import OpRegistry
from graphmill.runtime.dead import DEAD
from graphmill.runtime.kernels.kernel import KernelDef
from graphmill.runtime.kernels.op_kernel import OpKernel
from graphmill_plugins.default_executor.graph_view import GraphView
from graphmill_plugins.default_executor.propagator import Propagator, SimplePropagator

if TYPE_CHECKING:
    from graphmill.graph.node import Node


class Drawing:
    """Builds a graph: `drawing.add("Merge", "m", a, b)`; inputs are nodes or (node, output)."""

    def __init__(self) -> None:
        self.graph = Graph()
        self._ops = OpRegistry()

    def add(self, op: str, name: str, *inputs: Any, after: Any = (), **attrs: Any) -> Node:
        op_def = self._ops.get(op)
        sources = [item if isinstance(item, tuple) else (item, 0) for item in inputs]
        if op_def.has_attr("T"):
            attrs.setdefault("T", dtypes.bool if op == "LoopCond" else dtypes.float32)
        if op in ("Merge", "RefMerge"):
            attrs["N"] = len(sources)
        if op == "Enter":
            attrs["frame_name"] = attrs["frame_name"].encode()
        return self.graph.add_node(name, op_def, sources, list(after), op_def.with_defaults(attrs))

    def source(self, name: str, dtype: Any = dtypes.float32, after: Any = ()) -> Node:
        """A node without inputs that runs, unlike constants."""
        return self.add("Placeholder", name, dtype=dtypes.as_dtype(dtype), after=after)

    def constant(self, name: str) -> Node:
        value = TensorAttr(1.0, dtypes.float32)
        return self.add("Const", name, dtype=dtypes.float32, value=value)

    def back_edge(self, source: Node, merge: Node) -> None:
        """Connect the second input of a merge, built as a copy of its first, to `source`."""
        self.graph.replace_input(merge, 1, source, 0)

    def view(self) -> GraphView:
        def kernel(node: Node) -> OpKernel:
            definition = KernelDef(ops=(node.op,), function=lambda: 0)
            return OpKernel(lambda *_: 0, definition, node.name, node.op)

        return GraphView(self.graph, kernel)


class Drive:
    """Drives a propagator node by node; `log` lists ready nodes with their iteration."""

    def __init__(self, drawing: Drawing, *, order: Any = None) -> None:
        self.view = drawing.view()
        self.propagator: Any = (Propagator if self.view.has_control_flow else SimplePropagator)(
            self.view
        )
        self.ready: list[Any] = []
        self.log: list[str] = []
        self.dead: list[str] = []
        self.most_iterations = 0
        self._order = order or (lambda ready: 0)
        self.propagator.start(self.ready)
        self.propagator.validate()

    def run(self, outputs: dict[str, Any] | None = None, limit: int = 10_000) -> Drive:
        """Run everything; `outputs` gives outputs by node, or a function of the iteration."""
        for _ in range(limit):
            if not self.ready:
                break
            self.step(outputs or {})
        else:
            raise AssertionError(f"still {len(self.ready)} ready after {limit} nodes")
        return self

    def step(self, outputs: dict[str, Any]) -> None:
        item, iteration, is_dead = self.ready.pop(self._order(self.ready))
        name = item.node.name + (f"@{iteration.name}" if iteration.name else "")
        self.log.append(name)
        start, stop = item.input_start, item.input_stop
        iteration.inputs[start:stop] = item.cleared
        if is_dead:
            self.dead.append(name)
            self.propagator.node_done(item, iteration, True, item.dead_outputs, self.ready)
        else:
            values = outputs.get(item.node.name, (1,) * item.num_outputs)
            if callable(values):
                values = values(iteration.number)
            if len(values) == 1 and values[0] is not DEAD:
                self.propagator.output_done(item, iteration, values[0], self.ready)
            else:
                self.propagator.node_done(item, iteration, False, values, self.ready)
        self.propagator.validate()
        if isinstance(self.propagator, Propagator):
            counts = [len(frame.iterations) for frame in self.propagator.frames.values()]
            self.most_iterations = max([self.most_iterations, *counts])


@pytest.fixture
def drawing() -> Drawing:
    return Drawing()


@pytest.fixture
def drive() -> type[Drive]:
    return Drive


TRUE = (DEAD, 1)
FALSE = (1, DEAD)


def loop(drawing: Drawing, name: str, start: Any, *, parallel: int = 10) -> dict[str, Node]:
    """Build a loop over one value: enter, merge, cond, switch, body, next, exit."""
    enter = drawing.add(
        "Enter", f"{name}/enter", start, frame_name=name, parallel_iterations=parallel
    )
    merge = drawing.add("Merge", f"{name}/merge", enter, enter)
    less = drawing.add("Less", f"{name}/less", (merge, 0), (merge, 0))
    cond = drawing.add("LoopCond", f"{name}/cond", less)
    switch = drawing.add("Switch", f"{name}/switch", (merge, 0), cond)
    body = drawing.add("Neg", f"{name}/body", (switch, 1))
    following = drawing.add("NextIteration", f"{name}/next", body)
    exits = drawing.add("Exit", f"{name}/exit", (switch, 0))
    drawing.back_edge(following, merge)
    return {
        "enter": enter,
        "merge": merge,
        "cond": cond,
        "switch": switch,
        "body": body,
        "next": following,
        "exit": exits,
    }
