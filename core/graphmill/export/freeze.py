"""Freeze graphs: replace variables by constants, and drop nodes that no output needs.

    frozen = graphmill.export.freeze_model("digits")
    frozen.write("digits.pb")

Semantics: tensorflow/python/framework/convert_to_constants.py, graph_util_impl.py.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from graphmill import files, proto
from graphmill.errors import InvalidArgumentError, UnimplementedError
from graphmill.export.constant_handles import ConstantHandles, holds_state
from graphmill.export.convert import check_inputs, inputs_of_model
from graphmill.export.filled_tables import fill_table
from graphmill.export.frozen_model import FrozenModel
from graphmill.export.state_values import table_contents, variable_name, variable_values
from graphmill.graph.algorithms import ancestors
from graphmill.graph.formats.import_export import graph_to_graph_def
from graphmill.graph.functions.function_calls import called_functions
from graphmill.graph.graph import Graph
from graphmill.graph.node import find_tensor, output_name
from graphmill.ops.definition.frozen_forms import TABLES
from graphmill.ops.definition.op_traits import Source
from graphmill.saved.signature import tensor_names

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Mapping, Sequence

    from graphmill.graph.builder import Graph as BuilderGraph
    from graphmill.graph.functions.function_library import FunctionLibrary
    from graphmill.graph.node import Node
    from graphmill.graph.tensor import Tensor
    from graphmill.plugin.host import Host
    from graphmill.proto import ConfigProto
    from graphmill.session.session import Session

_PLACEHOLDER: Final = "Placeholder"
_COLOCATED: Final = b"loc:@"


def freeze(
    session: Session,
    inputs: Mapping[str, str | Tensor],
    outputs: Mapping[str, str | Tensor],
) -> FrozenModel:
    """Return the part of a session's graph that computes some outputs, without variables.

        x = F.placeholder("float32", [None], name="x")
        w = graphmill.Variable(2.0, name="w")
        session.run(w.initializer)
        frozen = graphmill.export.freeze(session, {"x": x}, {"y": x * w})
        with graphmill.saved_model.load(frozen.save("frozen")) as model:
            print(model.signatures["serving_default"](x=[3.0])["y"])  # [6.]

    Nodes keep their names. Variables, also those that functions and loops read, become constants
    of their values; tables are filled with the contents that they have.

    Args:
        session: the session, whose variables have values. Its graph gets nodes that read them.
        inputs: the tensors to feed, by the names in the signature `serving_default`. One that is
            no placeholder becomes one.
        outputs: the tensors to compute, likewise.

    Raises:
        InvalidArgumentError: there are no outputs.
        NotFoundError: a tensor does not exist.
        UnimplementedError: nodes cannot be frozen; the message lists all of them and why.
    """
    from graphmill.saved.saved_model_writer import DEFAULT_SIGNATURE, build_signature_def

    graph = session.graph
    signature = build_signature_def(_tensors(graph, inputs), _tensors(graph, outputs))
    return freeze_signatures(session, {DEFAULT_SIGNATURE: signature})


def freeze_model(
    model: str | os.PathLike[str],
    *,
    signature: str | None = None,
    tags: str | None = None,
    fetches: Sequence[str] = (),
    inputs: Sequence[str] = (),
    host: Host | None = None,
    config: ConfigProto | None = None,
) -> FrozenModel:
    """Return a SavedModel, GraphDef or MetaGraph without variables.

    Args:
        model: the path of the model.
        signature: the key of the signature to keep; by default all.
        tags: the tags of a SavedModel's MetaGraph, separated by commas.
        fetches: tensors to compute instead of signatures' outputs.
        inputs: inputs that have a default but are to be in the signature nevertheless, as for
            `convert_model`.
        host: where ops and kernels come from; by default the installed plugins.
        config: configures the session that loads the model, such as what it may do (`allow`).

    Raises:
        OpError: it is not a model, has no such signature or tensor, or `freeze` fails.
    """
    from graphmill.graph.formats.model_file import open_model
    from graphmill.graph.formats.model_format import Kind
    from graphmill.models.loaded_model import load_model
    from graphmill.plugin.host import default_host

    path, used = files.as_path(model), host or default_host()
    with contextlib.closing(open_model(path)) as opened:
        kind = opened.kind
    if kind is Kind.SAVED_MODEL and not fetches:
        return _freeze_saved_model(path, used, signature, tags, inputs, config)
    loaded = load_model(path, used, tags=tags, signature=signature, fetches=fetches, config=config)
    with loaded.session:
        if not loaded.outputs:
            raise InvalidArgumentError(f"{path} has no outputs; name tensors with fetches")
        # A signature's keys are names of arguments, which have no colon.
        outputs = {name.removesuffix(":0"): name for name in loaded.outputs.values()}
        return freeze(loaded.session, inputs_of_model(loaded, inputs), outputs)


def _freeze_saved_model(
    path: str,
    host: Host,
    key: str | None,
    tags: str | None,
    inputs: Sequence[str],
    config: ConfigProto | None,
) -> FrozenModel:
    from graphmill.models.loaded_model import split_tags
    from graphmill.models.summary import choose_signature, signatures_of
    from graphmill.saved.saved_model import load

    with load(path, tags=split_tags(tags), host=host, config=config) as loaded:
        available = signatures_of(loaded.meta_graph.signature_def)
        if key is not None or not available:
            available = {choose_signature(available, key, path).key: None}  # type: ignore[dict-item]
        signatures = {name: loaded.meta_graph.signature_def[name] for name in available}
        kept = {name for signature in signatures.values() for name in signature.inputs}
        check_inputs(path, inputs, kept)  # all of them are kept
        return freeze_signatures(loaded.session, signatures)


def freeze_signatures(
    session: Session, signatures: Mapping[str, proto.SignatureDef]
) -> FrozenModel:
    """Return what signatures of a session's graph need, without variables; see `freeze`."""
    graph, host = session.graph, session.host
    fed = _ports(one.inputs for one in signatures.values())
    fetched = _ports(one.outputs for one in signatures.values())
    part = _Subgraph(graph, host, fed, fetched)
    variables = [node for node in part.graph.nodes if _is_variable(node)]
    tables = [node for node in part.graph.nodes if node.op in TABLES]
    values, contents = variable_values(session, variables), table_contents(session, tables)
    rewrite = ConstantHandles(part.graph, host.ops)
    rewrite.replace(
        {
            node: values.values[variable_name(node)]
            for node in variables
            if variable_name(node) in values.values
        },
    )
    refusals = [f"{name} (variable): {why}" for name, why in values.missing.items()]
    refusals += [f"{name} (table): {why}" for name, why in contents.missing.items()]
    refusals += rewrite.refusals
    if refusals:
        raise _refused(refusals, signatures)
    initializers = [
        fill_table(part.graph, host.ops, node, contents.values[node.name]) for node in tables
    ]
    _drop_missing_colocations(part.graph)
    _drop_unused_functions(part.graph)
    message = graph_to_graph_def(part.graph)
    return FrozenModel(message, dict(signatures), tuple(n.name for n in initializers), host)


class _Subgraph:
    """The nodes of a graph that some tensors need, copied with their names.

    A fed tensor that is the only output of a node becomes a placeholder, and what only it needs
    is left out. A default of a fed tensor is kept, unless it comes from a queue or an iterator.
    """

    def __init__(
        self, full: BuilderGraph, host: Host, fed: Iterable[str], fetched: Iterable[str]
    ) -> None:
        self._full = full
        self._cut = {
            node: full.get_tensor_by_name(f"{node.name}:0")
            for node, _ in (find_tensor(full, name, "feed") for name in fed)
            if node.num_outputs == 1 and not _takes_values(node)
        }
        roots = [find_tensor(full, name, "fetch")[0] for name in fetched]
        self.graph = Graph()
        self.graph.library = full.library.copy()
        self.graph.versions = full.versions
        needed = self._needed([*roots, *self._cut])
        self._copies = self.graph.copy_nodes(node for node in needed if node not in self._cut)
        placeholder = host.ops.get(_PLACEHOLDER)
        for node, tensor in self._cut.items():
            sizes = None if tensor.shape.rank is None else tensor.shape.as_list()
            attrs = placeholder.canonical_attrs({"dtype": tensor.dtype.base_dtype, "shape": sizes})
            self._copies[node] = self.graph.add_node(node.name, placeholder, attrs=attrs)
        for node in needed:
            if node not in self._cut:
                self._connect(node)

    def _needed(self, roots: Iterable[Node]) -> list[Node]:
        needed = set(roots)
        stack = list(needed)
        while stack:
            node = stack.pop()
            if node in self._cut:
                continue
            for edge in (*node.in_edges, *node.control_in_edges):
                if edge.src not in needed and edge.src is not self._full.source:
                    needed.add(edge.src)
                    stack.append(edge.src)
        return sorted(needed, key=lambda node: node.id)

    def _connect(self, node: Node) -> None:
        copy = self._copies[node]
        copy.assigned_device = ""
        for position, edge in enumerate(node.in_edges):
            self.graph.add_edge(self._copies[edge.src], edge.src_output, copy, position)
        sources = [src for src in node.control_inputs if src in self._copies]
        self.graph.add_control_edges([self._copies[src] for src in sources], copy)


def _drop_missing_colocations(graph: Graph) -> None:
    """Remove requests to be on the device of a node that is left out."""
    for node in graph.nodes:
        groups = node.attrs.get("_class")
        if groups:
            present = tuple(
                group
                for group in groups
                if not group.startswith(_COLOCATED)
                or graph.has_node(group.removeprefix(_COLOCATED).decode())
            )
            if present != tuple(groups):
                attrs = {key: value for key, value in node.attrs.items() if key != "_class"}
                node.attrs = {**attrs, "_class": present} if present else attrs


def _drop_unused_functions(graph: Graph) -> None:
    """Keep the functions that the graph's nodes call, and what these call."""
    library = graph.library
    needed: dict[str, None] = {}
    stack = [function.name for node in graph.nodes for function in called_functions(node, library)]
    while stack:
        name = stack.pop()
        if name in library and name not in needed:
            needed[name] = None
            stack.extend(_names_in(library.get(name), library))
            if name in library.gradients:
                stack.append(library.gradients[name])
    graph.library = library.only(needed)


def _names_in(function: proto.FunctionDef, library: FunctionLibrary) -> list[str]:
    """Return the names of the functions that a function calls."""
    names = []
    for node in function.node_def:
        if node.op in library:
            names.append(node.op)
        for value in node.attr.values():
            if value.HasField("func"):
                names.append(value.func.name)
            names.extend(one.name for one in value.list.func)
    return names


def _refused(
    refusals: Sequence[str], signatures: Mapping[str, proto.SignatureDef]
) -> UnimplementedError:
    listed = "\n".join(f"  {reason}" for reason in refusals)
    count = "1 node" if len(refusals) == 1 else f"{len(refusals)} nodes"
    error = UnimplementedError(f"{count} cannot be frozen:\n{listed}")
    if len(signatures) > 1:
        error.add_note(f"try: one signature only, of {', '.join(sorted(signatures))}")
    else:
        error.add_note("try: outputs that do not need these nodes (--fetch, fetches=)")
    return error


def _ports(groups: Iterable[Mapping[str, proto.TensorInfo]]) -> list[str]:
    names = [name for group in groups for info in group.values() for name in tensor_names(info)]
    return list(dict.fromkeys(names))


def _tensors(graph: BuilderGraph, named: Mapping[str, str | Tensor]) -> dict[str, Tensor]:
    tensors: dict[str, Tensor] = {}
    for key, tensor in named.items():
        name = tensor if isinstance(tensor, str) else output_name(tensor)
        node, output = find_tensor(graph, name, "tensor")
        tensors[key] = graph.get_tensor_by_name(f"{node.name}:{output}")
    return tensors


def _takes_values(node: Node) -> bool:
    """Return whether a fed node is a placeholder, with a default that can be kept if it has one."""
    source = node.op_def.traits.source
    if source is Source.PLACEHOLDER_WITH_DEFAULT:
        return not any(_has_other_state(each) for each in ancestors([node]))
    return source is Source.PLACEHOLDER


def _has_other_state(node: Node) -> bool:
    """Return whether a node makes a queue, an iterator or other state without a constant form."""
    is_frozen = _is_variable(node) or node.op in TABLES
    return not node.in_edges and holds_state(node) and not is_frozen


def _is_variable(node: Node) -> bool:
    return node.op_def.traits.source is Source.VARIABLE
