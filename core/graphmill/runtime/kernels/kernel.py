"""Kernels: declared with `@kernel`, bound once to each node.

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
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from graphmill.dtypes import DType, as_dtype
from graphmill.errors import InternalError, InvalidArgumentError
from graphmill.ops.attrs.attr_width import check_attr_widths
from graphmill.ops.definition.op_traits import EFFECTS, Boundary, effect_set
from graphmill.registry import function_source
from graphmill.runtime.kernels.kernel_signature import (
    attr_keywords,
    takes_broker,
    takes_namespace,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from graphmill.access.broker import Broker
    from graphmill.ops.definition.op_def import AttrDef, OpDef
    from graphmill.runtime.devices.device import Device
    from graphmill.runtime.kernels.lowering import Check, Lowering
    from graphmill.runtime.kernels.op_segment import StatefulKernels
    from graphmill.runtime.resources.variables import Variable
    from graphmill.typing import ArrayNamespace

_KERNELS_ATTRIBUTE = "__graphmill_kernels__"
LOWERINGS_ATTRIBUTE: Final = "__graphmill_lowerings__"
"""Attribute of a function that holds the lowerings declared on it (`lowering.py`)."""
UNIQUE_INDICES: Final = "unique_indices"
"""Key of `OpKernel.state`: true while tracing a sparse update whose row indices are unique;
out-of-range indices are dropped."""
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
            and inputs.
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
            function=function,
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


class OpKernelConstruction:
    """The argument of a kernel class when it is instantiated for a node.

    Attributes:
        node_name: the node's name.
        op: its op type.
        op_def: its `OpDef`.
        attrs: its attrs in canonical form, defaults filled in.
        device: the device it runs on.
        xp: the array namespace of the kernel's backend on the device.
        functions: the `FunctionLibraryRuntime` of the graph; None without a session.
        segment: the table of stateful kernels that the kernel belongs to; None without a session.
    """

    __slots__ = ("_broker", "attrs", "device", "functions", "node_name", "op_def", "segment", "xp")

    def __init__(
        self,
        node_name: str,
        op_def: OpDef,
        attrs: Mapping[str, Any],
        device: Device | None,
        xp: ArrayNamespace,
        functions: Any = None,
        segment: StatefulKernels | None = None,
        broker: Broker | None = None,
    ) -> None:
        self.functions = functions
        self._broker = broker
        self.segment = segment
        self.node_name = node_name
        self.op_def = op_def
        self.attrs = attrs
        self.device = device
        self.xp = xp

    @property
    def op(self) -> str:
        """The node's op type."""
        return self.op_def.name

    @property
    def broker(self) -> Broker:
        """The object that opens files and decides about other effects, for a `brokered` kernel."""
        if self._broker is None:
            from graphmill.access.broker import UNRESTRICTED  # most graphs open no files

            return UNRESTRICTED
        return self._broker

    @property
    def private_container(self) -> str:
        """The container for resources that belong to this session alone, and are deleted with it.

        For a node of a function they belong to one instantiation of the function. A resource
        manager finds them by this container and the name of the node. "" without a session.
        """
        if self.segment is None or self.device is None:
            return ""
        return self.segment.private_container(self.device.resource_mgr)

    def attr(self, name: str) -> Any:
        """Return an attr as a Python value (types as NumPy dtypes, strings as `str` …).

        Raises:
            InvalidArgumentError: the node has no such attr.
        """
        if name not in self.attrs:
            raise InvalidArgumentError(
                f"op {self.op} has no attr {name!r}; it has {', '.join(self.attrs) or 'none'}",
                node=self.node_name,
                op_type=self.op,
            )
        return python_value(self.attrs[name])


class OpKernel:
    """A kernel bound to one node: `compute` takes the flat inputs (a context first if stateful).

    `compute` returns a single output itself, several outputs as a sequence; for an op without
    outputs the result is ignored.

    Attributes:
        compute: the call; for an asynchronous kernel it also takes `done`.
        definition: the `KernelDef` that was bound.
        node_name, op: the node and its op type.
        device: the device that the kernel runs on.
        functions: the `FunctionLibraryRuntime` of the graph, for ops that call functions.
        state: a dict that belongs to this node in this session.
        variable: its state between calls, where its declaration names the attribute.
        gives_dead: whether its op declares that an output may be `DEAD`.
    """

    __slots__ = (
        "compute",
        "definition",
        "device",
        "functions",
        "gives_dead",
        "node_name",
        "op",
        "owner",
        "state",
        "variable",
        "xp",
    )

    def __init__(
        self,
        compute: Callable[..., Any],
        definition: KernelDef,
        node_name: str,
        op: str,
        device: Device | None = None,
        xp: ArrayNamespace = None,
        owner: object = None,
    ) -> None:
        self.compute = compute
        self.definition = definition
        self.node_name = node_name
        self.op = op
        self.device = device
        self.xp = xp
        self.owner = owner
        self.functions: Any = None
        self.gives_dead = True
        self.state: dict[Any, Any] = {}
        self.variable: Variable | None = None

    def for_node(self, node_name: str, compute: Callable[..., Any]) -> OpKernel:
        """Return this kernel for another node with the same op and attrs.

        Args:
            node_name: the name of the other node.
            compute: the call, which nodes share if the definition is shareable.
        """
        kernel = OpKernel(
            compute,
            self.definition,
            node_name,
            self.op,
            self.device,
            self.xp,
            self.owner,
        )
        kernel.gives_dead = self.gives_dead
        return kernel

    def with_call(self, compute: Callable[..., Any], **changes: Any) -> OpKernel:
        """Return a copy of the kernel with another call, for executors that wrap kernels.

        Args:
            compute: the call; its arguments follow from the changed `definition`.
            changes: changes of the definition, such as `stateful=True, async_=True` for a call that
                takes the context and `done`.
        """
        copied = copy.copy(self)
        copied.compute = compute
        copied.definition = replace(self.definition, **changes)
        return copied


def bind(
    definition: KernelDef, construction: OpKernelConstruction, owner: object = None
) -> OpKernel:
    """Bind a kernel to a node: resolve attrs, group list inputs, flatten list outputs.

    Raises:
        InvalidArgumentError: the kernel names an attr that the op does not have, or an attr value
            needs more bits than TensorFlow's kernel stores.
    """
    op_def, attrs = construction.op_def, construction.attrs
    check_attr_widths(op_def, attrs, construction.node_name)
    function: Any = definition.function
    variable: Variable | None = None
    if isinstance(function, type):
        kernel: Any = function(construction)
        compute: Callable[..., Any] = kernel.__call__
        if definition.variable:
            variable = getattr(kernel, definition.variable)
    else:
        named_attrs = wanted_attrs(definition.function, construction)
        if definition.brokered and takes_broker(function):
            named_attrs["broker"] = construction.broker
        leading = (construction.xp,) if takes_namespace(definition, op_def) else ()
        if definition.make:
            compute = definition.function(*leading, **named_attrs)
        else:
            compute = (
                partial(function, *leading, **named_attrs) if leading or named_attrs else function
            )
    flatten = output_flattener(op_def, attrs)
    if flatten is not None:
        wrap = _flatten_done if definition.async_ else _flatten_result
        compute = wrap(compute, flatten)
    compute = _group_inputs(compute, op_def, attrs, offset=int(definition.stateful))
    bound = OpKernel(
        compute,
        definition,
        construction.node_name,
        op_def.name,
        construction.device,
        construction.xp,
        owner,
    )
    bound.variable = variable
    bound.gives_dead = op_def.traits.may_be_dead or op_def.traits.boundary is not Boundary.NONE
    return bound


def python_value(canonical: Any) -> Any:
    """Convert an attr from its canonical form to the form that kernels see."""
    if isinstance(canonical, DType):
        return canonical.as_numpy_dtype
    if isinstance(canonical, bytes):
        return canonical.decode("utf-8", "surrogateescape")
    if isinstance(canonical, tuple):
        return tuple(python_value(item) for item in canonical)
    to_numpy = getattr(canonical, "numpy", None)
    return canonical if to_numpy is None else to_numpy()


def wanted_attrs(
    function: Callable[..., Any], construction: OpKernelConstruction
) -> dict[str, Any]:
    """Return the attrs that a function's parameters name, as Python values."""
    keywords = attr_keywords(function, construction.op_def)
    return {keyword: _attr_value(attr, construction) for attr, keyword in keywords}


def _attr_value(attr: AttrDef, construction: OpKernelConstruction) -> Any:
    try:
        return python_value(construction.attrs[attr.name])
    except KeyError:
        raise InternalError(
            f"attr {attr.name!r} of op {construction.op} was not filled in before binding",
            node=construction.node_name,
            op_type=construction.op,
        ) from None


def _group_inputs(
    compute: Callable[..., Any], op_def: OpDef, attrs: Mapping[str, Any], offset: int
) -> Callable[..., Any]:
    """Wrap `compute` so that it receives list inputs, which are flat in the graph, as lists."""
    if not op_def.has_list_inputs:
        return compute
    ranges = op_def.input_ranges(attrs)
    lists = {arg.name: arg.is_list for arg in op_def.input_args}
    if not offset and lists[op_def.input_args[0].name] and sum(lists.values()) == 1:
        # The common signatures, as those of Pack and ConcatV2: a list, alone or before single
        # inputs.
        stop = ranges[op_def.input_args[0].name][1]
        if len(ranges) == 1:
            return lambda *flat, **kw: compute(list(flat), **kw)
        return lambda *flat, **kw: compute(list(flat[:stop]), *flat[stop:], **kw)
    plan = tuple((lists[name], start, stop) for name, (start, stop) in ranges.items())

    def grouped(*flat: Any, **keywords: Any) -> Any:
        inputs = flat[offset:]
        return compute(
            *flat[:offset],
            *(list(inputs[a:b]) if is_list else inputs[a] for is_list, a, b in plan),
            **keywords,
        )

    return grouped


def _flatten_result(
    compute: Callable[..., Any], flatten: Callable[[Any], Any]
) -> Callable[..., Any]:
    return lambda *inputs: flatten(compute(*inputs))


def _flatten_done(compute: Callable[..., Any], flatten: Callable[[Any], Any]) -> Callable[..., Any]:
    def call(*inputs: Any, done: Callable[..., None]) -> None:
        def flat_done(outputs: Any = None, error: BaseException | None = None) -> None:
            done(None if error is not None else flatten(outputs), error)

        compute(*inputs, done=flat_done)

    return call


def output_flattener(op_def: OpDef, attrs: Mapping[str, Any]) -> Callable[[Any], Any] | None:
    """Return the function from a kernel's result to flat outputs, or None if it is the identity."""
    if not op_def.has_list_outputs:
        return None
    lists = [arg.is_list for arg in op_def.output_args]
    count = len(op_def.output_types(attrs))
    if len(lists) == 1:
        return _first if count == 1 else None

    def flatten(result: Sequence[Any]) -> Any:
        flat: list[Any] = []
        for is_list, item in zip(lists, result, strict=True):
            if is_list:
                flat.extend(item)
            else:
                flat.append(item)
        return flat[0] if count == 1 else flat

    return flatten


def _first(result: Sequence[Any]) -> Any:
    (only,) = result
    return only
