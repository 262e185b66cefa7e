"""The scalar functions by which XLA operations combine elements."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill.errors import InvalidArgumentError, UnimplementedError
from graphmill.spi.kernels import cancellable
from graphmill.spi.passes import bind_node
from graphmill_plugins.kernels.functional._body_evaluator import evaluator

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.spi import FuncAttr, Node, OpKernelContext, Value
    from graphmill.spi.compilers import FunctionLibraryRuntime

_ELEMENTWISE: Final = frozenset(
    [
        "Abs", "Add", "AddV2", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Cast", "Const", "Div",
        "DivNoNan", "Equal", "Exp", "FloorDiv", "FloorMod", "Greater", "GreaterEqual", "Identity",
        "IsFinite", "IsInf", "IsNan", "LeftShift", "Less", "LessEqual", "Log", "LogicalAnd",
        "LogicalNot", "LogicalOr", "Maximum", "Minimum", "Mod", "Mul", "Neg", "NotEqual", "NoOp",
        "Pow", "RealDiv", "RightShift", "SelectV2", "Sign", "Sqrt", "Square", "SquaredDifference",
        "Sub", "TruncateDiv", "TruncateMod", "_Arg", "_Retval",
    ]
)  # fmt: skip
"""Elementwise ops, which compute each element of an array like a scalar."""
_CALLS: Final = ("PartitionedCall", "StatefulPartitionedCall")


class Computation:
    """A function of scalars, vectorized over arrays that broadcast.

    A body of elementwise ops is called once with the arrays. Any other body is called for each
    element.

    Args:
        function: the name and attrs of the function.
        runtime: the library with its body.
    """

    def __init__(self, function: FuncAttr, runtime: FunctionLibraryRuntime) -> None:
        body = runtime.body(function.name, function.attrs)
        self._name = body.name
        self._arguments = len(body.arg_types)
        self._dtypes = [dtype.as_numpy_dtype for dtype in body.ret_types]
        self._runtime = runtime
        self._is_elementwise = True
        self._evaluate = evaluator(body, self._compute)

    def __call__(self, *args: Value) -> list[Value]:
        """Return the results for each element, in the arrays' common shape.

        Raises:
            InvalidArgumentError: the number of arguments is wrong.
        """
        if len(args) != self._arguments:
            raise InvalidArgumentError(
                f"the function '{self._name}' takes {self._arguments} arguments, got {len(args)}"
            )
        shape = np.broadcast_shapes(*(np.shape(arg) for arg in args))
        if self._is_elementwise:
            return [np.broadcast_to(found, shape) for found in self._evaluate(args)]
        spread = [np.broadcast_to(arg, shape).reshape(-1) for arg in args]
        results = [np.empty(shape, dtype) for dtype in self._dtypes]
        for index in cancellable(range(spread[0].size)):
            found = self._evaluate([np.asarray(arg[index]) for arg in spread])
            for result, value in zip(results, found, strict=True):
                result.flat[index] = value
        return results

    def _compute(self, node: Node) -> Callable[..., Any]:
        if node.op in _CALLS:
            return Computation(node.attrs["f"], self._runtime)
        if node.op not in _ELEMENTWISE:
            self._is_elementwise = False
        choice = self._runtime.host.kernels.find(node.op_def, node.attrs, "CPU", ("numpy",))
        if choice.definition.stateful or choice.definition.async_:
            raise UnimplementedError(
                f"the function '{self._name}' has op {node.op} (node '{node.name}'); a combining "
                "function must only compute with its arguments",
                node=node.name,
                op_type=node.op,
            )
        return bind_node(node, choice, self._runtime.effects, np).compute


def function_of(ctx: OpKernelContext, name: str, function: FuncAttr) -> Computation:
    """Return the function that a node's attr names; it is created when the node first runs."""
    computation = ctx.state.get(name)
    if not isinstance(computation, Computation):
        computation = ctx.state.setdefault(name, Computation(function, ctx.functions))
    assert isinstance(computation, Computation)
    return computation


def combine_at(
    flat: Value, indices: Value, values: Sequence[Value] | Value, combine: Computation
) -> None:
    """Combine values with the elements at indices of a vector; repeated indices apply in order."""
    order = np.argsort(indices, kind="stable")
    ordered = indices[order]
    begins = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]]) if len(indices) else order
    counts = np.diff(np.r_[begins, len(indices)])
    occurrences = np.arange(len(indices)) - np.repeat(begins, counts)
    by_occurrence = order[np.argsort(occurrences, kind="stable")]
    ends = np.cumsum(np.bincount(occurrences)).tolist()
    for begin, end in cancellable(itertools.pairwise([0, *ends]), 1):
        chosen = by_occurrence[begin:end]
        targets = indices[chosen]
        (flat[targets],) = combine(flat[targets], np.asarray(values)[chosen])
