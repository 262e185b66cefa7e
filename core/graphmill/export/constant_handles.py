"""Replace the handles of variables in a graph and its functions by the variables' values.

Semantics: tensorflow/python/framework/convert_to_constants.py. A node that passes a handle on
passes the value on; a function that takes a handle becomes one that takes the value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from graphmill.dtypes import as_dtype
from graphmill.graph.algorithms import topological_order
from graphmill.graph.functions.function_body import instantiate_function
from graphmill.graph.functions.function_calls import CalledFunction, calls_of
from graphmill.graph.functions.function_def import function_def
from graphmill.graph.node_roles import is_argument, is_argument_or_result, is_result
from graphmill.ops.attrs.attr_types import FuncAttr, ShapeAttr, TensorAttr
from graphmill.ops.definition.frozen_forms import FROZEN_READS, TABLES, VALUE_FORMS, FrozenRead
from graphmill.ops.definition.op_traits import CallKind, Source

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    from graphmill import proto
    from graphmill.dtypes import DType
    from graphmill.graph.functions.function_body import FunctionBody
    from graphmill.graph.graph import Graph
    from graphmill.graph.node import Node
    from graphmill.ops.definition.op_registry import OpRegistry

    Tensor = tuple[Node, int]


class Handle(NamedTuple):
    """The value that replaces a handle or reference: a variable's, or a table.

    Attributes:
        dtype: the element type of the variable's value; None for a table, which stays a table.
        shape: the shape of the value; None for a table.
    """

    dtype: DType | None
    shape: tuple[int, ...] | None


_TABLE: Final = Handle(None, None)
_OF_HANDLES: Final = frozenset({"_input_shapes", "_output_shapes", "_read_only_resource_inputs"})
"""Attrs of nodes and functions that describe handles, and do not fit values."""


class ConstantHandles:
    """Replaces handles in one graph and the functions that it calls.

    Args:
        graph: the graph, which is changed; its library gets the new functions.
        ops: definitions of ops.

    Attributes:
        ops: definitions of ops.
        refusals: why nodes cannot be frozen, each with the node's name and op.
    """

    def __init__(self, graph: Graph, ops: OpRegistry) -> None:
        self._graph = graph
        self.ops = ops
        self._functions: dict[Any, tuple[FuncAttr, tuple[Handle | None, ...]]] = {}
        self.refusals: list[str] = []

    def replace(self, values: Mapping[Node, np.ndarray[Any, Any]]) -> None:
        """Replace variables by constants.

        Args:
            values: the value of each node of a variable.
        """
        handles: dict[Tensor, Handle] = {}
        for node, value in values.items():
            constant = self._constant(self._graph, node, value)
            handles[constant, 0] = Handle(constant.output_types[0], value.shape)
        _GraphRewrite(self, self._graph, handles, "").run()

    def refuse(self, node: Node, where: str, reason: str) -> None:
        """Record that a node cannot be frozen."""
        self.refusals.append(f"{node.name} ({node.op}){where}: {reason}")

    def specialized(
        self, called: CalledFunction, handles: tuple[Handle | None, ...]
    ) -> tuple[FuncAttr, tuple[Handle | None, ...]]:
        """Return the function to call if some arguments are values instead of handles.

        Args:
            called: the function.
            handles: what each argument stands for; None for an ordinary value.

        Returns:
            The function, and what each of its results stands for.
        """
        function = called.function
        key = (function.name, _frozen_attrs(function.attrs), handles)
        if key not in self._functions:
            self._functions[key] = self._build(function, handles)
        return self._functions[key]

    def _build(
        self, function: FuncAttr, handles: tuple[Handle | None, ...]
    ) -> tuple[FuncAttr, tuple[Handle | None, ...]]:
        library = self._graph.library
        body = instantiate_function(function.name, function.attrs, library, self.ops)
        sources: dict[Tensor, Handle] = {}
        for node in body.graph.nodes:
            if is_argument(node) and (handle := handles[node.attrs["index"]]) is not None:
                sources[node, 0] = handle
                if handle.dtype is not None:
                    body.graph.set_attr(node, "T", handle.dtype)
        rewrite = _GraphRewrite(self, body.graph, sources, f" in function {function.name!r}")
        rewrite.run()
        results = tuple(rewrite.results.get(index) for index in range(len(body.ret_types)))
        is_same = not rewrite.changed and all(h is None or h.dtype is None for h in handles)
        return (function if is_same else self._add(function, body)), results

    def _add(self, function: FuncAttr, body: FunctionBody) -> FuncAttr:
        library = self._graph.library
        name, number = f"{function.name}_frozen", 0
        while name in library or name in self.ops:
            number += 1
            name = f"{function.name}_frozen_{number}"
        nodes = body.graph.nodes
        args = sorted(filter(is_argument, nodes), key=lambda node: node.attrs["index"])
        rets = sorted(filter(is_result, nodes), key=lambda node: node.attrs["index"])
        also = [*body.control_rets, *(node for node in nodes if node.op_def.is_stateful)]
        also = [node for node in also if node in set(nodes) and not is_argument_or_result(node)]
        message = function_def(name, body.graph, args, [node.sources[0] for node in rets], also)
        original: proto.FunctionDef = library.get(function.name)
        for key, value in original.attr.items():
            if key not in _OF_HANDLES:
                message.attr[key].CopyFrom(value)
        library.add(message)
        return FuncAttr(name)

    def _constant(self, graph: Graph, node: Node, value: np.ndarray[Any, Any]) -> Node:
        dtype = as_dtype(node.attrs["dtype"]).base_dtype
        return self.new_node(
            graph, node, "Const", {"dtype": dtype, "value": TensorAttr(value, dtype)}, []
        )

    def new_node(
        self, graph: Graph, old: Node, op: str, attrs: Mapping[str, Any], inputs: list[Tensor]
    ) -> Node:
        """Replace a node by one of another op, which keeps its name and control edges."""
        op_def = self.ops.get(op)
        kept = {key: value for key, value in old.attrs.items() if key == "_class"}
        control = [src for src in old.control_inputs if src is not graph.source]
        complete = op_def.with_defaults({**kept, **attrs})
        name = free_name(graph, f"{old.name}/frozen")
        new = graph.add_node(name, op_def, inputs, control, complete, old.device)
        graph.replace_node(old, new)
        return new


class _GraphRewrite:
    """Connects the readers of handles to the values, in one graph.

    Attributes:
        results: what the results of a function stand for, by index.
        changed: whether anything but the arguments was changed.
    """

    def __init__(
        self, owner: ConstantHandles, graph: Graph, handles: dict[Tensor, Handle], where: str
    ) -> None:
        self._owner = owner
        self._graph = graph
        self._handles = handles
        self._where = where
        self.results: dict[int, Handle] = {}
        self.changed = False

    def run(self) -> None:
        for node in topological_order(self._graph):
            if node.op in TABLES:
                self._handles[node, 0] = _TABLE
                if self._where:
                    self._refuse(node, "a table that a function creates has no contents to keep")
            elif node.op_def.traits.source is Source.VARIABLE:
                if self._where:
                    self._refuse(node, "a variable that a function creates has no value to keep")
            elif not node.in_edges and holds_state(node):
                self._refuse(node, "its state has no constant form")
            handles = {
                position: handle
                for position, edge in enumerate(node.in_edges)
                if (handle := self._handles.get((edge.src, edge.src_output))) is not None
            }
            if handles:
                self._convert(node, handles)
            elif calls_of(node):
                self._convert_calls(node, {})

    def _refuse(self, node: Node, reason: str) -> None:
        self._owner.refuse(node, self._where, reason)

    def _convert(self, node: Node, handles: dict[int, Handle]) -> None:
        first = handles.get(0)
        if is_result(node):
            self._set_result(node, handles[0])
        elif calls_of(node):
            self._convert_calls(node, handles)
        elif first is not None and first.dtype is not None and node.op in FROZEN_READS:
            self._read(node, FROZEN_READS[node.op](node.attrs, first.dtype))
        elif first is not None and first.dtype is not None and node.op in VALUE_FORMS:
            self._forward_handle(node, handles, VALUE_FORMS[node.op])
        elif node.op_def.traits.forwards or node.op_def.traits.is_control_flow:
            self._forward_handle(node, handles, node.op)
        else:
            self._check_reader(node, handles)

    def _check_reader(self, node: Node, handles: dict[int, Handle]) -> None:
        """Refuse a node that changes what a handle refers to, or needs the handle itself."""
        for position, handle in handles.items():
            is_value = not _is_handle(node.input_types[position])
            if handle.dtype is None:
                if not node.op_def.traits.only_reads:
                    self._refuse(node, "it changes a table")
            elif not is_value:
                does = "changes" if node.op_def.traits.writes else "needs the handle of"
                self._refuse(node, f"it {does} a variable")

    def _set_result(self, node: Node, handle: Handle) -> None:
        self.results[node.attrs["index"]] = handle
        if handle.dtype is not None:
            self._graph.set_attr(node, "T", handle.dtype)

    def _read(self, node: Node, form: FrozenRead) -> None:
        self.changed = True
        inputs = list(node.sources) if form.takes_inputs else []
        for index, value in enumerate(form.constants):
            op_def = self._owner.ops.get("Const")
            attrs = {"dtype": as_dtype(value.dtype), "value": TensorAttr(value)}
            name = free_name(self._graph, f"{node.name}/constant_{index}")
            # After the first input, so that it is in the same iteration of a loop.
            inputs.append((self._graph.add_node(name, op_def, (), [inputs[0][0]], attrs), 0))
        waits = [] if form.takes_inputs else [node.sources[0][0]]
        new = self._owner.new_node(self._graph, node, form.op, form.attrs, inputs)
        self._graph.add_control_edges(waits, new)

    def _forward_handle(self, node: Node, handles: dict[int, Handle], op: str) -> None:
        """Change the type of a node that passes handles on; its outputs are values, too."""
        handle = next(iter(handles.values()))
        if handle.dtype is not None:
            attrs = {**node.attrs, **_type_attrs(node, handles)}
            if op != node.op:
                node = self._owner.new_node(self._graph, node, op, attrs, list(node.sources))
            else:
                self._set_attrs(node, attrs)
            self.changed = True
        is_list = node.op_def.traits.forwards and node.num_outputs > 1
        for output, dtype in enumerate(node.output_types):
            passed = handles.get(output) if is_list else handle
            if passed is not None and passed.dtype in (None, dtype.base_dtype):
                self._handles[node, output] = passed

    def _convert_calls(self, node: Node, handles: dict[int, Handle]) -> None:
        calls = calls_of(node)
        functions: list[FuncAttr] = []
        results: tuple[Handle | None, ...] = ()
        for called in calls:
            if called.kind in (CallKind.DEFERRED, CallKind.GRADIENT):
                if any(handle.dtype is not None for handle in handles.values()):
                    self._refuse(node, f"it calls the function {called.name!r} with a variable")
                functions.append(called.function)
                continue
            arguments = _arguments(node, called, handles)
            function, found = self._owner.specialized(called, arguments)
            functions.append(function)
            if called.kind is not CallKind.LOOP_CONDITION:
                if called.kind is CallKind.LOOP_BODY and found != arguments:
                    self._refuse(node, "its body changes which variable a loop value refers to")
                    return
                results = found
        is_same = functions == [called.function for called in calls]
        if not is_same:
            self.changed = True
            node = self._with_functions(node, functions, handles, results)
        for output, handle in enumerate(results):
            if handle is not None:
                self._handles[node, output] = handle

    def _with_functions(
        self,
        node: Node,
        functions: list[FuncAttr],
        handles: Mapping[int, Handle],
        results: tuple[Handle | None, ...],
    ) -> Node:
        """Return a node that calls other functions; it may be a new one of the same name."""
        calls = calls_of(node)
        attrs = {**node.attrs, **_type_attrs(node, handles)}
        for spec in node.op_def.output_args:
            if spec.type_list_attr:
                old = attrs[spec.type_list_attr]
                outputs = (*results, *([None] * len(old)))[: len(old)]
                attrs[spec.type_list_attr] = tuple(
                    dtype if handle is None or handle.dtype is None else handle.dtype
                    for dtype, handle in zip(old, outputs, strict=True)
                )
        _set_output_shapes(attrs, results)
        if not calls[0].call.attr:  # the op is the function
            op_def = self._graph.library.signature(functions[0].name)
            return self._replace_by_call(node, op_def, functions[0])
        for call in node.op_def.calls:
            names = [f for f, c in zip(functions, calls, strict=True) if c.call.attr == call.attr]
            is_list = isinstance(attrs[call.attr], tuple | list)
            attrs[call.attr] = tuple(names) if is_list else names[0]
        self._set_attrs(node, attrs)
        return node

    def _set_attrs(self, node: Node, attrs: Mapping[str, Any]) -> None:
        node.attrs = {key: value for key, value in node.attrs.items() if key not in _OF_HANDLES}
        for name, value in attrs.items():
            if name not in _OF_HANDLES and node.attrs.get(name) != value:
                self._graph.set_attr(node, name, value)

    def _replace_by_call(self, node: Node, op_def: Any, function: FuncAttr) -> Node:
        control = [src for src in node.control_inputs if src is not self._graph.source]
        name = free_name(self._graph, f"{node.name}/frozen")
        attrs = op_def.with_defaults(function.attrs)
        new = self._graph.add_node(name, op_def, node.sources, control, attrs, node.device)
        self._graph.replace_node(node, new)
        return new


def free_name(graph: Graph, name: str) -> str:
    """Return an unused name of a node that begins with `name`."""
    free, number = name, 0
    while graph.has_node(free):
        number += 1
        free = f"{name}_{number}"
    return free


def _arguments(
    node: Node, called: CalledFunction, handles: Mapping[int, Handle]
) -> tuple[Handle | None, ...]:
    """Return the replaced handle behind each argument of a called function, or None."""
    call = called.call
    if call.counted:  # the counter, and then what follows start, limit and delta
        return (None, *(handles.get(index) for index in range(3, len(node.in_edges))))
    return tuple(handles.get(index) for index in range(call.first_input, len(node.in_edges)))


def _type_attrs(node: Node, handles: Mapping[int, Handle]) -> dict[str, Any]:
    """Return the attrs with the types of inputs, for values instead of handles."""
    attrs: dict[str, Any] = {}
    position = 0
    for spec in node.op_def.input_args:
        length = spec.length(node.attrs)
        for offset in range(length):
            handle = handles.get(position + offset)
            if handle is None or handle.dtype is None:
                continue
            if spec.type_list_attr:
                types = list(attrs.get(spec.type_list_attr, node.attrs[spec.type_list_attr]))
                types[offset] = handle.dtype
                attrs[spec.type_list_attr] = tuple(types)
            elif spec.type_attr:
                attrs[spec.type_attr] = handle.dtype
        position += length
    return attrs


def _set_output_shapes(attrs: dict[str, Any], results: tuple[Handle | None, ...]) -> None:
    """Replace the shapes of handles, which are scalars, in the attr with the outputs' shapes."""
    shapes = attrs.get("output_shapes")
    if isinstance(shapes, tuple | list) and len(shapes) == len(results):
        attrs["output_shapes"] = tuple(
            shape if handle is None or handle.shape is None else ShapeAttr(handle.shape)
            for shape, handle in zip(shapes, results, strict=True)
        )


def _is_handle(dtype: DType) -> bool:
    return dtype.is_ref or dtype.tf_name == "resource"


def holds_state(node: Node) -> bool:
    """Return whether a node without inputs makes a resource or reference that outlives a step."""
    makes = any(_is_handle(dtype) for dtype in node.output_types)
    return makes and not node.op_def.traits.per_step_state and not is_argument(node)


def _frozen_attrs(attrs: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(sorted((name, repr(value)) for name, value in attrs.items()))
