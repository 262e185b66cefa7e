"""List the effects that the nodes of a model may have, without building or running it.

Effects are those that ops and their kernels declare; see `graphmill.ops.definition.effects`. A node
of a function counts for every node that may call the function.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from graphmill import dtypes
from graphmill.ops.definition.effects import effects_of
from graphmill.ops.definition.op_traits import Source
from graphmill.saved.internal_signatures import INIT_COLLECTIONS, is_internal
from graphmill.saved.signature import tensor_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from graphmill.ops.definition.op_def import OpDef
    from graphmill.ops.definition.op_registry import OpRegistry
    from graphmill.proto.graph_pb2 import GraphDef
    from graphmill.proto.meta_graph_pb2 import MetaGraphDef
    from graphmill.proto.node_def_pb2 import NodeDef
    from graphmill.runtime.kernels.kernel_registry import KernelRegistry

UNKNOWN = "unknown"
"""The effect of an op that is not registered: it may do anything."""
_PATH_NAME: Final = re.compile("(?:file|path|prefix|dir|pattern)(?!.*suffix)")
_FILES = frozenset({"fs.read", "fs.write"})
_INIT = "initialization"


class NodeEffects(NamedTuple):
    """The effects that one node of a model may have.

    Attributes:
        node: its name; in a function, its name there.
        function: the function that contains it; "" for the graph itself.
        op: its op type.
        effects: its effects, sorted.
        paths: the constant strings among its inputs and the paths among its attrs, if it uses
            files; other paths are computed or fed. A node that uses the files of a resource, such
            as a summary writer, has the paths of the nodes that open such resources.
        is_restore: whether it only reads the variables of a model.
        reached_by: the signatures that run it when their outputs are computed; "initialization" if
            loading the model runs it. Empty if only a caller can run it by name, as for the ops
            that save a model.
    """

    node: str
    function: str
    op: str
    effects: tuple[str, ...]
    paths: tuple[str, ...]
    is_restore: bool
    reached_by: tuple[str, ...]


def effects_of_meta_graph(
    meta_graph: MetaGraphDef, ops: OpRegistry, kernels: KernelRegistry
) -> list[NodeEffects]:
    """Return the nodes of a MetaGraph with effects.

    Args:
        meta_graph: the MetaGraph.
        ops: the ops of the host.
        kernels: the kernels of the host.
    """
    roots = {
        key: [_node_of(name) for info in signature.outputs.values() for name in tensor_names(info)]
        for key, signature in meta_graph.signature_def.items()
        if not is_internal(key)
    }
    roots[_INIT] = list(_initializers(meta_graph))
    assets = {
        _node_of(asset.tensor_info.name): f"assets/{asset.filename}"
        for asset in meta_graph.asset_file_def
    }
    return _Scan(meta_graph.graph_def, ops, kernels, assets).run(roots)


def effects_of_graph(
    graph_def: GraphDef, ops: OpRegistry, kernels: KernelRegistry
) -> list[NodeEffects]:
    """Return the nodes of a graph without signatures that have effects; all count as reached."""
    roots = {"graph": [node.name for node in graph_def.node]}
    return _Scan(graph_def, ops, kernels, {}).run(roots)


class _Scan:
    """The scan of one graph.

    Args:
        graph_def: the graph.
        ops, kernels: those of the host.
        assets: the path of each asset, by the name of its constant.
    """

    def __init__(
        self,
        graph_def: GraphDef,
        ops: OpRegistry,
        kernels: KernelRegistry,
        assets: Mapping[str, str],
    ) -> None:
        self._ops = ops
        self._kernels = kernels
        self._assets = assets
        self._bodies = {"": {node.name: node for node in graph_def.node}}
        for function in graph_def.library.function:
            name = function.signature.name
            self._bodies[name] = {node.name: node for node in function.node_def}
        self._effects: dict[str, frozenset[str]] = {}

    def run(self, roots: Mapping[str, Iterable[str]]) -> list[NodeEffects]:
        """Return the nodes with effects, and which of the roots reach them."""
        reached: dict[tuple[str, str], list[str]] = {}
        for root, names in roots.items():
            for key in self._reached_from(names):
                reached.setdefault(key, []).append(root)
        return [
            NodeEffects(
                node=node.name,
                function=function,
                op=node.op,
                effects=tuple(sorted(effects)),
                paths=tuple(dict.fromkeys(self._paths(node, function))) if effects & _FILES else (),
                is_restore=self._is_restore(node),
                reached_by=tuple(sorted(reached.get((function, node.name), ()))),
            )
            for function, body in self._bodies.items()
            for node in body.values()
            if (effects := self._effects_of(node.op))
        ]

    def _reached_from(self, names: Iterable[str]) -> set[tuple[str, str]]:
        """Return function and name of each node that is needed for nodes of the graph."""
        visited: set[tuple[str, str]] = set()
        called: set[str] = set()
        waiting = [("", name) for name in names]
        while waiting:
            key = waiting.pop()
            function, name = key
            node = self._bodies[function].get(name)
            if node is None or key in visited:
                continue
            visited.add(key)
            waiting += [(function, _node_of(source)) for source in node.input]
            for callee in _functions(node):
                if callee in self._bodies and callee not in called:
                    called.add(callee)
                    waiting += [(callee, inner) for inner in self._bodies[callee]]
        return visited

    def _effects_of(self, op: str) -> frozenset[str]:
        effects = self._effects.get(op)
        if effects is None:
            effects = self._effects[op] = self._declared_effects(op)
        return effects

    def _declared_effects(self, op: str) -> frozenset[str]:
        if op in self._bodies:
            return frozenset()  # a call; the nodes of the function count
        op_def = self._ops.find(op)
        if op_def is None:
            return frozenset({UNKNOWN})
        effects = effects_of(op_def)
        for entry in self._kernels.registrations(op_def):
            effects |= entry.definition.effects
        return effects

    def _is_restore(self, node: NodeDef) -> bool:
        op_def = self._ops.find(node.op)
        return op_def is not None and op_def.traits.loads_model

    def _paths(self, node: NodeDef, function: str) -> Iterator[str]:
        sources = self._path_inputs(node)
        if not sources and self._resources(node):
            yield from self._paths_of_resources(node)
        else:
            yield from self._constants(sources or _data_inputs(node), function)
        for attr in node.attr.values():
            text = attr.s.decode(errors="replace")
            if "/" in text:
                yield text

    def _resources(self, node: NodeDef) -> set[str]:
        """Return the names of its resource inputs in the `OpDef`."""
        op_def = self._ops.find(node.op)
        args = op_def.input_args if op_def is not None else ()
        return {arg.name for arg in args if arg.type is dtypes.resource}

    def _paths_of_resources(self, user: NodeDef) -> Iterator[str]:
        """Yield the paths at which the model opens the kind of resource that a node uses.

        Nodes that open and use a resource have the same name for it in their `OpDef`s, such as
        `writer`. The resource itself need not be known: it may be an argument of a function.
        """
        names, effects = self._resources(user), self._effects_of(user.op) & _FILES
        for function, body in self._bodies.items():
            for node in body.values():
                if effects <= self._effects_of(node.op) and names & self._resources(node):
                    yield from self._constants(self._path_inputs(node), function)

    def _constants(self, sources: list[str], function: str) -> Iterator[str]:
        for source in sources:
            yield from filter(None, self._strings(_node_of(source), function))

    def _path_inputs(self, node: NodeDef) -> list[str]:
        """Return the inputs whose name in the `OpDef` suggests a path."""
        sources = _data_inputs(node)
        op_def = self._ops.find(node.op)
        if op_def is None:
            return []
        paths, start = [], 0
        for arg in op_def.input_args:
            count = 1
            if arg.number_attr:
                count = node.attr[arg.number_attr].i
            elif arg.type_list_attr:
                count = len(node.attr[arg.type_list_attr].list.type)
            if _PATH_NAME.search(arg.name):
                paths += sources[start : start + count]
            start += count
        return paths

    def _strings(self, name: str, function: str) -> Iterator[str]:
        """Yield the strings of a constant, past nodes that forward it."""
        body, seen = self._bodies[function], set()
        node = body.get(name)
        while node is not None and node.name not in seen:
            seen.add(node.name)
            if not function and node.name in self._assets:
                yield self._assets[node.name]
                return
            op_def = self._ops.find(node.op)
            if op_def is not None and op_def.traits.source is Source.CONSTANT:
                for text in node.attr["value"].tensor.string_val:
                    yield text.decode(errors="replace")
                return
            node = body.get(_node_of(node.input[0])) if _forwards(op_def, node) else None


def _data_inputs(node: NodeDef) -> list[str]:
    return [source for source in node.input if not source.startswith("^")]


def _forwards(op_def: OpDef | None, node: NodeDef) -> bool:
    return op_def is not None and op_def.traits.forwards and len(node.input) > 0


def _functions(node: NodeDef) -> Iterator[str]:
    """Yield the functions that a node may call: by its op, or by an attr."""
    yield node.op
    for attr in node.attr.values():
        if attr.HasField("func"):
            yield attr.func.name
        for function in attr.list.func:
            yield function.name


def _initializers(meta_graph: MetaGraphDef) -> Iterator[str]:
    for key, signature in meta_graph.signature_def.items():
        if is_internal(key):
            for info in signature.outputs.values():
                yield _node_of(info.name)
    for collection in INIT_COLLECTIONS:
        if collection not in meta_graph.collection_def:  # a look-up would add it
            continue
        for name in meta_graph.collection_def[collection].node_list.value:
            yield _node_of(name)


def _node_of(tensor: str) -> str:
    return tensor.removeprefix("^").partition(":")[0]
