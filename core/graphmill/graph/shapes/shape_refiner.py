"""`GraphShapes`: static shapes of a graph's tensors, inferred on demand (clause G5).

Shapes are not computed while a graph is imported or run. Semantics:
tensorflow/core/common_runtime/shape_refiner.cc; loops as in tensorflow/python/ops/while_v2.py: a
size that changes from iteration to iteration is unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from graphmill.graph.algorithms import is_back_edge
from graphmill.graph.functions.called_shapes import Arg, CalledShapes
from graphmill.graph.node_roles import (
    is_enter,
    is_merge,
    is_switch,
    may_have_any_rank,
    without_forwarding,
)
from graphmill.graph.shapes.partial_values import partial_value
from graphmill.ops.definition.op_traits import Source
from graphmill.ops.inference.input_shapes import check_input_shapes
from graphmill.ops.inference.shape_inference import ShapeContext, infer_shapes, shape_function
from graphmill.ops.inference.tensor_shape import UNKNOWN_SHAPE, TensorShape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from numpy.typing import NDArray

    from graphmill.graph.functions.function_library import FunctionLibrary
    from graphmill.graph.node import Edge, Node
    from graphmill.ops.definition.op_registry import OpRegistry

    Shapes = tuple[TensorShape, ...]

_PASSES: Final = 6
"""Maximum number of passes over a loop; if its shapes still change then, they are unknown."""


class GraphShapes:
    """The static shapes of a graph's tensors.

    Threads: like the graph, it must not change while another thread uses it.

    Args:
        calls: infers the shapes of function calls; None to leave them unknown.
        args: the static shapes of the arguments, in the body of a function.
        declared: the shapes of outputs, as a program declares them beyond what is inferred.
    """

    def __init__(
        self,
        calls: CalledShapes | None = None,
        args: Mapping[Node, Arg] | None = None,
        declared: Mapping[Node, Shapes] | None = None,
    ) -> None:
        self._calls = calls
        self._args = {} if args is None else args
        self._declared = {} if declared is None else declared
        self._known: dict[Node, Shapes] = {node: (a.shape,) for node, a in self._args.items()}

    def of(self, node: Node) -> Shapes:
        """Return the shapes of a node's outputs.

        Raises:
            InvalidArgumentError: the node, or one that it depends on, has invalid inputs.
            InternalError: a plugin's shape function is faulty.
        """
        shapes = self._known.get(node)
        if shapes is None:
            self._infer(node)
            shapes = self._known[node]
        return shapes

    def arguments_of(self, call: Node) -> list[Arg]:
        """Return the shapes of the arguments that a node passes to the function that it calls.

        Raises:
            InvalidArgumentError: a node that it depends on has invalid inputs.
        """
        for edge in call.in_edges:
            self.of(edge.src)
        return self._begin_round().arguments(call)

    def with_arguments(self, args: Mapping[Node, Arg]) -> GraphShapes:
        """Return the shapes of the same graph where arguments have these shapes."""
        return GraphShapes(self._calls, args, self._declared)

    def refine(self, node: Node, shapes: Shapes) -> None:
        """Replace the shapes of a node's outputs; consumers keep what was inferred before."""
        self._known[node] = shapes

    def knows(self, library: FunctionLibrary) -> bool:
        """Return whether calls are followed into this library."""
        return self._calls is not None and self._calls.library is library

    def forget(self, nodes: Iterable[Node]) -> None:
        """Forget the shapes of changed nodes and of all nodes that depend on them.

        If a node's shapes are cached, so are those of all nodes that it depends on. So the search
        can stop at a node without cached shapes.
        """
        stack = list(nodes)
        while stack:
            node = stack.pop()
            if self._known.pop(node, None) is not None:
                stack.extend(edge.dst for edge in node.out_edges)

    def _infer(self, target: Node) -> None:
        order, has_loop = _inference_order(target, self._known)
        inferred = self._begin_round()
        for index in range(_PASSES + 2):
            inferred.gives_up = index >= _PASSES
            if not inferred.go_through(order) or not has_loop:
                break
        self._known.update(inferred.shapes)

    def _begin_round(self) -> _Round:
        return _Round(self._known, self._calls, self._args, self._declared)


def shapes_with_calls(
    library: FunctionLibrary, ops: OpRegistry, declared: Mapping[Node, Shapes] | None = None
) -> GraphShapes:
    """Return the shapes of a graph whose nodes may call the functions of `library`."""
    return GraphShapes(CalledShapes(library, ops, _shapes_of_body), declared=declared)


def _shapes_of_body(args: Mapping[Node, Arg], calls: CalledShapes) -> Callable[[Node], Shapes]:
    return GraphShapes(calls, args).of


class _Round:
    """An inference in progress; loops take several passes, until their shapes are stable."""

    def __init__(
        self,
        known: dict[Node, Shapes],
        calls: CalledShapes | None,
        args: Mapping[Node, Arg],
        declared: Mapping[Node, Shapes],
    ) -> None:
        self._known = known
        self._calls = calls
        self._declared = declared
        self.args = args
        self.shapes: dict[Node, Shapes] = {}
        self.gives_up = False

    def go_through(self, order: Iterable[Node]) -> bool:
        """Infer the shapes of nodes in order; return whether any has changed."""
        changed = False
        for node in order:
            before = self.shapes.get(node)
            after = self._shapes(node)
            if node in self._declared:
                after = tuple(map(TensorShape.merge_with, after, self._declared[node]))
            if before is not None:
                after = tuple(map(TensorShape.relaxed_with, before, after))
            changed = changed or after != before
            self.shapes[node] = after
        return changed

    def shape(self, node: Node, output: int) -> TensorShape:
        """Return the shape of an output, as far as it is known."""
        shapes = self.shapes.get(node) or self._known.get(node)
        return UNKNOWN_SHAPE if shapes is None else shapes[output]

    def _shapes(self, node: Node) -> Shapes:
        if is_merge(node):
            return self._merged(node)
        if self._calls is not None and self._calls.follows(node):
            return self._calls.of(node, self.arguments(node))
        inputs = [self.shape(edge.src, edge.src_output) for edge in node.in_edges]
        context = ShapeContext(
            node.name, node.op_def, node.attrs, inputs, node.num_outputs, _NodeSources(node, self)
        )
        if may_have_any_rank(node):
            return (UNKNOWN_SHAPE,)
        check_input_shapes(context, node.op_def)
        return infer_shapes(context, shape_function(node.op_def))

    def arguments(self, call: Node) -> list[Arg]:
        """Return the shapes of a call's arguments, as far as they are known."""
        sources = _NodeSources(call, self)
        return [
            Arg(self.shape(edge.src, edge.src_output), sources.variable_shape(index))
            for index, edge in enumerate(call.in_edges)
        ]

    def _merged(self, node: Node) -> Shapes:
        """Return the shapes of a `Merge`: the common part of its inputs' inferred shapes."""
        if self.gives_up and any(map(is_back_edge, node.in_edges)):
            return UNKNOWN_SHAPE, TensorShape(())
        shapes = [
            self.shape(edge.src, edge.src_output)
            for edge in node.in_edges
            if not is_back_edge(edge) or edge.src in self.shapes or edge.src in self._known
        ]
        merged = shapes[0] if shapes else UNKNOWN_SHAPE
        for shape in shapes[1:]:
            merged = merged.relaxed_with(shape)
        return merged, TensorShape(())


class _NodeSources:
    """The values and variable shapes of a node's inputs, for shape functions."""

    __slots__ = ("_node", "_round")

    def __init__(self, node: Node, inferred: _Round) -> None:
        self._node = node
        self._round = inferred

    def value(self, index: int) -> NDArray[Any] | None:
        edge = self._node.in_edges[index]
        return partial_value(edge.src, edge.src_output, self._round.shape)

    def variable_shape(self, index: int) -> TensorShape:
        node = _maker(self._node.in_edges[index])
        if node in self._round.args:
            return self._round.args[node].variable
        if node.op_def.traits.source is not Source.VARIABLE:
            return UNKNOWN_SHAPE
        return TensorShape(node.attrs["shape"])


def _maker(edge: Edge) -> Node:
    """Return the node that created a handle, skipping nodes that only forward it."""
    while True:
        node = without_forwarding(edge.src, edge.src_output)[0]
        if not (is_enter(node) or is_switch(node)):
            return node
        edge = node.in_edges[0]


def _inference_order(target: Node, known: dict[Node, Shapes]) -> tuple[list[Node], bool]:
    """Return the nodes to infer for a node, inputs first, and whether they include a loop.

    The source of a loop's back edge comes after the loop's `Merge`.
    """
    order: list[Node] = []
    seen: set[Node] = set()
    starts = [target]
    has_loop = False
    while starts:
        stack = [(starts.pop(), 0)]
        while stack:
            node, index = stack.pop()
            if index == 0:
                if node in seen or node in known:
                    continue
                seen.add(node)
            if index == len(node.in_edges):
                order.append(node)
                continue
            stack.append((node, index + 1))
            edge = node.in_edges[index]
            if is_back_edge(edge):
                has_loop = True
                starts.append(edge.src)
            else:
                stack.append((edge.src, 0))
    return order, has_loop
