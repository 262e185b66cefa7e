"""Replace proven loops by `While` nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from graphmill.spi import FuncAttr
from graphmill_plugins.jit.functionalize.body_builder import (
    BodyBuilder,
    Captures,
    common_device,
    effects_among,
    entered,
    has_effects,
)
from graphmill_plugins.jit.functionalize.loops import controls_of, value_of
from graphmill_plugins.jit.ir.unique_name import unique_name

if TYPE_CHECKING:
    from graphmill.spi import Graph, Node
    from graphmill.spi.graphs import FunctionBody, OpRegistry
    from graphmill_plugins.jit.functionalize.liveness import Tensor
    from graphmill_plugins.jit.functionalize.loops import Loop

_KINDS: Final = ("cond", "body")


class WhileMaker:
    """Rewrites one loop.

    Attributes:
        node: the new node, once it has been added.
        functions: the names of condition and body in the graph's library.
    """

    node: Node

    def __init__(self, graph: Graph, ops: OpRegistry, loop: Loop) -> None:
        self.functions: list[str] = []
        self._graph = graph
        self._ops = ops
        self._loop = loop
        self._enters = {*loop.constants, *(variable.enter for variable in loop.variables)}
        self._captures = Captures((variable.enter, 0) for variable in loop.variables)
        self._test = set(loop.test)

    def rewrite(self) -> None:
        """Replace the loop.

        Raises:
            NotProvenError: it cannot be replaced; the graph is unchanged.
        """
        body = self._body_builder()
        cond = self._body_builder()
        self._fill_body(body)
        self._fill_cond(cond)
        for index in self._captures.captured:
            body.ret(body.arg(index, self._captures.tensors[index]))
        bodies = [
            cond.finish("cond", effects_among(self._needed_test())),
            body.finish("body", effects_among(self._loop.body)),
        ]
        self._put([function.with_arg_types(self._captures.types) for function in bodies])

    def _body_builder(self) -> BodyBuilder:
        builder = BodyBuilder(self._graph, self._ops, self._captures, self._outside)
        for index, variable in enumerate(self._loop.variables):
            if any(not edge.is_control for edge in variable.merge.out_edges):
                builder.inside[variable.merge, 0] = builder.arg(index, (variable.enter, 0))
        return builder

    def _outside(self, tensor: Tensor) -> Tensor:
        """Return the outer tensor for a tensor of the frame: a variable's or an invariant's."""
        outer = value_of(self._loop, tensor)
        return entered(outer[0]) if outer[0] in self._enters else outer

    def _fill_body(self, builder: BodyBuilder) -> None:
        loop = self._loop
        builder.copy([*self._read_of_test(), *loop.body])
        for variable in loop.variables:
            edge = variable.next_iteration.in_edges[0]
            builder.ret(builder.tensor((edge.src, edge.src_output)))

    def _fill_cond(self, builder: BodyBuilder) -> None:
        builder.copy(self._needed_test())
        condition = self._loop.condition
        edge = condition.in_edges[0]
        builder.ret(builder.scalar(builder.tensor((edge.src, edge.src_output)), condition.name))

    def _needed_test(self) -> list[Node]:
        """Return the nodes that the condition needs, including those with effects."""
        roots = [node for node in self._loop.test if node.op_def.is_stateful or not node.out_edges]
        roots += [
            edge.src
            for edge in (*self._loop.condition.in_edges, *self._loop.condition.control_in_edges)
            if edge.src in self._test
        ]
        return self._closure(roots, with_control=True)

    def _read_of_test(self) -> list[Node]:
        """Return the nodes of the condition that the body reads and so recomputes."""
        readers = [
            *self._loop.body,
            *(variable.next_iteration for variable in self._loop.variables),
        ]
        read = [
            value_of(self._loop, (edge.src, edge.src_output))[0]
            for node in readers
            for edge in node.in_edges
        ]
        return self._closure([node for node in read if node in self._test], with_control=False)

    def _closure(self, roots: list[Node], *, with_control: bool) -> list[Node]:
        reached = dict.fromkeys(roots)
        stack = list(reached)
        while stack:
            node = stack.pop()
            for edge in (*node.in_edges, *(node.control_in_edges if with_control else ())):
                if edge.src in self._test and edge.src not in reached:
                    reached[edge.src] = None
                    stack.append(edge.src)
        return list(reached)

    def _put(self, bodies: list[FunctionBody]) -> None:
        graph, loop = self._graph, self._loop
        is_stateful = any(has_effects(body) for body in bodies)
        op_def = self._ops.get("While" if is_stateful else "StatelessWhile")
        node_name = unique_name(graph, f"{loop.name}/{op_def.name}", _KINDS)
        self.functions = [f"{node_name}/{kind}" for kind in _KINDS]
        for name, body in zip(self.functions, bodies, strict=True):
            graph.library.add_body(name, body._replace(name=name))
        attrs = op_def.with_defaults(
            {
                "T": self._captures.types,
                "cond": FuncAttr(self.functions[0]),
                "body": FuncAttr(self.functions[1]),
                "parallel_iterations": loop.variables[0].enter.attrs["parallel_iterations"],
            }
        )
        device, assigned = common_device(loop.nodes)
        self.node = graph.add_node(
            node_name,
            op_def,
            [self._source(tensor) for tensor in self._captures.tensors],
            controls_of(self._enters),
            attrs,
            device,
        )
        self.node.assigned_device = assigned
        self._redirect_exits()
        graph.withdraw(loop.nodes)

    def _redirect_exits(self) -> None:
        indices = {variable.merge: index for index, variable in enumerate(self._loop.variables)}
        for leaving in self._loop.exits:
            merge, _ = value_of(self._loop, (leaving.in_edges[0].src, 0))
            self._graph.redirect(leaving, 0, self.node, indices[merge])
            for edge in [edge for edge in leaving.out_edges if edge.is_control]:
                self._graph.add_control_edge(self.node, edge.dst)

    def _source(self, tensor: Tensor) -> Tensor:
        if tensor[0] in self._enters:
            edge = tensor[0].in_edges[0]
            return edge.src, edge.src_output
        return tensor
