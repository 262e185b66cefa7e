"""Build the GraphDef of an op case, with canonical attrs.

This module infers type and number attrs independently of `OpDef.infer_attrs`, so that a case also
tests graphmill's own inference.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import dtypes, proto
from graphmill.dtypes import DType, as_dtype
from graphmill.ops.attrs.attr_types import FuncAttr, ShapeAttr, TensorAttr
from graphmill.ops.attrs.attr_value import attr_to_proto
from graphmill.testing.case_inputs import Input, SpecError, parse_input
from graphmill.testing.case_nodes import (
    FunctionSpec,
    NodeSpec,
    Source,
    parse_function,
    parse_node,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from graphmill.ops.definition.op_def import ArgDef, OpDef
    from graphmill.ops.definition.op_registry import OpRegistry
    from graphmill.testing.case import Case, Program

NODE = "node"

Types = DType | tuple[DType, ...]


def make_constant(placeholder: Any, value: Any) -> None:
    """Turn the NodeDef of a placeholder of a case into a constant of its element type."""
    dtype = as_dtype(placeholder.attr["dtype"].type)
    placeholder.op = "Const"
    del placeholder.attr["shape"]
    attr_to_proto(TensorAttr(value, dtype), placeholder.attr["value"])


@dataclass(frozen=True, slots=True)
class CaseGraph:
    """A case as a graph: feeds, and the fetches and targets of each step."""

    graph_def: Any
    feeds: dict[str, Any]
    steps: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]
    dtypes: tuple[str, ...]


def case_types(case: Case) -> list[Types]:
    """Return the element types of a case's inputs; a tuple for an input that is a list."""
    return [
        tuple(as_dtype(one.dtype) for one in tree)
        if isinstance(tree, tuple)
        else as_dtype(tree.dtype)
        for tree in case.inputs
    ]


def node_attrs(
    op_def: OpDef, input_types: Sequence[Types], raw: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the canonical attrs of a node: inferred ones, those of the table, defaults.

    Raises:
        SpecError: the number of inputs is wrong.
    """
    attrs = _inferred(op_def, input_types)
    for attr in op_def.attrs:
        if attr.name in raw:
            attrs[attr.name] = canonical(attr.type, raw[attr.name])
    return dict(op_def.with_defaults(attrs))


def canonical(kind: str, value: Any) -> Any:
    """Convert an attr from the case file's form to the canonical one."""
    if kind.startswith("list("):
        return tuple(canonical(kind[5:-1], item) for item in value)
    if kind == "type":
        return as_dtype(value)
    if kind == "shape":
        return None if value == "unknown" else ShapeAttr(value)
    if kind == "tensor":
        tensor = parse_input(value, {}, "attr")
        return TensorAttr(tensor.values(), as_dtype(tensor.dtype))
    if kind == "func":
        return FuncAttr(value)
    if kind == "string":
        return value if isinstance(value, bytes) else str(value).encode()
    if kind == "float":
        return float(np.float32(value))
    return value


def case_graph(case: Case, ops: OpRegistry, device: str = "") -> CaseGraph:
    """Make the graph of a case: the op on placeholders, or the nodes of its program.

    Args:
        case: the case.
        ops: the OpDefs of the nodes.
        device: the device of all nodes except placeholders; "" leaves it to placement.
    """
    graph = GraphMaker(ops, device)
    if case.program is not None:
        return _program_graph(case, case.program, graph)
    sources: list[Source | tuple[Source, ...]] = []
    for position, tree in enumerate(case.inputs):
        if isinstance(tree, tuple):
            placeholders = [
                graph.placeholder(f"in{position}_{i}", one) for i, one in enumerate(tree)
            ]
            sources.append(tuple(placeholders))
        else:
            sources.append(graph.placeholder(f"in{position}", tree))
    graph.node(NodeSpec(NODE, case.op, tuple(sources), case.attrs, ()))
    return graph.finish([NODE], all_outputs=True)


def _program_graph(case: Case, program: Program, graph: GraphMaker) -> CaseGraph:
    for text in program.functions:
        graph.function(parse_function(text, case.attrs))
    for name, value in program.feed.items():
        graph.placeholder(name, value)
    for text in program.nodes:
        graph.node(parse_node(text, case.attrs))
    return graph.finish(program.run, all_outputs=False)


class GraphMaker:
    """Add nodes to a GraphDef and track their output types."""

    def __init__(self, ops: OpRegistry, device: str = "") -> None:
        self._ops = ops
        self._device = device
        self._types: dict[str, tuple[DType, ...]] = {}
        self._feeds: dict[str, Any] = {}
        self.graph_def = proto.GraphDef()
        self.graph_def.versions.producer = 1700

    def placeholder(self, name: str, value: Input) -> Source:
        """Add a placeholder of unknown shape."""
        dtype = as_dtype(value.dtype)
        node = self.graph_def.node.add(name=name, op="Placeholder")
        attr_to_proto(dtype, node.attr["dtype"])
        attr_to_proto(None, node.attr["shape"])
        self._types[name] = (dtype,)
        self._feeds[f"{name}:0"] = value.values()
        return Source(name)

    def node(self, spec: NodeSpec) -> None:
        """Add a node; for a deprecated op, lower the producer version so that it is allowed."""
        removed = self._ops.get(spec.op).deprecated_version
        if removed:
            versions = self.graph_def.versions
            versions.producer = min(versions.producer, removed - 1)
        self._types[spec.name] = _fill_node(
            self.graph_def.node.add(device=self._device), spec, self._ops, self._types, _input_name
        )

    def function(self, spec: FunctionSpec) -> None:
        """Add a function to the library."""
        definition = self.graph_def.library.function.add()
        definition.signature.name = spec.name
        types: dict[str, tuple[DType, ...]] = {}
        for name, dtype in spec.arguments:
            types[name] = (as_dtype(dtype),)
            definition.signature.input_arg.add(name=name, type=as_dtype(dtype).enum)
        names = _FunctionNames(self._ops, {name for name, _ in spec.arguments})
        for node in spec.nodes:
            names.ops[node.name] = node.op
            types[node.name] = _fill_node(definition.node_def.add(), node, self._ops, types, names)
            definition.signature.is_stateful |= self._ops.get(node.op).is_stateful
        for index, (dtype, source) in enumerate(zip(spec.results, spec.returns, strict=True)):
            definition.signature.output_arg.add(name=f"r{index}", type=as_dtype(dtype).enum)
            definition.ret[f"r{index}"] = names(source)

    def finish(self, run: Iterable[str], *, all_outputs: bool) -> CaseGraph:
        """Return the graph with the fetches and targets of each step."""
        steps, fetched = [], []
        for step in run:
            fetches: list[str] = []
            targets: list[str] = []
            for text in step.split():
                name, _, index = text.partition(":")
                types = self._types[name]
                if not types:
                    targets.append(name)
                    continue
                chosen = range(len(types)) if all_outputs else [int(index or 0)]
                fetches += [f"{name}:{i}" for i in chosen]
                fetched += [types[i].base_dtype.name for i in chosen]
            steps.append((tuple(fetches), tuple(targets)))
        return CaseGraph(self.graph_def, self._feeds, tuple(steps), tuple(fetched))


def _input_name(source: Source) -> str:
    return f"{source.node}:{source.output}"


class _FunctionNames:
    """Name inputs as in function bodies: `node:output_arg:index`, or the name of an argument."""

    def __init__(self, ops: OpRegistry, arguments: set[str]) -> None:
        self._registry = ops
        self._arguments = arguments
        self.ops: dict[str, str] = {}

    def __call__(self, source: Source) -> str:
        if source.node in self._arguments:
            return source.node
        outputs = self._registry.get(self.ops[source.node]).output_args
        if len(outputs) == 1:
            return f"{source.node}:{outputs[0].name}:{source.output}"
        return f"{source.node}:{outputs[source.output].name}:0"


def _fill_node(
    node: Any,
    spec: NodeSpec,
    ops: OpRegistry,
    types: Mapping[str, tuple[DType, ...]],
    input_name: Any,
) -> tuple[DType, ...]:
    """Fill a NodeDef and return the types of its outputs."""
    op_def = ops.get(spec.op)
    input_types: list[Types] = []
    for tree in spec.inputs:
        sources = tree if isinstance(tree, tuple) else (tree,)
        node.input.extend(input_name(source) for source in sources)
        types_found = _source_types(sources, types)
        input_types.append(types_found if isinstance(tree, tuple) else types_found[0])
    node.input.extend(f"^{name}" for name in spec.after)
    node.name, node.op = spec.name, spec.op
    attrs = node_attrs(op_def, input_types, spec.attrs)
    for key, value in attrs.items():
        attr_to_proto(value, node.attr[key])
    return tuple(op_def.output_types(attrs))


def _source_types(
    sources: Sequence[Source], types: Mapping[str, tuple[DType, ...]]
) -> tuple[DType, ...]:
    """Return the types of sources; a later node (a loop's back edge) has the type of the others."""
    types_of = {s: types[s.node][s.output] for s in sources if s.node in types}
    if sources and not types_of:
        raise SpecError(f"There is no node or feed {sources[0].node!r} before this node")
    return tuple(types_of.get(source, next(iter(types_of.values()))) for source in sources)


def _inferred(op_def: OpDef, input_types: Sequence[Types]) -> dict[str, Any]:
    if len(input_types) != len(op_def.input_args):
        raise SpecError(
            f"{op_def.name} has {len(op_def.input_args)} inputs, the case has {len(input_types)}"
        )
    attrs: dict[str, Any] = {}
    for arg, types in zip(op_def.input_args, input_types, strict=True):
        _infer_one(arg, types if isinstance(types, tuple) else (types,), attrs)
    return attrs


def _infer_one(arg: ArgDef, types: tuple[DType, ...], attrs: dict[str, Any]) -> None:
    base = tuple(dtype.base_dtype for dtype in types)
    if arg.number_attr:
        attrs[arg.number_attr] = len(base)
    if arg.type_list_attr:
        attrs[arg.type_list_attr] = base
    elif arg.type_attr and base:
        attrs.setdefault(arg.type_attr, base[0])


def is_object(dtype: DType) -> bool:
    """Return whether values of a dtype are Python objects, which only host memory can hold."""
    return dtype.base_dtype in (dtypes.string, dtypes.resource, dtypes.variant)
