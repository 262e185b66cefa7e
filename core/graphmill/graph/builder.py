"""The user's `Graph`: build a graph in Python with names, scopes and operators (clause G4).

    graph = graphmill.Graph()
    with graph.as_default(), graph.name_scope("layer"):
        x = graph.placeholder("float32", [None, 3], name="x")
        y = ops.nn.relu(x @ weights + 1)

Semantics: tf.Graph of tensorflow/python/framework/ops.py.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import files
from graphmill.deprecations import renamed_arguments
from graphmill.dtypes import as_dtype
from graphmill.errors import (
    FinalizedGraphError,
    InvalidArgumentError,
    InvalidValueError,
    UnknownNameError,
)
from graphmill.graph.control_flow.control_flow_scopes import ControlFlowScopes
from graphmill.graph.formats.import_export import extend_graph, graph_to_graph_def, resolve_op
from graphmill.graph.graph_collections import GraphCollections
from graphmill.graph.node import COLOCATION_ATTR, CONTROL_SLOT, Node, parse_tensor_name
from graphmill.graph.node_locations import NodeLocations
from graphmill.graph.protected_tensors import ProtectedTensors
from graphmill.graph.scopes.attr_scopes import AttrScopes
from graphmill.graph.scopes.control_scopes import ControlScopes
from graphmill.graph.scopes.device_scopes import DeviceScopes
from graphmill.graph.scopes.name_scopes import NameScopes
from graphmill.graph.shapes.shaped_graph import ShapedGraph
from graphmill.graph.tensor import Tensor
from graphmill.ops.attrs.attr_types import TensorAttr
from graphmill.ops.definition.op_def import OpDef
from graphmill.ops.definition.op_registry import OpRegistry
from graphmill.ops.inputs import values
from graphmill.ops.inputs.default_graph import SymbolicTensor, default_graph

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from traceback import StackSummary

    from graphmill import proto
    from graphmill.graph.node import Types
    from graphmill.graph.scopes.device_scopes import DeviceSpec
    from graphmill.ops.inputs.arguments import DTypeLike, ShapeLike

__all__ = ["Graph", "Tensor"]

_FIRST_NODE_ID = 2  # after _SOURCE and _SINK


class Graph(GraphCollections, AttrScopes, ProtectedTensors, ShapedGraph):
    """A graph that is built node by node, in scopes.

        graph = graphmill.Graph()
        with graph.as_default():
            x = F.placeholder("float32", [None], name="x")
            y = F.reduce_sum(x * x, name="y")
        with graphmill.Session(graph=graph) as session:
            print(session.run("y:0", {"x:0": [1.0, 2.0]}))  # 5.0

    Threads: build a graph in one thread at a time; its scopes belong to the graph. The default
    graph (`as_default`) belongs to the thread or task.

    Attributes:
        ops: the registry in which `create_op` looks up definitions.
        control_flow: the loops and conditionals that are being built, and their nodes.
        seed: the seed of its random ops; see `graphmill.set_random_seed`.
        unseeded_op_count: the number of random ops that were added without a seed of their own
            while the graph had one.
    """

    def __init__(self, ops: OpRegistry | None = None) -> None:
        """Create an empty graph.

        Args:
            ops: the op definitions that `create_op` finds by name; by default those of TensorFlow
                and of the installed plugins, which are loaded for the first op that is not
                TensorFlow's.
        """
        self._names = NameScopes()
        self._devices = DeviceScopes()
        self._controls = ControlScopes()
        self.control_flow = ControlFlowScopes(self._controls)
        self._colocation: list[Node] = []
        self._locations = NodeLocations()
        self.ops = OpRegistry(fallback=OpRegistry.installed) if ops is None else ops
        self._finalized = False
        self.seed: int | None = None
        self.unseeded_op_count = 0
        super().__init__()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self)} nodes>"

    @classmethod
    def from_graph_def(cls, graph_def: proto.GraphDef, ops: OpRegistry | None = None) -> Graph:
        """Return the graph of a message, to inspect or to extend.

        Raises:
            InvalidArgumentError: `graph_def` is not a GraphDef; the message says how to read it.
            OpError: the message holds no valid graph; see `import_export.extend_graph`.
        """
        if not hasattr(graph_def, "library"):
            raise InvalidArgumentError(_no_graph_def(graph_def))
        graph = cls(ops)
        extend_graph(graph, graph_def, graph.ops)
        return graph

    # Scopes.

    def as_default(self) -> AbstractContextManager[Graph]:
        """Make this the default graph of op functions in a `with` block, in this thread."""
        return default_graph(self)  # type: ignore[return-value]

    def name_scope(self, name: str | None) -> AbstractContextManager[str]:
        """Prefix the names of nodes in a `with` block; `as` receives the prefix, `name/`.

        A name in use gets a number; one that ends in `/` enters the same scope again; None leaves
        all scopes.

        Raises:
            InvalidArgumentError: the name has characters that node names cannot have.
        """
        return self._names.scope(name)

    @renamed_arguments(spec="device_name_or_function")
    def device(self, device_name_or_function: DeviceSpec) -> AbstractContextManager[None]:
        """Request a device for the nodes of a `with` block.

        Args:
            device_name_or_function: a device name, whole or in part (`"/gpu:0"`,
                `"/job:worker"`), inner scopes win; a function of the node that returns its device;
                None to leave the enclosing scopes.

        Raises:
            InvalidArgumentError: it is not a device name.
        """
        return self._devices.scope(device_name_or_function)

    def control_dependencies(
        self, control_inputs: Iterable[Tensor | Node] | None
    ) -> AbstractContextManager[None]:
        """Make the nodes of a `with` block run after others.

        None leaves all enclosing scopes, loops and conditionals.

        Raises:
            InvalidArgumentError: one is neither a tensor nor a node of this graph.
        """
        if control_inputs is None:
            return self._without_dependencies()
        return self._controls.scope([self._as_node(item) for item in control_inputs])

    def colocate_with(
        self, op: Tensor | Node | None, ignore_existing: bool = False
    ) -> AbstractContextManager[None]:
        """Request that the nodes of a `with` block be placed with `op`.

        Args:
            op: the node, or a tensor of it; None for none, which leaves the enclosing scopes.
            ignore_existing: whether to leave the enclosing colocation scopes.

        Raises:
            InvalidArgumentError: `op` is neither a tensor nor a node of this graph, or is None and
                the enclosing scopes are not left.
        """
        if op is None and not ignore_existing:
            raise InvalidValueError(
                "colocate_with(None) leaves all colocation scopes; pass ignore_existing=True"
            )
        return self._colocated(None if op is None else self._as_node(op), ignore_existing)

    def unique_name(self, name: str, mark_as_used: bool = True) -> str:
        """Return `name` within the current scope, with a numeric suffix if it is taken.

        Names that differ only in case count as equal.
        """
        return self._names.unique(name, mark_as_used)

    # Nodes.

    def create_op(
        self,
        op_type: str | OpDef,
        inputs: Sequence[Any] = (),
        attrs: Mapping[str, Any] | None = None,
        name: str | None = None,
    ) -> Node:
        """Add a node.

        Args:
            op_type: name of an op or of a function of the graph's library; or an `OpDef`.
            inputs: its input tensors, lists unfolded.
            attrs: its attrs in any form; defaults, and attrs that the inputs determine, may be
                omitted.
            name: name within the scope, by default the op's; one that ends in `/` is taken as the
                full name.

        Returns:
            The node; `outputs_of(node)` are its tensors.

        Raises:
            NotFoundError: there is no such op or attr.
            InvalidArgumentError: an input is not a tensor of this graph, or is in a loop or branch
                that the node is not in; inputs or attrs do not fit; the op's own shape function
                refuses the shapes of its inputs.
            AlreadyExistsError: a full name is taken.
        """
        op_def = op_type if isinstance(op_type, OpDef) else resolve_op(op_type, self.ops, self)
        tensors = [self._as_tensor(op_def, item) for item in inputs]
        complete = self._complete_attrs(op_def, tensors, attrs or {})
        complete = self._with_scoped_attrs(op_def, complete)
        full_name = self._names.node_name(name or op_def.name.replace(">", "_").lstrip("_"))
        waits = self._controls.control_inputs(tensor.op for tensor in tensors)
        admitted, control_inputs = self.control_flow.admit(full_name, op_def, tensors, waits)
        sources = [(tensor.op, tensor.value_index) for tensor in admitted]
        node = self.add_node(full_name, op_def, sources, control_inputs, complete)
        self._finish(node)
        return node

    def constant(
        self, value: Any, dtype: DTypeLike | None = None, shape: Any = None, name: str = "Const"
    ) -> Tensor:
        """Add a `Const` node.

        Args:
            value: an array, number, string, nested lists of these, or a `TensorProto`.
            dtype: its element type; by default int32 or float32 for Python numbers that fit, the
                array's own for arrays.
            shape: its shape; a single value is repeated, others are reshaped.
            name: name of the node.

        Raises:
            InvalidArgumentError: the value is not a tensor, or does not fit `dtype` or `shape`.
        """
        if hasattr(value, "tensor_shape") or isinstance(value, TensorAttr):
            content = value if isinstance(value, TensorAttr) else TensorAttr(value)
            if dtype is None and shape is None:
                return self._const(content, name)
            value = content.numpy()
        array, element_type = values.to_array(value, None if dtype is None else as_dtype(dtype))
        if shape is not None:
            array = values.reshaped(array, tuple(shape))
        if isinstance(value, np.ndarray) and np.may_share_memory(array, value):
            array = array.copy()  # the caller may change theirs afterwards
        return self._const(TensorAttr(array, element_type), name)

    def placeholder(
        self, dtype: DTypeLike, shape: ShapeLike = None, name: str = "Placeholder"
    ) -> Tensor:
        """Add a `Placeholder` node, to be fed when the graph runs.

        Args:
            dtype: its element type.
            shape: its shape, with None for an unknown size; None for unknown rank.
            name: name of the node.
        """
        node = self.create_op("Placeholder", (), {"dtype": dtype, "shape": shape}, name)
        return Tensor(node)

    def convert(self, value: Any, dtype: DTypeLike | None = None, name: str = "Const") -> Tensor:
        """Return a tensor unchanged, and convert anything else to a constant.

        Raises:
            InvalidArgumentError: it belongs to another graph, has another element type, or cannot
                be converted.
        """
        if not isinstance(value, SymbolicTensor):
            return self.constant(value, dtype, name=name)
        if not isinstance(value, Tensor) or value.graph is not self:
            raise InvalidArgumentError(f"{value!r} does not belong to this graph")
        if dtype is not None and value.dtype.base_dtype is not as_dtype(dtype):
            raise InvalidArgumentError(
                f"{value!r} is of {value.dtype.name}, expected {as_dtype(dtype).name}"
            )
        return value

    # Look-up and export.

    def location_of(self, name: str) -> str | None:
        """Return where a program made a node: file, line and function.

        Args:
            name: the name of a node, or of one inside a function (`call/node`), which has the
                location of the call.

        Returns:
            None if the node came from a message, or does not exist.
        """
        node = self.operation_at(name)
        return None if node is None else self._locations.of(node)

    def frames_of(self, node: Node) -> StackSummary:
        """Return the line of the program that made a node, as the only frame; see `location_of`."""
        return self._locations.frames(node)

    def op_def_for_type(self, type: str) -> proto.OpDef:  # noqa: A002 - as in TensorFlow
        """Return the definition of an op, or of a function of the library, as a message.

        It has neither the op's deprecation nor the full types of its outputs.

        Args:
            type: the name of the op or function.

        Raises:
            NotFoundError: there is none of that name.
        """
        return resolve_op(type, self.ops, self).to_proto()

    @property
    def building_function(self) -> bool:
        """Whether it is the body of a function; those that programs build are not."""
        return False

    def outputs_of(self, node: Node) -> list[Tensor]:
        """Return the output tensors of a node."""
        return [Tensor(node, index) for index in range(len(node.output_types))]

    def get_operation_by_name(self, name: str) -> Node:
        """Return a node.

        Raises:
            NotFoundError: there is no node of that name; the message names near matches.
        """
        return self.node(name)

    def get_operations(self) -> list[Node]:
        """Return all nodes in the order in which they were added."""
        return self.nodes

    def get_tensor_by_name(self, name: str) -> Tensor:
        """Return a tensor by its name, `node:0`.

        Raises:
            InvalidArgumentError: the name has no output number, or is a control input's.
            NotFoundError: there is no such node or output.
        """
        node_name, index = parse_tensor_name(name)
        if index == CONTROL_SLOT or ":" not in name:
            hint = f"; did you mean {name + ':0'!r}?" if self.has_node(name) else ""
            raise InvalidValueError(f"{name!r} is not a tensor name, expected 'node:0'{hint}")
        node = self.node(node_name)
        if index >= len(node.output_types):
            raise UnknownNameError(
                f"there is no tensor {name!r}: node {node_name!r} (op {node.op}) has "
                f"{len(node.output_types)} outputs"
            )
        return Tensor(node, index)

    @property
    def version(self) -> int:
        """A number that grows with each node."""
        return self.num_node_ids - _FIRST_NODE_ID

    def as_graph_def(
        self, from_version: int | None = None, add_shapes: bool = False
    ) -> proto.GraphDef:
        """Return the graph as a message, functions included.

        Args:
            from_version: only nodes added since `version` had this value; by default all.
            add_shapes: whether each node has its static shapes as the attr `_output_shapes`.

        Raises:
            InvalidArgumentError: shapes are added, and a node has invalid inputs.
        """
        first = 0 if from_version is None else from_version + _FIRST_NODE_ID
        nodes = self.nodes_since(first)
        message = graph_to_graph_def(self, nodes)
        if add_shapes:
            for node, node_def in zip(nodes, message.node, strict=True):
                shapes = node_def.attr["_output_shapes"].list.shape
                shapes.extend(shape.as_proto() for shape in self.shapes_of(node))
        return message

    def as_graph_element(
        self, obj: Any, allow_tensor: bool = True, allow_operation: bool = True
    ) -> Tensor | Node:
        """Return the tensor or node that a name, tensor, variable or node means.

        Raises:
            NotFoundError: there is none of that name.
            InvalidArgumentError: it belongs to another graph, or is of a kind that is not allowed.
        """
        if isinstance(obj, str):
            is_tensor = ":" in obj
            element = self.get_tensor_by_name(obj) if is_tensor else self.node(obj)
        elif isinstance(obj, Tensor | Node) and obj.graph is self:
            element = obj
        else:
            raise InvalidValueError(f"{obj!r} is neither a tensor nor a node of this graph")
        if not (allow_tensor if isinstance(element, Tensor) else allow_operation):
            raise InvalidValueError(f"{obj!r} is a {type(element).__name__}, which is not allowed")
        return element

    def get_name_scope(self) -> str:
        """Return the current name scope, without a slash at its end."""
        return self._names.current

    @property
    def graph_def_versions(self) -> proto.VersionDef:
        """The versions of the graph, as in its message."""
        return graph_to_graph_def(self, ()).versions

    @property
    def finalized(self) -> bool:
        """Whether nodes can no longer be added."""
        return self._finalized

    def finalize(self) -> None:
        """Refuse further nodes with `FinalizedGraphError`."""
        self._finalized = True

    def write(self, path: str | os.PathLike[str], *, as_text: bool | None = None) -> str:
        """Write the graph as a GraphDef file, and return its path.

        Args:
            path: a local path or URL; missing folders are created.
            as_text: whether the file is text; by default if its name ends in `.pbtxt`.

        Raises:
            OpError: the file cannot be written.
        """
        target = files.as_path(path)
        message = self.as_graph_def()
        if target.endswith(".pbtxt") if as_text is None else as_text:
            from google.protobuf import text_format  # few programs write text

            files.write(target, text_format.MessageToString(message).encode())
        else:
            files.write(target, message.SerializeToString())
        return target

    # Implementation.

    def _insert(
        self,
        name: str,
        op_def: OpDef,
        attrs: dict[str, Any],
        device: str,
        types: Types | None = None,
    ) -> Node:
        if self._finalized:
            raise FinalizedGraphError(
                f"Graph is finalized and cannot be modified: node {name!r} cannot be added. Build "
                "all nodes before graph.finalize()"
            )
        node = super()._insert(name, op_def, attrs, device, types)
        self._names.mark_used(name)
        return node

    def _const(self, content: TensorAttr, name: str) -> Tensor:
        attrs = {"value": content, "dtype": content.dtype}
        return Tensor(self.create_op("Const", (), attrs, name))

    def _complete_attrs(
        self, op_def: OpDef, tensors: Sequence[Tensor], attrs: Mapping[str, Any]
    ) -> dict[str, Any]:
        explicit = {
            name: op_def.attr(name).canonical(value, op_def.name)
            for name, value in attrs.items()
            if op_def.has_attr(name) and value is not None
        }
        ranges = op_def.group_inputs(len(tensors), explicit)
        types = [tensor.dtype for tensor in tensors]
        grouped = [
            types[start:stop] if arg.is_list else types[start]
            for arg, (start, stop) in zip(op_def.input_args, ranges.values(), strict=True)
        ]
        complete = op_def.canonical_attrs({**attrs, **op_def.infer_attrs(grouped, explicit)})
        op_def.check_attrs(complete)
        return complete

    def _as_tensor(self, op_def: OpDef, item: Any) -> Tensor:
        if isinstance(item, Tensor) and item.graph is self:
            return item
        actual = "of another graph" if isinstance(item, Tensor) else f"a {type(item).__name__}"
        raise InvalidArgumentError(
            f"an input of op {op_def.name} is {actual}, expected a tensor of this graph; "
            "graph.constant converts a value to a tensor",
            op_type=op_def.name,
        )

    def _as_node(self, item: Any) -> Node:
        node = item.op if isinstance(item, Tensor) else item
        if not isinstance(node, Node) or node.graph is not self:
            raise InvalidArgumentError(f"{item!r} is neither a tensor nor a node of this graph")
        return node

    def _finish(self, node: Node) -> None:
        """Check shapes, and apply device and colocation scopes; on an error remove the node."""
        try:
            self.shapes_of(node)
            self._devices.apply(node)
        except BaseException:
            self.withdraw([node])
            raise
        self._locations.record(node)
        self._controls.add_member(node)
        self.control_flow.put(node, self.control_flow.current)
        groups = {group for other in self._colocation for group in other.colocation_groups()}
        if groups:
            node.attrs = {**node.attrs, COLOCATION_ATTR: tuple(sorted(groups))}
            for other in self._colocation:
                node.device = other.device or node.device

    @contextmanager
    def _without_dependencies(self) -> Iterator[None]:
        with self._controls.scope(None), self.control_flow.entered(None):
            yield

    @contextmanager
    def _colocated(self, node: Node | None, ignore_existing: bool) -> Iterator[None]:
        outer = self._colocation
        added = [] if node is None else [node]
        self._colocation = added if ignore_existing else [*outer, *added]
        try:
            with self._devices.without():
                yield
        finally:
            self._colocation = outer


def _no_graph_def(value: object) -> str:
    """Return what is wrong with a value in place of a GraphDef, and what to do."""
    advice = "pass a graphmill.proto.GraphDef"
    if isinstance(value, bytes | bytearray | memoryview):
        advice = "parse it with graphmill.proto.GraphDef.FromString"
    elif isinstance(value, str | os.PathLike):
        advice = f"read the file with graphmill.Session(graph={os.fspath(value)!r}).graph"
    elif hasattr(value, "graph_def"):
        advice = "pass its graph_def, or read its file with graphmill.train.import_meta_graph"
    return f"from_graph_def expects a GraphDef, not a {type(value).__name__}; {advice}"
