"""Declare kernels with `@kernel`; `op_kernel` binds them to nodes.

A stateless kernel is a function over an array namespace:

    @kernel("AddV2", "Add", types={"T": dtypes.NUMERIC})
    def add(xp, x, y):
        return xp.add(x, y)

It receives the namespace first, then the op's inputs in OpDef order (a list input is one list),
then by keyword the attrs that its signature names, as Python values: types as NumPy dtypes, strings
as `str`, shapes as tuples (-1 unknown; None where the rank is unknown), tensors as NumPy arrays,
lists as tuples, functions as `FuncAttr`. It returns the output, a tuple of several, or None for
none; a list output is one list. All of this is resolved when a node is bound, so that a call has no
overhead.

A host kernel always computes with NumPy, and a kernel for one backend with that backend. Such a
kernel receives the namespace only if its first parameter is called `xp`:

    @kernel("StringLower", host=True)
    def string_lower(input_, *, encoding): ...
"""

from __future__ import annotations

import copy
import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from graphmill.dtypes import DType, as_dtype
from graphmill.errors import InvalidArgumentError
from graphmill.ops.definition.op_traits import EFFECTS, effect_set
from graphmill.registry import PLAIN_FUNCTION, function_source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from graphmill.runtime.kernels.lowering import Check, Lowering

_KERNELS_ATTRIBUTE = "__graphmill_kernels__"
LOWERINGS_ATTRIBUTE: Final = "__graphmill_lowerings__"
"""Attribute of a function that holds the lowerings declared on it (`lowering.py`)."""
_Declared = TypeVar("_Declared", bound="Callable[..., Any]")


# `__init__` is written out: generating it would take a large part of the time of an import.
@dataclass(init=False, repr=False, eq=False, match_args=False)
class KernelDef:
    """The declaration of one kernel, which is never changed; see `kernel` for its fields."""

    ops: tuple[str, ...]
    function: Callable[..., Any]
    backend: str | None
    device: tuple[str, ...]
    types: Mapping[str, tuple[DType, ...]]
    label: str
    priority: int
    host: bool
    static: tuple[str, ...]
    stateful: bool
    async_: bool
    expensive: bool
    dynamic_shape: bool
    effects: frozenset[str]
    host_memory: tuple[str, ...]
    make: bool
    variable: str
    waits: bool | None
    traces_variables: bool
    distinct_rows: bool
    forwards: bool
    checks: tuple[Check, ...]
    lowering: Lowering | None
    pytrees: tuple[type, ...]
    brokered: bool

    def __init__(
        self,
        ops: tuple[str, ...],
        function: Callable[..., Any],
        backend: str | None = None,
        device: tuple[str, ...] = (),
        types: Mapping[str, tuple[DType, ...]] | None = None,
        label: str = "",
        priority: int = 0,
        host: bool = False,
        static: tuple[str, ...] = (),
        stateful: bool = False,
        async_: bool = False,
        expensive: bool = False,
        dynamic_shape: bool = False,
        effects: frozenset[str] = frozenset(),
        host_memory: tuple[str, ...] = (),
        make: bool = False,
        variable: str = "",
        waits: bool | None = None,
        traces_variables: bool = False,
        distinct_rows: bool = False,
        forwards: bool = False,
        checks: tuple[Check, ...] = (),
        lowering: Lowering | None = None,
        pytrees: tuple[type, ...] = (),
        brokered: bool = False,
    ) -> None:
        self.ops = ops
        self.function = function
        self.backend = backend
        self.device = device
        self.types = {} if types is None else types
        self.label = label
        self.priority = priority
        self.host = host
        self.static = static
        self.stateful = stateful
        self.async_ = async_
        self.expensive = expensive
        self.dynamic_shape = dynamic_shape
        self.effects = effects
        self.host_memory = host_memory
        self.make = make
        self.variable = variable
        self.waits = waits
        self.traces_variables = traces_variables
        self.distinct_rows = distinct_rows
        self.forwards = forwards
        self.checks = checks
        self.lowering = lowering
        self.pytrees = pytrees
        self.brokered = brokered

    def on_host(self) -> KernelDef:
        """Return this kernel with `host=True`; later calls return the same object."""
        if self.host:
            return self
        form: KernelDef | None = self.__dict__.get("_host_form")
        if form is None:
            form = copy.copy(self)
            form.host = True
            form = self.__dict__.setdefault("_host_form", form)
        return form

    def __repr__(self) -> str:
        return f"KernelDef({', '.join(self.ops)}: {self.source})"

    @property
    def may_wait(self) -> bool:
        """Whether a call may wait for another node of the step."""
        return self.async_ if self.waits is None else self.waits

    @property
    def is_traceable(self) -> bool:
        """Whether a compiler may trace the kernel: it needs neither context nor host values."""
        return not (self.stateful or self._is_untraced)

    @property
    def keeps_variable(self) -> bool:
        """Whether a compiler may trace the kernel with its state as an additional input."""
        return bool(self.variable) and not self._is_untraced

    @property
    def is_shareable(self) -> bool:
        """Whether nodes with equal attrs may share the bound call: it keeps nothing of a node."""
        keeps = self.stateful or self.brokered or bool(self.effects)
        return not (keeps or isinstance(self.function, type))

    @property
    def _is_untraced(self) -> bool:
        return self.host or self.async_ or self.dynamic_shape

    @property
    def source(self) -> str:
        """Where the kernel is defined, as `module.function`, for messages."""
        return function_source(self.function)


class KernelTable(list[KernelDef]):
    """Kernels that are created in a loop, and collected from a module like decorated functions."""

    @property
    def __graphmill_kernels__(self) -> list[KernelDef]:
        """The kernels of the table, under the name that the collector looks up."""
        return self


def kernel(
    *op_types: str,
    backend: str | None = None,
    device: str | Iterable[str] = (),
    types: Mapping[str, Iterable[Any]] | None = None,
    label: str = "",
    priority: int = 0,
    host: bool = False,
    static: Iterable[str] = (),
    stateful: bool = False,
    async_: bool = False,
    expensive: bool = False,
    dynamic_shape: bool = False,
    effects: Iterable[str] = (),
    host_memory: Iterable[str] = (),
    make: bool = False,
    variable: str = "",
    waits: bool | None = None,
    traces_variables: bool = False,
    distinct_rows: bool = False,
    forwards: bool = False,
    check: Check | Iterable[Check] | Callable[..., Any] = (),
    lowering: Lowering | Callable[..., Any] | None = None,
    pytrees: type | Iterable[type] = (),
    brokered: bool = False,
) -> Callable[[_Declared], _Declared]:
    """Declare the decorated function (or class) to be a kernel of `op_types`.

    Args:
        op_types: the ops it computes.
        backend: the array namespace it is for (`"numpy"`, `"jax"`, `"torch"` …); None for any. On
            its backend a special kernel is preferred over a general one. It receives the namespace
            only if its first parameter is called `xp`.
        device: device types it is for; empty for every device that accepts the backend.
        types: the supported element types by type attr; an attr that is left out may have any.
        label: the value of a node's `_kernel` attr that selects it; empty for ordinary nodes.
        priority: the highest wins among matching kernels; two that match equally are an error.
        host: it always needs concrete NumPy values (strings, files, data-dependent Python). It
            receives the namespace only if its first parameter is called `xp`.
        static: inputs (OpDef names) that are concrete NumPy arrays even while a compiler traces.
        stateful: it receives an `OpKernelContext` instead of the namespace. A class is instantiated
            once for each session and node, with an `OpKernelConstruction`, and called with context
            and inputs; one without state is called with the inputs alone.
        async_: it receives `done` by keyword, returns at once, and calls `done(outputs, error)`
            later.
        expensive: it is expensive enough to run in another thread.
        dynamic_shape: the shape of its output depends on values, so it cannot be traced.
        effects: its effects beyond its inputs and outputs; a subset of `EFFECTS`.
        host_memory: inputs and outputs that live in host memory on any device.
        make: the function is called once for each node, with namespace and attrs, and returns the
            function of the inputs: per-node work is done there and not in each call. Nodes with
            equal attrs may share what it returns, unless op or kernel have state or effects.
        variable: the attribute of an instance that is a `Variable` and holds all its state between
            calls. A compiler that traces such a kernel sets a traced value before each call and
            reads the new one after it; interpreted calls share the variable. While it is traced,
            the context has no step.
        waits: whether a call may block until another node of the step has run (a dequeue waits for
            an enqueue); by default whether it is asynchronous. Compilers do not put two such nodes
            into one program.
        traces_variables: a promise of a stateful kernel: it uses only `ctx.xp` of its context, and
            only `value`, `lock`, `dtype` and `shape` of variables that it receives by handle or
            reference. A compiler may call it with variables that hold traced values.
        distinct_rows: a promise of a kernel that updates rows of variables and has
            `traces_variables`: where `ctx.state[UNIQUE_INDICES]` is true, the indices are unique,
            and it drops indices out of range. Compilers trace it only in this mode.
        forwards: a promise that each output is an unchanged input, or `DEAD`, except for the index
            of a `Merge`: executors do not check such outputs, and compiled code omits the call of a
            kernel with one input and one output.
        check: the condition on inputs or results under which compiled code computes the same as the
            kernel, as `Check` or as a predicate of the inputs; see
            `graphmill.runtime.kernels.lowering`.
        lowering: a traceable form of a kernel that is not traceable itself; see the same module.
        pytrees: the classes of its variant inputs and outputs, all declared with `pytree`. A
            compiler traces such values, and passes them into and out of programs.
        brokered: a promise that it opens files, and has other effects than those on state, only
            through the `graphmill.access.broker.Broker` that a function takes as keyword argument
            `broker`, and a class finds as `construction.broker`. In a session with rules, a kernel
            without this promise is refused for its effects as a whole, before it is called.

    Raises:
        InvalidArgumentError: no op is named, an effect is unknown, or the declarations contradict
            each other.
    """
    if not op_types:
        raise InvalidArgumentError("@kernel needs the names of the ops that it computes")
    effects = effect_set(effects)
    unknown = effects - EFFECTS
    if unknown:
        raise InvalidArgumentError(f"unknown effects {sorted(unknown)}; known: {sorted(EFFECTS)}")
    checks, traceable = _for_compilers(check, lowering, op_types)

    def declare(function: _Declared) -> _Declared:
        definition = KernelDef(
            ops=op_types,
            function=getattr(function, PLAIN_FUNCTION, function),
            backend=backend,
            device=(device,) if isinstance(device, str) else tuple(device),
            types={name: tuple(map(as_dtype, allowed)) for name, allowed in (types or {}).items()},
            label=label,
            priority=priority,
            host=host,
            static=tuple(static),
            stateful=stateful or async_,
            async_=async_,
            expensive=expensive,
            dynamic_shape=dynamic_shape,
            effects=effects,
            host_memory=tuple(host_memory),
            make=make,
            variable=variable,
            waits=waits,
            traces_variables=traces_variables,
            distinct_rows=distinct_rows,
            forwards=forwards,
            checks=checks,
            lowering=traceable,
            pytrees=(pytrees,) if isinstance(pytrees, type) else tuple(pytrees),
            brokered=brokered,
        )
        _check_declaration(definition)
        declared = [*getattr(function, _KERNELS_ATTRIBUTE, ()), definition]
        setattr(function, _KERNELS_ATTRIBUTE, declared)
        return function

    return declare


def _for_compilers(
    check: Check | Iterable[Check] | Callable[..., Any],
    lowering: Lowering | Callable[..., Any] | None,
    ops: tuple[str, ...],
) -> tuple[tuple[Check, ...], Lowering | None]:
    """Return the check and the lowering that a kernel declares, if any."""
    if check == () and lowering is None:
        return (), None
    from graphmill.runtime.kernels.lowering import as_checks, as_lowering  # a step needs none of it

    return as_checks(check), as_lowering(lowering, ops)


def _check_declaration(definition: KernelDef) -> None:
    """Refuse a declaration that contradicts itself."""
    if definition.traces_variables and (definition.async_ or definition.host):
        raise InvalidArgumentError(
            f"the kernel {definition.source} declares traces_variables together with "
            f"{'async_' if definition.async_ else 'host'}: a kernel that needs concrete values, or "
            "returns before it is done, cannot be called with traced ones"
        )
    if definition.traces_variables and not definition.stateful:
        raise InvalidArgumentError(
            f"the kernel {definition.source} declares traces_variables without stateful=True; a "
            "stateless kernel receives no variables"
        )
    for kind in definition.pytrees:
        if not isinstance(kind, type):
            raise InvalidArgumentError(
                f"pytrees= of the kernel {definition.source} takes classes, not {kind!r}"
            )


def kernels_of(owner: object) -> list[KernelDef]:
    """Return the kernels declared by a function, a table, or everything in a module."""
    direct = getattr(owner, _KERNELS_ATTRIBUTE, None)
    if direct is not None:
        return list(direct)
    definitions: dict[int, KernelDef] = {}
    if not inspect.ismodule(owner):
        return []
    for value in vars(owner).values():
        declared = getattr(value, _KERNELS_ATTRIBUTE, None)
        # A module that imports a kernel function of another one does not declare it again.
        if declared and (isinstance(value, KernelTable) or value.__module__ == owner.__name__):
            definitions.update((id(definition), definition) for definition in declared)
    return list(definitions.values())
