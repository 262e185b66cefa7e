"""`calls_of`: the functions that a node calls, and how.

    for called in calls_of(node):
        if called.kind is CallKind.BRANCH: ...

How an op calls the functions in its attrs is declared in its traits (`OpTraits.calls`). A function
attr that is not declared there is `CallKind.DEFERRED`. A node whose op is itself a function of the
graph's library calls that function once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from graphmill.ops.attrs.attr_types import FuncAttr
from graphmill.ops.definition.op_traits import CallKind, FunctionCall

if TYPE_CHECKING:
    from graphmill.graph.functions.function_library import FunctionLibrary
    from graphmill.graph.node import Node

_EXECUTOR_ATTR: Final = "executor_type"
BY_NAME: Final = FunctionCall("", CallKind.ONCE)
"""The call of a node whose op is itself a function; no attr names that function."""


class CalledFunction(NamedTuple):
    """A function that a node calls.

    Attributes:
        function: its name, and the attrs that it is instantiated with.
        call: how the op calls it, as declared.
    """

    function: FuncAttr
    call: FunctionCall

    @property
    def name(self) -> str:
        """Name of the function."""
        return self.function.name

    @property
    def kind(self) -> CallKind:
        """How the function is called."""
        return self.call.kind


def calls_of(node: Node, library: FunctionLibrary | None = None) -> list[CalledFunction]:
    """Return the functions that a node calls, in the order of the declaration.

    The functions of one list attr, such as the branches of `Case`, share a declaration. An attr
    that is missing or does not name a function (yet) is left out.

    Args:
        node: the node.
        library: the library in which its op may be a function; by default that of its graph.
    """
    if node.op_def.name in (node.graph.library if library is None else library):
        return [CalledFunction(_function_of(node), BY_NAME), *_calls_by_attr(node)]
    return _calls_by_attr(node) if node.op_def.calls else []


def requested_executor(node: Node) -> str:
    """Return the `executor_type` with which a node asks to call its functions; "" for none.

    Such a call is neither inlined nor compiled, because a part of its caller would run otherwise.
    """
    value = node.attrs.get(_EXECUTOR_ATTR, "") if node.op_def.calls else ""
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else str(value)


def called_functions(node: Node, library: FunctionLibrary | None = None) -> list[FuncAttr]:
    """Return the functions that a node calls; see `calls_of`."""
    return [called.function for called in calls_of(node, library)]


def _calls_by_attr(node: Node) -> list[CalledFunction]:
    return [
        CalledFunction(function, call)
        for call in node.op_def.calls
        for function in _functions(node.attrs.get(call.attr))
    ]


def _functions(value: object) -> list[FuncAttr]:
    values = value if isinstance(value, tuple | list) else (value,)
    return [one for one in values if isinstance(one, FuncAttr)]


def _function_of(node: Node) -> FuncAttr:
    """Return the function that is a node's op; attrs that begin with `_` do not belong to it."""
    declared = {key: value for key, value in node.attrs.items() if not key.startswith("_")}
    return FuncAttr(node.op_def.name, declared)
