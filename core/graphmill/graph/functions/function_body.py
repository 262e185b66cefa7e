"""`FunctionBody`: a function instantiated with attrs, as a graph with `_Arg` and `_Retval` nodes.

Semantics: `InstantiateFunction` in `tensorflow/core/framework/function.cc`, `PruneFunctionGraph` in
`tensorflow/core/common_runtime/function_utils.cc`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from graphmill.errors import InvalidArgumentError, OpError, suggest
from graphmill.graph.algorithms import ancestors, topological_order
from graphmill.graph.formats.import_export import (
    check_node_attrs,
    keep_extras,
    node_attrs,
    resolve_op,
)
from graphmill.graph.graph import Graph, check_inputs, output_type
from graphmill.graph.node_roles import is_argument
from graphmill.ops.attrs.attr_types import AttrPlaceholder, FuncAttr
from graphmill.ops.definition.effects import effects_of as effects_of_op

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from graphmill import proto
    from graphmill.dtypes import DType
    from graphmill.graph.functions.function_library import FunctionLibrary
    from graphmill.graph.node import Node
    from graphmill.ops.definition.op_registry import OpRegistry


class FunctionBody(NamedTuple):
    """A function ready to be run.

    Attributes:
        name: the function's name.
        graph: its pruned nodes, with an `_Arg` for each argument and a `_Retval` for each result.
        arg_types, ret_types: element types of arguments and results, lists unfolded.
        control_rets: nodes that must run even if no result needs them.
    """

    name: str
    graph: Graph
    arg_types: tuple[DType, ...]
    ret_types: tuple[DType, ...]
    control_rets: tuple[Node, ...]

    def with_arg_types(self, arg_types: tuple[DType, ...]) -> FunctionBody:
        """Return the same function with additional arguments, which it does not read."""
        return self._replace(arg_types=arg_types)

    def without_lost_nodes(self) -> FunctionBody:
        """Return the same function without control results whose nodes a pass has removed."""
        present = set(self.graph.nodes)
        remaining = tuple(node for node in self.control_rets if node in present)
        return self._replace(control_rets=remaining)

    def copy(self, library: FunctionLibrary) -> FunctionBody:
        """Return a body with copies of the nodes in a new graph; attrs are shared, not copied.

        Args:
            library: the functions that the nodes of the copy may call.
        """
        graph = Graph()
        graph.library = library
        copies = graph.copy_nodes(self.graph.nodes)
        for node, copy in copies.items():
            for position, edge in enumerate(node.in_edges):
                graph.add_edge(copies[edge.src], edge.src_output, copy, position)
            graph.add_control_edges((copies[edge.src] for edge in node.control_in_edges), copy)
        control_rets = tuple(copies[node] for node in self.control_rets)
        return FunctionBody(self.name, graph, self.arg_types, self.ret_types, control_rets)


def instantiate_function(
    name: str,
    attrs: Mapping[str, Any],
    library: FunctionLibrary,
    ops: OpRegistry,
    effects_of: Callable[[Node], Collection[str]] | None = None,
) -> FunctionBody:
    """Return a new body of a function of `library`, which the caller may change.

    A node that no result needs is left out, unless it is stateful or has effects.

    Args:
        name: the function's name.
        attrs: the attrs to instantiate it with.
        library: the functions.
        ops: definitions of the ops of its nodes.
        effects_of: returns the effects of a node; by default those that its op declares.

    Raises:
        NotFoundError: there is no such function, or its body has an unknown op.
        InvalidArgumentError: an attr is missing, or the body is malformed; the message names
            function and node.
    """
    body = library.body(name)
    if body is not None:
        return body.copy(library)
    function, signature = library.get(name), library.signature(name)
    builder = _Builder(function, signature, dict(attrs), library, ops, effects_of or _op_effects)
    try:
        return builder.build()
    except OpError as error:
        if f"function '{name}'" not in error.message:
            error.message = f"in function '{name}': {error.message}"
        raise


def _op_effects(node: Node) -> frozenset[str]:
    return effects_of_op(node.op_def)


class _Builder:
    """Builds one body: arguments, nodes, edges, results, in that order."""

    def __init__(
        self,
        function: proto.FunctionDef,
        signature: Any,
        attrs: dict[str, Any],
        library: FunctionLibrary,
        ops: OpRegistry,
        effects_of: Callable[[Node], Collection[str]],
    ) -> None:
        self.effects_of = effects_of
        self.function = function
        self.signature = signature
        self.attrs = {**signature.with_defaults({}), **attrs}
        self.library = library
        self.ops = ops
        self.graph = Graph()
        self.graph.library = library
        self.body_names = {node_def.name for node_def in function.node_def}
        # Keys are the names that inputs in the body use: "arg:i" and "node:output:i" for one
        # tensor, "arg" and "node:output" for a whole list.
        self.outputs: dict[str, list[tuple[Node, int]]] = {}

    def build(self) -> FunctionBody:
        arg_types = self._add_args()
        nodes = [self._add_node(node_def) for node_def in self.function.node_def]
        for node, node_def in zip(nodes, self.function.node_def, strict=True):
            self._add_edges(node, node_def)
        ret_types, rets = self._add_rets()
        control_rets = tuple(
            self._node(name, "control output") for name in self.function.control_ret.values()
        )
        topological_order(self.graph)
        calls = [node for node in nodes if node.op_def.calls]
        if calls:
            from graphmill.graph.functions.call_types import check_call_types

            check_call_types(calls, self.library)
        self._prune({*rets, *control_rets})
        return FunctionBody(self.signature.name, self.graph, arg_types, ret_types, control_rets)

    def _add_args(self) -> tuple[DType, ...]:
        op_def = self.ops.get("_Arg")
        types: list[DType] = []
        for position, arg in enumerate(self.signature.input_args):
            declared = self.function.arg_attr.get(position)
            whole = self.outputs[arg.name] = []
            for offset, dtype in enumerate(arg.types(self.attrs)):
                name = arg.name if not arg.is_list else f"{arg.name}_{offset}"
                attrs = {"T": dtype, "index": len(types)}
                if declared is not None:
                    attrs = {**self._substituted(_from_protos(declared.attr)), **attrs}
                node = self.graph.add_node(
                    self._free_name(name), op_def, attrs=op_def.with_defaults(attrs)
                )
                types.append(dtype)
                self.outputs[f"{arg.name}:{offset}"] = [(node, 0)]
                whole.append((node, 0))
        return tuple(types)

    def _free_name(self, name: str) -> str:
        """Return an unused node name for an argument or result."""
        while name in self.body_names or self.graph.has_node(name):
            name += "_"
        return name

    def _add_node(self, node_def: proto.NodeDef) -> Node:
        try:
            op_def = resolve_op(node_def.op, self.ops, self.graph)
            attrs = self._substituted(
                node_attrs(node_def, op_def, self.library.large_tensors, self.signature.name)
            )
            check_node_attrs(op_def, attrs, node_def.name)
            node = self.graph.add_unconnected(node_def.name, op_def, attrs, node_def.device)
        except OpError as error:
            error.locate(node=node_def.name, op_type=node_def.op)
            raise
        keep_extras(node, node_def)
        for output, (start, stop) in op_def.output_ranges(attrs).items():
            whole = [(node, index) for index in range(start, stop)]
            self.outputs[f"{node.name}:{output}"] = whole
            for offset, tensor in enumerate(whole):
                self.outputs[f"{node.name}:{output}:{offset}"] = [tensor]
        return node

    def _substituted(self, attrs: Mapping[str, Any]) -> dict[str, Any]:
        return {name: self._bound(value) for name, value in attrs.items()}

    def _bound(self, value: Any) -> Any:
        """Return an attr value with placeholders replaced by the function's attrs."""
        if isinstance(value, AttrPlaceholder):
            if value.name not in self.attrs:
                raise InvalidArgumentError(
                    f"function '{self.signature.name}' needs attr {value.name!r}; "
                    f"the call has {', '.join(sorted(self.attrs)) or 'none'}"
                )
            return self.attrs[value.name]
        if isinstance(value, FuncAttr) and value.attrs:
            return FuncAttr(value.name, self._substituted(value.attrs))
        if type(value) is tuple and any(isinstance(v, (AttrPlaceholder, FuncAttr)) for v in value):
            return tuple(self._bound(item) for item in value)
        return value

    def _add_edges(self, node: Node, node_def: proto.NodeDef) -> None:
        sources: list[tuple[Node, int]] = []
        control: list[Node] = []
        for text in node_def.input:
            if text.startswith("^"):
                control.append(self._node(text[1:], f"control input of '{node.name}'"))
            else:
                sources.extend(self._tensors(text, f"input of '{node.name}'"))
        try:
            check_inputs(node, [output_type(src, index) for src, index in sources])
        except InvalidArgumentError as error:
            error.locate(node=node.name, op_type=node.op)
            raise
        for position, (src, index) in enumerate(sources):
            self.graph.add_edge(src, index, node, position)
        self.graph.add_control_edges(control, node)

    def _add_rets(self) -> tuple[tuple[DType, ...], list[Node]]:
        op_def = self.ops.get("_Retval")
        types: list[DType] = []
        rets: list[Node] = []
        for arg in self.signature.output_args:
            text = self.function.ret.get(arg.name)
            if text is None:
                raise InvalidArgumentError(
                    f"function '{self.signature.name}' has no entry in `ret` for output "
                    f"{arg.name!r}"
                )
            for source, dtype in self._result(text, arg.types(self.attrs)):
                attrs = op_def.with_defaults({"T": dtype, "index": len(types)})
                name = self._free_name(f"{arg.name}_RetVal")
                rets.append(self.graph.add_node(name, op_def, [source], attrs=attrs))
                types.append(dtype)
        return tuple(types), rets

    def _result(self, text: str, types: Sequence[DType]) -> list[tuple[tuple[Node, int], DType]]:
        """Return the tensor and the type of each element of a result."""
        tensors = self._tensors(text, "result")
        if len(tensors) != len(types):
            raise InvalidArgumentError(
                f"function '{self.signature.name}': result is '{text}', which is {len(tensors)} "
                f"tensors, expected {len(types)}"
            )
        return list(zip(tensors, types, strict=True))

    def _tensors(self, text: str, what: str) -> list[tuple[Node, int]]:
        tensors = self.outputs.get(text)
        if tensors is None:
            raise InvalidArgumentError(
                f"function '{self.signature.name}': {what} is '{text}', which names no argument "
                f"and no output of a node{suggest(text, self.outputs)}"
            )
        return tensors

    def _node(self, name: str, what: str) -> Node:
        if not self.graph.has_node(name):
            raise InvalidArgumentError(
                f"function '{self.signature.name}': {what} is '{name}', which is not a node of the "
                f"body{suggest(name, (node.name for node in self.graph))}"
            )
        return self.graph.node(name)

    def _prune(self, roots: set[Node]) -> None:
        """Remove nodes that no result and no effect needs; keep arguments, which have indices."""
        keep = ancestors(
            roots.union(n for n in self.graph if n.op_def.is_stateful or is_argument(n))
        )
        acting = [n for n in self.graph.nodes if n not in keep and self.effects_of(n)]
        keep |= ancestors(acting)
        self.graph.withdraw(node for node in self.graph.nodes if node not in keep)
        self.graph.edit_count = 0


def _from_protos(attrs: Mapping[str, Any]) -> dict[str, Any]:
    from graphmill.ops.attrs.attr_value import attrs_from_proto

    return attrs_from_proto(attrs)
