"""Prove that row i of a graph's outputs only depends on row i of its inputs.

Then several requests can be combined into one step, and rows that are added to a batch change
nothing. The proof follows the rows, which the first dimension of the inputs counts, through the
graph. How an op carries rows is declared in its traits (`rows`, `elementwise`, `forwards`,
`validates`, `reshapes`); any other op that reads rows ends the proof.
"""

from __future__ import annotations

import math
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill.graph.algorithms import ancestors, topological_order
from graphmill.graph.functions.function_body import instantiate_function
from graphmill.graph.functions.function_calls import calls_of
from graphmill.graph.node import find_tensor
from graphmill.graph.node_roles import is_argument, is_result
from graphmill.graph.shapes.partial_values import partial_value
from graphmill.graph.shapes.shape_refiner import shapes_with_calls
from graphmill.ops.definition.effects import effects_of
from graphmill.ops.definition.op_traits import CallKind, RowUse, Source

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from graphmill.graph.functions.function_calls import CalledFunction
    from graphmill.graph.graph import Graph
    from graphmill.graph.node import Node
    from graphmill.graph.shapes.shape_refiner import GraphShapes
    from graphmill.ops.definition.op_registry import OpRegistry
    from graphmill.ops.inference.tensor_shape import TensorShape

    Kinds = tuple["_Kind", ...]

_MAX_DEPTH: Final = 64
"""The number of calls inside of each other that are followed: functions may be recursive."""


class _Kind(Enum):
    """How a tensor depends on the inputs of the graph."""

    FIXED = "fixed"
    """It does not."""
    ROWS = "rows"
    """Its first dimension counts the rows, and each of its rows only depends on the same row."""
    MIXED = "mixed"
    """Otherwise, or that is unknown."""


class _RowsMixError(Exception):
    """The proof fails; the text says why."""


def why_rows_mix(
    graph: Graph, inputs: Sequence[str], outputs: Sequence[str], ops: OpRegistry
) -> str:
    """Return why a row of the outputs may depend on several rows of the inputs; "" if none does.

    Args:
        graph: the graph.
        inputs: the names of the tensors that are fed.
        outputs: the names of the tensors that are fetched.
        ops: definitions of the ops in functions.

    Raises:
        NotFoundError: a tensor does not exist.
        OpError: a shape function or a function of the graph is malformed.
    """
    shapes = shapes_with_calls(graph.library, ops)
    try:
        return _why_rows_mix(graph, inputs, outputs, _Rows(shapes, ops))
    except _RowsMixError as error:
        return str(error)


def _why_rows_mix(graph: Graph, inputs: Sequence[str], outputs: Sequence[str], rows: _Rows) -> str:
    for name in inputs:
        node, output = find_tensor(graph, name, "input")
        shape = rows.shapes.of(node)[output]
        if not shape.rank or shape[0] is not None:
            return f"the first dimension of input '{name}' is not of any size"
        rows.feed(node, output)
    fetched = [find_tensor(graph, name, "output") for name in outputs]
    needed = ancestors(node for node, _ in fetched)
    rows.follow([node for node in topological_order(graph) if node in needed])
    for name, (node, output) in zip(outputs, fetched, strict=True):
        if rows.kind(node, output) is not _Kind.ROWS:
            return f"output '{name}' has no row for each row of the inputs"
    return ""


class _Rows:
    """Follows rows through a graph, or the body of a function.

    Args:
        shapes: the static shapes of its tensors.
        ops: definitions of the ops in functions.
        depth: how many calls this body is inside of.
    """

    def __init__(self, shapes: GraphShapes, ops: OpRegistry, depth: int = 0) -> None:
        self.shapes = shapes
        self._ops = ops
        self._depth = depth
        self._kinds: dict[Node, Kinds] = {}
        self._fed: dict[tuple[Node, int], _Kind] = {}

    def feed(self, node: Node, output: int, kind: _Kind = _Kind.ROWS) -> None:
        """Declare a tensor that is fed."""
        self._fed[node, output] = kind

    def kind(self, node: Node, output: int) -> _Kind:
        """Return the kind of a tensor that was followed."""
        return self._fed.get((node, output)) or self._kinds[node][output]

    def follow(self, order: Iterable[Node]) -> None:
        """Find the kinds of nodes in topological order.

        Raises:
            _RowsMixError: a node may combine rows, or has an effect.
        """
        for node in order:
            if any((node, output) not in self._fed for output in range(max(node.num_outputs, 1))):
                self._kinds[node] = self._kinds_of(node)

    def _kinds_of(self, node: Node) -> Kinds:
        traits = node.op_def.traits
        inputs = [self.kind(edge.src, edge.src_output) for edge in node.in_edges]
        if traits.is_control_flow:
            raise _mixes(node, "is control flow")
        if traits.source is Source.PLACEHOLDER_WITH_DEFAULT or is_result(node):
            return tuple(inputs)
        if traits.source is not Source.NONE:
            return (_Kind.FIXED,) * node.num_outputs
        called = calls_of(node)
        if called:
            return self._kinds_of_call(node, called, inputs)
        if effects_of(node.op_def) and not traits.only_reads:
            raise _mixes(node, "has an effect")
        if _Kind.MIXED in inputs:
            raise _mixes(node, "reads a value that depends on several rows")
        if _Kind.ROWS not in inputs:
            return (_Kind.FIXED,) * node.num_outputs
        return self._kinds_with_rows(node, inputs)

    def _kinds_with_rows(self, node: Node, inputs: Sequence[_Kind]) -> Kinds:
        """Return the kinds of the outputs of a node that reads rows."""
        traits = node.op_def.traits
        if traits.forwards:
            return tuple(inputs[: node.num_outputs])
        if traits.validates and inputs[0] is _Kind.ROWS:
            return (_Kind.ROWS,)
        if traits.reshapes and inputs[0] is _Kind.ROWS and self._keeps_rows(node):
            return (_Kind.ROWS,)
        if traits.shape_only:
            raise _mixes(node, "depends on the number of rows")
        use = traits.rows
        if traits.elementwise:
            use = RowUse(" ".join(arg.name for arg in node.op_def.input_args))
        if use is None or not self._carries_rows(node, use, inputs):
            raise _mixes(node, "may combine rows")
        return (_Kind.ROWS, *[_Kind.MIXED] * (node.num_outputs - 1))

    def _keeps_rows(self, node: Node) -> bool:
        """Return whether the only output has the elements of each row of input 0 in one row."""
        before, after = self._input_shape(node, 0), self.shapes.of(node)[0]
        sizes = _row_size(before), _row_size(after)
        return sizes[0] is not None and sizes[0] == sizes[1]

    def _carries_rows(self, node: Node, use: RowUse, inputs: Sequence[_Kind]) -> bool:
        ranges = node.op_def.input_ranges(node.attrs)
        may_have = {i for name in use.inputs.split() for i in range(*ranges[name])}
        have = {index for index, kind in enumerate(inputs) if kind is _Kind.ROWS}
        ranks = {self._input_shape(node, index).rank for index in have}
        rank = ranks.pop()
        if ranks or rank is None or rank < use.min_rank or not have <= may_have:
            return False
        if use.unless and node.attrs[use.unless]:
            return False
        if use.axes:
            axes = self._value(node, ranges[use.axes][0])
            if axes is None or not all(axis % rank for axis in axes.reshape(-1).tolist()):
                return False
        if use.zeros:
            value = self._value(node, ranges[use.zeros][0])
            if value is None or np.atleast_2d(value)[0].any():
                return False
        return all(_is_broadcast(self._input_shape(node, i), rank) for i in may_have - have)

    def _value(self, node: Node, index: int) -> NDArray[Any] | None:
        """Return the value of an input; None if a part of it is not known."""
        edge = node.in_edges[index]
        value = partial_value(edge.src, edge.src_output, lambda one, i: self.shapes.of(one)[i])
        return None if value is None or None in value.reshape(-1).tolist() else value

    def _input_shape(self, node: Node, index: int) -> TensorShape:
        edge = node.in_edges[index]
        return self.shapes.of(edge.src)[edge.src_output]

    def _kinds_of_call(
        self, node: Node, called: Sequence[CalledFunction], inputs: Sequence[_Kind]
    ) -> Kinds:
        """Return the kinds of the results of a call."""
        (first, *others) = called
        is_plain = not others and first.kind is CallKind.ONCE and not first.call.first_input
        if not is_plain:
            raise _mixes(node, "calls functions in a way other than a plain call")
        if self._depth >= _MAX_DEPTH:
            raise _mixes(node, f"is inside of {_MAX_DEPTH} calls")
        function = first.function
        body = instantiate_function(function.name, function.attrs, node.graph.library, self._ops)
        args = self.shapes.arguments_of(node)
        order = topological_order(body.graph)
        arguments = {n: n.attrs["index"] for n in order if is_argument(n)}
        shapes = self.shapes.with_arguments({n: args[i] for n, i in arguments.items()})
        rows = _Rows(shapes, self._ops, self._depth + 1)
        for argument, index in arguments.items():
            rows.feed(argument, 0, inputs[index])
        rows.follow(order)
        results = {n.attrs["index"]: n.in_edges[0] for n in order if is_result(n)}
        return tuple(
            rows.kind(results[index].src, results[index].src_output)
            for index in range(len(body.ret_types))
        )


def _row_size(shape: TensorShape) -> int | None:
    """Return the number of elements of a row; None if that or the rank is unknown."""
    if not shape.rank or shape[0] is not None:
        return None
    sizes = [shape[index] for index in range(1, shape.rank)]
    return None if None in sizes else math.prod(size for size in sizes if size is not None)


def _is_broadcast(shape: TensorShape, rank: int) -> bool:
    """Return whether a tensor without rows has the same values for each row of another one."""
    if shape.rank is None:
        return False
    return shape.rank < rank or (shape.rank == rank and shape[0] == 1)


def _mixes(node: Node, why: str) -> _RowsMixError:
    return _RowsMixError(f"node '{node.name}' ({node.op}) {why}")
