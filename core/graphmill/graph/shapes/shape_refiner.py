"""`ShapeRefiner`: static shapes of a graph's tensors, inferred on demand (row G5).

Nothing is computed while a graph is imported or run. Semantics:
tensorflow/core/common_runtime/shape_refiner.cc; loops as in tensorflow/python/ops/while_v2.py: a
size that changes from iteration to iteration is unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from graphmill.graph.algorithms import is_back_edge
from graphmill.graph.functions.called_shapes import Arg, CalledShapes
from graphmill.graph.node_roles import is_enter, is_merge, is_switch, without_forwarding
from graphmill.graph.shapes.partial_values import partial_value
from graphmill.ops.definition.op_traits import Source
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
"""After how many rounds a loop whose shapes still change is given up: all its sizes unknown."""


class GraphShapes:
    """The shapes that are known of a graph's tensors.

    Threads: as the graph, it must not change while another thread uses it.

    Args:
        calls: follows calls of functions; None to leave what they return unknown.
        args: what is known of the arguments, in the body of a function.
    """

    def __init__(
        self, calls: CalledShapes | None = None, args: Mapping[Node, Arg] | None = None
    ) -> None:
        self._calls = calls
        self._args = {} if args is None else args
        self._known: dict[Node, Shapes] = {node: (a.shape,) for node, a in self._args.items()}

    def of(self, node: Node) -> Shapes:
        """Return the shapes of a node's outputs.

        Raises:
            InvalidArgumentError: a node on the way cannot have the inputs that it has.
            InternalError: a plugin's shape function is at fault.
        """
        found = self._known.get(node)
        if found is None:
            self._infer(node)
            found = self._known[node]
        return found

    def knows(self, library: FunctionLibrary) -> bool:
        """Return whether it is this library whose functions are followed."""
        return self._calls is not None and self._calls.library is library

    def forget(self, nodes: Iterable[Node]) -> None:
        """Forget the shapes of nodes that are changed, and of all that comes after them.

        Where a shape is known, those of all that the node needs are known too.
        """
        stack = list(nodes)
        while stack:
            node = stack.pop()
            if self._known.pop(node, None) is not None:
                stack.extend(edge.dst for edge in node.out_edges)

    def _infer(self, wanted: Node) -> None:
        order, has_loop = _before(wanted, self._known)
        found = _Round(self._known, self._calls, self._args)
        for number in range(_PASSES + 2):
            found.gives_up = number >= _PASSES
            if not found.go_through(order) or not has_loop:
                break
        self._known.update(found.shapes)


def shapes_with_calls(library: FunctionLibrary, ops: OpRegistry) -> GraphShapes:
    """Return the shapes of a graph whose nodes may call the functions of `library`."""
    return GraphShapes(CalledShapes(library, ops, _shapes_of_body))


def _shapes_of_body(args: Mapping[Node, Arg], calls: CalledShapes) -> Callable[[Node], Shapes]:
    return GraphShapes(calls, args).of


class _Round:
    """Shapes that are being worked out: of loops first for one iteration, then for more."""

    def __init__(
        self, known: dict[Node, Shapes], calls: CalledShapes | None, args: Mapping[Node, Arg]
    ) -> None:
        self._known = known
        self._calls = calls
        self.args = args
        self.shapes: dict[Node, Shapes] = {}
        self.gives_up = False

    def go_through(self, order: Iterable[Node]) -> bool:
        """Infer the shapes of nodes in order; return whether any is another than before."""
        changed = False
        for node in order:
            before = self.shapes.get(node)
            after = self._shapes(node)
            if before is not None:
                after = tuple(map(TensorShape.relaxed_with, before, after))
            changed = changed or after != before
            self.shapes[node] = after
        return changed

    def shape(self, node: Node, output: int) -> TensorShape:
        """Return what is known of an output."""
        found = self.shapes.get(node) or self._known.get(node)
        return UNKNOWN_SHAPE if found is None else found[output]

    def _shapes(self, node: Node) -> Shapes:
        if is_merge(node):
            return self._merged(node)
        inputs = [self.shape(edge.src, edge.src_output) for edge in node.in_edges]
        sources = _NodeSources(node, self)
        if self._calls is not None and self._calls.follows(node):
            given = enumerate(inputs)
            return self._calls.of(node, [Arg(s, sources.variable_shape(i)) for i, s in given])
        asked = ShapeContext(node.name, node.op_def, node.attrs, inputs, node.num_outputs, sources)
        return infer_shapes(asked, shape_function(node.op_def))

    def _merged(self, node: Node) -> Shapes:
        """Return the shapes of a `Merge`: what all its inputs have, as far as they are known."""
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
    """What shape functions may ask about the inputs of a node, besides their shapes."""

    __slots__ = ("_node", "_round")

    def __init__(self, node: Node, found: _Round) -> None:
        self._node = node
        self._round = found

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
    """Return the node that made a handle which other nodes only pass on."""
    while True:
        node = without_forwarding(edge.src, edge.src_output)[0]
        if not (is_enter(node) or is_switch(node)):
            return node
        edge = node.in_edges[0]


def _before(wanted: Node, known: dict[Node, Shapes]) -> tuple[list[Node], bool]:
    """Return the nodes of unknown shapes that a node needs, inputs first, and whether they loop.

    The back edge of a loop counts as an input that comes later.
    """
    order: list[Node] = []
    seen: set[Node] = set()
    starts = [wanted]
    has_loop = False
    while starts:
        stack = [(starts.pop(), 0)]
        while stack:
            node, place = stack.pop()
            if place == 0:
                if node in seen or node in known:
                    continue
                seen.add(node)
            if place == len(node.in_edges):
                order.append(node)
                continue
            stack.append((node, place + 1))
            edge = node.in_edges[place]
            if is_back_edge(edge):
                has_loop = True
                starts.append(edge.src)
            else:
                stack.append((edge.src, 0))
    return order, has_loop
