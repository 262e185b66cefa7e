"""Bind a kernel to a node: an executor calls the `OpKernel`."""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from graphmill.dtypes import DType
from graphmill.errors import InternalError, InvalidArgumentError
from graphmill.ops.attrs.attr_width import check_attr_widths
from graphmill.ops.definition.op_traits import Boundary
from graphmill.runtime.kernels.kernel_signature import (
    attr_keywords,
    takes_broker,
    takes_namespace,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from graphmill.access.broker import Broker
    from graphmill.ops.definition.op_def import AttrDef, OpDef
    from graphmill.runtime.devices.device import Device
    from graphmill.runtime.kernels.kernel import KernelDef
    from graphmill.runtime.kernels.op_segment import StatefulKernels
    from graphmill.runtime.resources.variables import Variable
    from graphmill.typing import ArrayNamespace

NOT_NOW: Final = object()
"""What `try_now` of an asynchronous kernel returns if the call has to wait."""
UNIQUE_INDICES: Final = "unique_indices"
"""Key of `OpKernel.state`: true while tracing a sparse update whose row indices are unique;
out-of-range indices are dropped."""


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
        "_immediate",
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
        self._immediate: tuple[Any, Callable[..., Any]] | None = None

    @property
    def try_now(self) -> Callable[..., Any] | None:
        """The call of an asynchronous kernel's `try_now`; None if it has none.

        It takes the inputs of `compute` without `done`, and returns what a synchronous kernel
        returns, or `NOT_NOW`; then `compute` must be called. There is none if `compute` was
        replaced, because whoever did that wants to see each call.
        """
        immediate = self._immediate
        return None if immediate is None or immediate[0] is not self.compute else immediate[1]

    def set_try_now(self, try_now: Callable[..., Any]) -> None:
        """Set `try_now`, which is valid for the current `compute`."""
        self._immediate = self.compute, try_now

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
    try_now: Callable[..., Any] | None = None
    if isinstance(function, type):
        kernel: Any = function(construction)
        compute: Callable[..., Any] = kernel.__call__
        if definition.async_:
            try_now = getattr(kernel, "try_now", None)
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
        if try_now is not None:
            try_now = _flatten_immediate(try_now, flatten)
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
    if try_now is not None:
        grouped = _group_inputs(try_now, op_def, attrs, offset=int(definition.stateful))
        bound.set_try_now(grouped)
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
    if sum(lists.values()) == 1 and lists[op_def.input_args[-1].name]:
        # A list after single inputs, as those of enqueues and calls of functions on resources.
        start = offset + ranges[op_def.input_args[-1].name][0]
        return lambda *flat, **kw: compute(*flat[:start], list(flat[start:]), **kw)
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


def _flatten_immediate(
    try_now: Callable[..., Any], flatten: Callable[[Any], Any]
) -> Callable[..., Any]:
    def call(*inputs: Any) -> Any:
        result = try_now(*inputs)
        return result if result is NOT_NOW else flatten(result)

    return call


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
