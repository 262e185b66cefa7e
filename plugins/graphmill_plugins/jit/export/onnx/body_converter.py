"""Convert the bodies of functions: plain calls are inlined, loops and branches are inner graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError
from graphmill.spi import topological_order
from graphmill.spi.compilers import body_shapes
from graphmill.spi.graphs import (
    calls_of,
    instantiate_function,
    is_argument,
    is_result,
    without_forwarding,
)
from graphmill_plugins.jit.export.onnx.conversion import NodeConversion
from graphmill_plugins.jit.export.onnx.element_types import onnx_type
from graphmill_plugins.jit.export.onnx.errors import NotConvertible

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.dtypes import DType
    from graphmill.spi import Host, Node
    from graphmill.spi.graphs import CalledFunction, FunctionBody
    from graphmill_plugins.jit.export.onnx.graph_writer import GraphWriter

    Shape = tuple[int, ...] | None

_MAX_DEPTH = 64


class BodyConverter:
    """Converts bodies.

    Args:
        writer: collects the ONNX nodes.
        find: returns the conversion of an op, or None.
        host: provides the ops.

    Attributes:
        refusals: why nodes cannot be converted, by the name and op of the node.
    """

    def __init__(self, writer: GraphWriter, find: Callable[[str], object], host: Host) -> None:
        self._writer = writer
        self._find = find
        self._host = host
        self._depth = 0
        self.refusals: dict[str, str] = {}

    def convert(
        self, body: FunctionBody, args: Sequence[str], shapes: Sequence[Shape]
    ) -> tuple[list[str], list[Shape]]:
        """Write the nodes of a body.

        Args:
            body: the body.
            args: the names of the arguments in the ONNX model.
            shapes: their static shapes.

        Returns:
            The names of the results, and their shapes.
        """
        shapes_of = _guarded(body_shapes(body, shapes, self._host.ops))
        order = topological_order(body.graph)
        results = sorted(filter(is_result, order), key=lambda node: node.attrs["index"])
        needed = _data_ancestors(results)
        names: dict[tuple[Node, int], str] = {}
        for node in order:
            if node not in needed or is_result(node):
                continue
            if is_argument(node):
                names[node, 0] = args[node.attrs["index"]]
                continue
            # The NextIteration of a v1 loop has no name yet; the Merge that reads it is refused.
            inputs = [names.get(source, "") for source in node.sources]
            outputs = self._node(node, inputs, shapes_of)
            names.update({(node, index): name for index, name in enumerate(outputs)})
        sources = [node.sources[0] for node in results]
        found = [shapes_of(node)[output] for node, output in sources]
        return [names[source] for source in sources], found

    def _node(
        self, node: Node, inputs: list[str], shapes_of: Callable[[Node], tuple[Shape, ...]]
    ) -> Sequence[str]:
        try:
            return self._converted(node, inputs, shapes_of)
        except NotConvertible as reason:
            self.refusals.setdefault(f"{node.name} ({node.op})", str(reason))
            return [self._writer.unique(node.name) for _ in node.output_types]

    def _converted(
        self, node: Node, inputs: list[str], shapes_of: Callable[[Node], tuple[Shape, ...]]
    ) -> Sequence[str]:
        input_shapes = [shapes_of(src)[output] for src, output in node.sources]
        output_shapes = shapes_of(node)
        convert: Any = self._find(node.op)
        if convert is not None:
            conversion = NodeConversion(self._writer, node, inputs, input_shapes, output_shapes)
            outputs = convert(conversion)
            return [outputs] if isinstance(outputs, str) else outputs
        traits, calls = node.op_def.traits, calls_of(node)
        if traits.is_control_flow:
            raise NotConvertible("its loop or conditional could not be converted to a function")
        if not calls:
            raise NotConvertible("there is no conversion of its op")
        if node.op_def.is_while:
            return self._loop(node, calls, inputs, output_shapes)
        if traits.is_conditional:
            return self._conditional(node, calls, inputs, input_shapes)
        if len(calls) == 1 and calls[0].kind.name == "ONCE":
            return self._inlined(node, calls[0], inputs, input_shapes)[0]
        raise NotConvertible("there is no conversion of its op")

    def _body(self, node: Node, called: CalledFunction) -> FunctionBody:
        function = called.function
        library = node.graph.library
        return instantiate_function(function.name, function.attrs, library, self._host.ops)

    def _inlined(
        self,
        node: Node,
        called: CalledFunction,
        inputs: Sequence[str],
        shapes: Sequence[Shape],
    ) -> tuple[list[str], list[Shape]]:
        """Write the nodes of a called function into the graph that is open."""
        if self._depth >= _MAX_DEPTH:
            raise NotConvertible(f"its function {called.name!r} calls itself")
        self._depth += 1
        try:
            first = called.call.first_input
            return self.convert(self._body(node, called), inputs[first:], shapes[first:])
        finally:
            self._depth -= 1

    def _conditional(
        self,
        node: Node,
        calls: Sequence[CalledFunction],
        inputs: Sequence[str],
        shapes: Sequence[Shape],
    ) -> list[str]:
        if shapes[0]:
            raise NotConvertible("its condition is not a scalar")
        if len({called.call.attr for called in calls}) == 1:  # branches by number
            return self._by_number(node, calls, 0, inputs, shapes)
        condition, dtype = inputs[0], node.input_types[0].base_dtype
        if dtype is dtypes.string:
            raise NotConvertible("its condition is a string")
        if dtype is not dtypes.bool:
            condition = self._writer.emit("Cast", [condition], [node.name], to=9)[0]
        graphs = [self._branch(node, called, inputs, shapes) for called in calls]
        return self._if(node, condition, graphs)

    def _by_number(
        self,
        node: Node,
        calls: Sequence[CalledFunction],
        number: int,
        inputs: Sequence[str],
        shapes: Sequence[Shape],
    ) -> list[str]:
        """Write a branch for each index; the last one also serves all other indices."""
        if number == len(calls) - 1:
            return self._inlined(node, calls[number], inputs, shapes)[0]
        dtype = node.input_types[0].base_dtype.as_numpy_dtype
        constant = self._writer.constant(np.asarray(number, dtype))
        condition = self._writer.emit("Equal", [inputs[0], constant], [node.name])[0]
        first = self._branch(node, calls[number], inputs, shapes)
        with self._writer.inner_graph() as nodes:
            results = self._by_number(node, calls, number + 1, inputs, shapes)
            second = self._closed(node, nodes, [], results)
        return self._if(node, condition, [first, second])

    def _if(self, node: Node, condition: str, graphs: Sequence[Any]) -> list[str]:
        outputs = [node.name] * node.num_outputs
        branches = {"then_branch": graphs[0], "else_branch": graphs[1]}
        return list(self._writer.emit("If", [condition], outputs, **branches))

    def _branch(
        self, node: Node, called: CalledFunction, inputs: Sequence[str], shapes: Sequence[Shape]
    ) -> Any:
        with self._writer.inner_graph() as nodes:
            results, _ = self._inlined(node, called, inputs, shapes)
            return self._closed(node, nodes, [], results)

    def _closed(
        self, node: Node, nodes: list[Any], inputs: Sequence[Any], results: Sequence[str]
    ) -> Any:
        """Return the open inner graph; its results are outputs of nodes of its own."""
        infos = []
        for name, dtype in zip(results, node.output_types, strict=True):
            (own,) = self._writer.emit("Identity", [name], [node.name])
            infos.append(self._writer.value_info(own, self._type(name, dtype), None))
        return self._writer.graph(self._writer.unique(f"{node.name}/graph"), nodes, inputs, infos)

    def _loop(
        self,
        node: Node,
        calls: Sequence[CalledFunction],
        inputs: list[str],
        shapes: Sequence[Shape],
    ) -> list[str]:
        """Write a loop whose condition is computed before it and at the end of each iteration."""
        by_kind = {called.kind.name: called for called in calls}
        condition, called = by_kind["LOOP_CONDITION"], by_kind["LOOP_BODY"]
        carried = _carried(self._body(node, called))
        writer = self._writer
        types = [
            self._type(name, dtype) for name, dtype in zip(inputs, node.input_types, strict=True)
        ]
        (start,), _ = self._inlined(node, condition, inputs, shapes)
        with writer.inner_graph() as nodes:
            names = [writer.unique(f"{node.name}/{part}") for part in ("iteration", "continues")]
            infos = [writer.value_info(names[0], 7, []), writer.value_info(names[1], 9, [])]
            args = list(inputs)
            for index in carried:
                args[index] = writer.unique(f"{node.name}/value_{index}")
                infos.append(writer.value_info(args[index], types[index], None))
                if inputs[index] in writer.lists:
                    writer.lists[args[index]] = writer.lists[inputs[index]]
            results, _ = self._inlined(node, called, args, shapes)
            after = [results[i] if i in carried else inputs[i] for i in range(len(inputs))]
            (predicate,), _ = self._inlined(node, condition, after, shapes)
            outputs = []
            for name, number in [(predicate, 9), *((after[i], types[i]) for i in carried)]:
                (own,) = writer.emit("Identity", [name], [node.name])
                outputs.append(writer.value_info(own, number, None))
            graph = writer.graph(writer.unique(f"{node.name}/body"), nodes, infos, outputs)
        initial = ["", start, *(inputs[index] for index in carried)]
        last = writer.emit("Loop", initial, [node.name] * len(carried), body=graph)
        final = dict(zip(carried, last, strict=True))
        for index, name in final.items():
            if inputs[index] in writer.lists:
                writer.lists[name] = writer.lists[inputs[index]]
        return [final.get(index, inputs[index]) for index in range(len(inputs))]

    def _type(self, name: str, dtype: DType) -> int:
        known = self._writer.lists.get(name)
        if known is not None:
            return known.element_type
        return 7 if dtype.base_dtype is dtypes.resource else onnx_type(dtype)


def _carried(body: FunctionBody) -> list[int]:
    """Return the indices of the values that a loop's body changes."""
    carried = []
    for node in body.graph.nodes:
        if is_result(node):
            source, _ = without_forwarding(*node.sources[0])
            index = node.attrs["index"]
            if not (is_argument(source) and source.attrs["index"] == index):
                carried.append(index)
    return sorted(carried)


def _data_ancestors(roots: Sequence[Node]) -> set[Node]:
    """Return nodes and all nodes whose values they need, except nodes that only wait or check."""
    needed = set(roots)
    stack = list(roots)
    while stack:
        for edge in stack.pop().in_edges:
            if edge.src not in needed:
                needed.add(edge.src)
                stack.append(edge.src)
    return needed


def _guarded(
    shapes_of: Callable[[Node], tuple[Shape, ...]],
) -> Callable[[Node], tuple[Shape, ...]]:
    """Treat the shapes of invalid nodes, which may never run, as unknown."""

    def guarded(node: Node) -> tuple[Shape, ...]:
        try:
            return shapes_of(node)
        except InvalidArgumentError:
            return (None,) * node.num_outputs

    return guarded
