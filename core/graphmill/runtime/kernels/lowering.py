"""Lowerings: how a compiler computes an op whose kernel it cannot trace.

A compiler traces a node by calling its kernel with traced values. That suffices for a pure function
of the array namespace. Otherwise a lowering supplies the missing part: a condition that compiled
code must check, because it cannot raise,

    @lowering("Mine>Sqrt", check=Check(lambda xp, x: xp.all(x >= 0), InvalidArgumentError))

or a traceable form of a kernel that is not traceable itself:

    @lowering("Mine>Push")
    def push(trace, handle, value):
        trace.write(handle, trace.xp.append(trace.read(handle), value))

A lowering belongs to the kernels of its supplier: if a kernel of another plugin is chosen for a
node, that plugin's lowering is used, or the node is not compiled.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeVar

from graphmill.errors import InvalidArgumentError
from graphmill.registry import function_source
from graphmill.runtime.kernels.kernel import LOWERINGS_ATTRIBUTE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from graphmill.errors import OpError
    from graphmill.graph.node import Node
    from graphmill.ops.attrs.attr_types import FuncAttr
    from graphmill.typing import ArrayNamespace

_Declared = TypeVar("_Declared", bound="Callable[..., Any]")


class NotTraceable(Exception):  # noqa: N818 - not an error: the node is interpreted instead
    """A computation cannot be traced, for the reason in the text; it is interpreted instead.

    Attributes:
        node: the node that cannot be traced; None while it is unknown.
    """

    node: Node | None = None

    def at(self, node: Node) -> NotTraceable:
        """Set the node that cannot be traced, unless it is set already; return the error."""
        if self.node is None:
            self.node = node
            self.args = (f"{node.name} ({node.op}): {self.args[0]}", *self.args[1:])
        return self


class TraceContext(Protocol):
    """The first argument of a lowering, before the inputs of its node.

    Attributes:
        xp: the array namespace of traced values (`jax.numpy`).
        node_name: name of the node, for messages: clusters that differ in names share a program.
        op: its op type.
        attrs: its attrs in canonical form.
    """

    xp: ArrayNamespace
    node_name: str
    op: str
    attrs: Mapping[str, Any]

    def is_static(self, value: Any) -> bool:
        """Return whether a value is static: a NumPy array, not a traced value."""
        ...

    def require(self, holds: Any) -> None:
        """Make compiled code check a condition; if it fails, the interpreter runs the step.

        Args:
            holds: a bool of rank 0, static or traced.
        """
        ...

    def read(self, variable: Any) -> Any:
        """Return the value of a variable that the node receives by handle or reference.

        Raises:
            NotTraceable: it is not a variable.
        """
        ...

    def write(self, variable: Any, value: Any) -> None:
        """Assign a new value of the same type to a variable.

        Raises:
            NotTraceable: it is not a variable, or the value has another type.
        """
        ...

    def call(self, function: FuncAttr, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """Trace a function of the graph's library; return its results.

        Raises:
            NotTraceable: one of its nodes cannot be traced.
        """
        ...


class Check(NamedTuple):
    """A condition under which compiled code computes the same as the kernel.

    Compiled code cannot raise, and some of its functions are wrong for unusual values. Where the
    predicate is false, the interpreter runs the step instead, and the kernel raises or computes.

    Attributes:
        predicate: called as `predicate(xp, *inputs, **attrs)` with inputs in the order of the
            `OpDef` (lists as lists) and those attrs that its signature names; returns a bool of
            rank 0. It is traced: no `if` over values.
        error: the error that the kernel raises where it is false; None if it computes a result.
        of: whether the predicate receives the inputs or the results.
    """

    predicate: Callable[..., Any]
    error: type[OpError] | None = None
    of: Literal["inputs", "results"] = "inputs"


class Lowering(NamedTuple):
    """How a compiler computes an op; see `lowering` for its fields."""

    ops: tuple[str, ...] = ()
    function: Callable[..., Any] | None = None
    checks: tuple[Check, ...] = ()
    static: tuple[str, ...] = ()
    standalone: bool | Callable[[Node], bool] = False
    refuse: Callable[[Node], str | None] | None = None
    priority: int = 0
    distinct_rows: bool = False

    @property
    def source(self) -> str:
        """Where the lowering is defined, as `module.function`, for messages."""
        function = self.function or next((check.predicate for check in self.checks), None)
        if function is None:
            return f"the declaration for {', '.join(self.ops)}"
        return function_source(function)


class LoweringTable(list[Lowering]):
    """Lowerings that are created in a loop, and collected from a module like functions."""


def lowering(
    *ops: str,
    check: Check | Iterable[Check] | Callable[..., Any] = (),
    static: Iterable[str] = (),
    standalone: bool | Callable[[Node], bool] = False,
    refuse: Callable[[Node], str | None] | None = None,
    priority: int = 0,
    distinct_rows: bool = False,
) -> Callable[[_Declared], _Declared]:
    """Declare the decorated function to be the traceable form of `ops`.

    It is called as `function(trace, *inputs, **attrs)`: a `TraceContext`, the inputs in the order
    of the `OpDef` (lists as lists), and by keyword the attrs that its signature names, as Python
    values. It returns what a kernel returns.

    Args:
        ops: the ops that it is for.
        check: conditions to check in addition.
        static: inputs (OpDef names) that must be static while tracing.
        standalone: whether one node of the op may form a cluster alone; or a function of the node
            that returns that. The call of a program costs as much as some ten small kernels.
        refuse: returns why a node cannot be compiled, given its attrs and its neighbours in the
            graph, or None; called once, before anything is traced.
        priority: the highest wins among the lowerings of one supplier.
        distinct_rows: whether it drops row indices out of range, which stand for duplicates (see
            `distinct_rows` of `@kernel`).

    Raises:
        InvalidArgumentError: no op is named.
    """
    if not ops:
        raise InvalidArgumentError("@lowering needs the names of the ops that it is for")

    def declare(function: _Declared) -> _Declared:
        declaration = Lowering(
            ops,
            function,
            as_checks(check),
            tuple(static),
            standalone,
            refuse,
            priority,
            distinct_rows,
        )
        declared = [*getattr(function, LOWERINGS_ATTRIBUTE, ()), declaration]
        setattr(function, LOWERINGS_ATTRIBUTE, declared)
        return function

    return declare


def lowerings_of(owner: object) -> list[Lowering]:
    """Return the lowerings declared by a function, a table, or everything in a module."""
    if isinstance(owner, Lowering):
        return [owner]
    if isinstance(owner, LoweringTable):
        return list(owner)
    direct = getattr(owner, LOWERINGS_ATTRIBUTE, None)
    if direct is not None:
        return list(direct)
    if not inspect.ismodule(owner):
        return []
    lowerings: dict[int, Lowering] = {}
    for value in vars(owner).values():
        if isinstance(value, LoweringTable):
            declared: Iterable[Lowering] = value
        elif isinstance(value, Lowering):
            declared = (value,)
        elif getattr(value, "__module__", None) == owner.__name__:
            declared = getattr(value, LOWERINGS_ATTRIBUTE, ())
        else:
            continue
        lowerings.update((id(one), one) for one in declared)
    return list(lowerings.values())


def as_checks(check: Check | Iterable[Check] | Callable[..., Any]) -> tuple[Check, ...]:
    """Convert a `check=` argument to a tuple; a function is a predicate of inputs."""
    if isinstance(check, Check):
        return (check,)
    if callable(check):
        return (Check(check),)
    checks = tuple(check)
    for one in checks:
        if not isinstance(one, Check):
            raise InvalidArgumentError(
                f"check= takes a Check, a predicate, or several Checks, not {one!r}"
            )
    return checks


def as_lowering(
    lowering: Lowering | Callable[..., Any] | None, ops: tuple[str, ...]
) -> Lowering | None:
    """Convert the `lowering=` argument of a kernel to a `Lowering` for its ops."""
    if lowering is None or isinstance(lowering, Lowering):
        return lowering and lowering._replace(ops=lowering.ops or ops)
    if not callable(lowering):
        raise InvalidArgumentError(f"lowering= takes a Lowering or a function, not {lowering!r}")
    return Lowering(ops, lowering)
