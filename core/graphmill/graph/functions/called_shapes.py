"""Infer the output shapes of function calls from the functions' bodies.

Semantics: `InferShapesForFunction` in tensorflow/core/common_runtime/shape_refiner.cc. TensorFlow
does so for plain calls; here functional conditionals and loops are followed, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from graphmill.errors import InvalidArgumentError, OpError
from graphmill.graph.functions.function_calls import CalledFunction, calls_of
from graphmill.graph.node_roles import is_argument, is_argument_or_result, is_result
from graphmill.ops.definition.op_traits import CallKind
from graphmill.ops.inference.tensor_shape import UNKNOWN_SHAPE, TensorShape

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphmill.graph.functions.function_body import FunctionBody
    from graphmill.graph.functions.function_library import FunctionLibrary
    from graphmill.graph.node import Node
    from graphmill.ops.attrs.attr_types import FuncAttr
    from graphmill.ops.definition.op_registry import OpRegistry

    Shapes = tuple[TensorShape, ...]

_PASSES: Final = 6
"""Maximum number of passes over a loop body; if its shapes still change then, they are unknown."""


class BodyShapes(Protocol):
    """Infers the shapes of a function body from its arguments."""

    def __call__(self, args: Mapping[Node, Arg], calls: CalledShapes) -> Callable[[Node], Shapes]:
        """Return the function that infers the output shapes of a node of the body."""
        ...


class Arg:
    """The static shape of an argument, and of the variable if the argument is a handle."""

    __slots__ = ("shape", "variable")

    def __init__(self, shape: TensorShape, variable: TensorShape = UNKNOWN_SHAPE) -> None:
        self.shape = shape
        self.variable = variable


class CalledShapes:
    """Infers the shapes of calls from the functions of a graph.

    A recursive call is not followed; its result shapes are unknown.

    Attributes:
        library: the functions.

    Args:
        library: the functions.
        ops: definitions of the ops in their bodies.
        infer: infers the shapes of one body.
    """

    def __init__(self, library: FunctionLibrary, ops: OpRegistry, infer: BodyShapes) -> None:
        self.library = library
        self._ops = ops
        self._infer = infer
        self._calling: frozenset[str] = frozenset()
        self._bodies: dict[Any, FunctionBody] = {}

    def follows(self, node: Node) -> bool:
        """Return whether a node calls a function, so that `of` can infer its output shapes."""
        if node.op_def.traits.calls:
            return any(call.kind in _RULES for call in node.op_def.traits.calls)
        return node.op in self.library

    def of(self, node: Node, args: Sequence[Arg]) -> Shapes:
        """Return the shapes of the outputs of a call.

        Raises:
            InvalidArgumentError: a node of a body that is always called has invalid inputs.
        """
        shapes = self._found(calls_of(node, self.library), args, node.num_outputs)
        if shapes is None or len(shapes) != node.num_outputs:
            shapes = (UNKNOWN_SHAPE,) * node.num_outputs
        declared = node.attrs.get("output_shapes") or ()
        if len(declared) != len(shapes):
            return shapes
        pairs = zip(shapes, declared, strict=True)
        return tuple(TensorShape(attr) if shape.rank is None else shape for shape, attr in pairs)

    def _found(
        self, called: Sequence[CalledFunction], args: Sequence[Arg], num_outputs: int
    ) -> Shapes | None:
        for kind, rule in _RULES.items():
            of_kind = [one for one in called if one.kind is kind]
            if of_kind:
                return rule(self, of_kind, args, num_outputs)
        return None

    def returned(self, function: FuncAttr, args: Sequence[Arg]) -> Shapes | None:
        """Return the shapes of a function's results; None if they cannot be inferred."""
        name = function.name
        if name in self._calling:
            return None
        if name not in self.library and self.library.body(name) is None:
            return None
        try:
            body = self._body(function)
        except OpError:
            return None  # running the function raises; shape inference does not
        if len(args) != len(body.arg_types):
            return None
        nodes = [node for node in body.graph.nodes if is_argument_or_result(node)]
        arg_of = {node: args[node.attrs["index"]] for node in nodes if is_argument(node)}
        rets = sorted(filter(is_result, nodes), key=lambda node: node.attrs["index"])
        inner = CalledShapes(self.library, self._ops, self._infer)
        inner._calling = self._calling | {name}
        inner._bodies = self._bodies
        of = self._infer(arg_of, inner)
        try:
            return tuple(of(ret.in_edges[0].src)[ret.in_edges[0].src_output] for ret in rets)
        except OpError as error:
            if "in function '" not in error.message:
                error.message = f"in function '{name}': {error.message}"
            raise

    def _body(self, function: FuncAttr) -> FunctionBody:
        declared = self.library.attr_names(function.name)
        attrs = {key: value for key, value in function.attrs.items() if key in declared}
        key = (function.name, frozenset(attrs.items()))
        body = self._bodies.get(key)
        if body is None:
            from graphmill.graph.functions.function_body import (
                instantiate_function,  # few graphs have calls
            )

            body = instantiate_function(function.name, attrs, self.library, self._ops)
            self._bodies[key] = body
        return body


def _called(
    calls: CalledShapes, called: Sequence[CalledFunction], args: Sequence[Arg], _: int
) -> Shapes | None:
    if len(called) != 1:
        return None
    (one,) = called
    return calls.returned(one.function, args[one.call.first_input :])


def _gradient(
    _: CalledShapes, called: Sequence[CalledFunction], args: Sequence[Arg], num_outputs: int
) -> Shapes:
    """Return the shapes of gradients, which are those of the inputs that they belong to."""
    return tuple(arg.shape for arg in args[called[0].call.first_input :][:num_outputs])


def _chosen(
    calls: CalledShapes, called: Sequence[CalledFunction], args: Sequence[Arg], _: int
) -> Shapes | None:
    merged: Shapes | None = None
    for branch in called:
        try:
            shapes = calls.returned(branch.function, args[branch.call.first_input :])
        except InvalidArgumentError:
            return None  # this branch may never be taken
        if shapes is None or len(shapes) != len(merged or shapes):
            return None
        merged = shapes if merged is None else _relaxed(merged, shapes)
    return merged


def _looped(
    calls: CalledShapes, called: Sequence[CalledFunction], args: Sequence[Arg], _: int
) -> Shapes | None:
    if len(called) != 1:
        return None
    (body,) = called
    first = [Arg(TensorShape(()))] if body.call.counted else []  # the iteration index
    args = args[body.call.first_input :]
    state = tuple(arg.shape for arg in args)
    for _ in range(_PASSES):
        inputs = [Arg(shape, a.variable) for shape, a in zip(state, args, strict=True)]
        try:
            after = calls.returned(body.function, [*first, *inputs])
        except InvalidArgumentError:
            return None  # the loop may run no iteration
        if after is None or len(after) != len(state):
            return None
        relaxed = _relaxed(state, after)
        if relaxed == state:
            return state
        state = relaxed
    return None


def _relaxed(one: Shapes, other: Shapes) -> Shapes:
    return tuple(map(TensorShape.relaxed_with, one, other))


_Rule = Callable[[CalledShapes, Sequence[CalledFunction], Sequence[Arg], int], "Shapes | None"]
_RULES: Final[dict[CallKind, _Rule]] = {
    CallKind.LOOP_BODY: _looped,
    CallKind.BRANCH: _chosen,
    CallKind.GRADIENT: _gradient,
    CallKind.ONCE: _called,
}
"""How to infer the outputs of an op from the results of the functions that it calls."""
