"""`check_call_types`: check that nodes and the functions that they call agree on element types.

A node declares the types of its inputs and outputs in its own attrs (`Tin`, `Tout`, `T`), so a
malformed graph can promise other results than those of the function that it calls.

Semantics: the checks of `tensorflow/core/common_runtime/inline_function_utils.cc`
(`ValidateInlining`) and `tensorflow/core/kernels/functional_ops.cc`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.dtypes import int32
from graphmill.errors import InvalidArgumentError, NotFoundError
from graphmill.graph.functions.function_calls import BY_NAME, calls_of
from graphmill.ops.definition.op_traits import CallKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from graphmill.dtypes import DType
    from graphmill.graph.functions.function_calls import CalledFunction
    from graphmill.graph.functions.function_library import FunctionLibrary
    from graphmill.graph.node import Node

_UNCHECKED = (CallKind.GRADIENT, CallKind.DEFERRED)


def check_call_types(nodes: Iterable[Node], library: FunctionLibrary) -> None:
    """Check the calls of some nodes.

    A function that does not exist, or that needs an attr which the call lacks, is left out: the
    call is refused when it is run.

    Raises:
        InvalidArgumentError: the function of a call takes or returns tensors of another number or
            of other types than the node.
    """
    for node in nodes:
        for called in calls_of(node, library):
            if called.call is not BY_NAME and called.kind not in _UNCHECKED:
                _check_call(node, called, library)


def _check_call(node: Node, called: CalledFunction, library: FunctionLibrary) -> None:
    actual = _signature_types(called, library)
    if actual is None:
        return
    taken, returned = actual
    arguments = list(node.input_types[called.call.first_input :])
    if called.call.counted:
        arguments = [int32, *arguments]
    _compare(node, called, "takes", taken, arguments)
    if called.kind is CallKind.LOOP_CONDITION:
        if len(returned) != 1:
            raise _error(
                node,
                f"the condition {called.name!r} returns {_text(returned)}, expected one result",
            )
        return
    _compare(node, called, "returns", returned, node.output_types)


def _signature_types(
    called: CalledFunction, library: FunctionLibrary
) -> tuple[Sequence[DType], Sequence[DType]] | None:
    """Return the types that a function takes and returns; None if they are not known yet."""
    body = library.body(called.name)
    if body is not None:
        return None  # a pass made it from nodes that had been checked
    try:
        signature = library.signature(called.name)
        attrs = signature.with_defaults(dict(called.function.attrs))
        return signature.input_types(attrs), signature.output_types(attrs)
    except (InvalidArgumentError, NotFoundError):
        return None


def _compare(
    node: Node,
    called: CalledFunction,
    verb: str,
    actual: Sequence[DType],
    expected: Sequence[DType],
) -> None:
    if tuple(actual) != tuple(expected):
        raise _error(
            node, f"the function {called.name!r} {verb} {_text(actual)}, expected {_text(expected)}"
        )


def _text(types: Sequence[DType]) -> str:
    return f"({', '.join(dtype.name for dtype in types)})"


def _error(node: Node, reason: str) -> InvalidArgumentError:
    error = InvalidArgumentError(reason)
    error.locate(node=node.name, op_type=node.op)
    return error
