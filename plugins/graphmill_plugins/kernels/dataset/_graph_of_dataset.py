"""Write a dataset as a graph, with a node for each kernel that created a part of it.

Semantics: tensorflow/core/kernels/data/serialization_utils.cc. The names of the nodes are
TensorFlow's: the op and a number, such as `MapDataset/_4`.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

from graphmill import dtypes
from graphmill.errors import FailedPreconditionError, UnimplementedError
from graphmill.spi import Graph, ResourceHandle, Variable
from graphmill.spi.protos import attr_to_proto, canonical, numpy_to_tensor_proto, proto
from graphmill_plugins.kernels.dataset.pipeline.basic import ListOfElements
from graphmill_plugins.kernels.dataset.pipeline.buffering import MemoryCache
from graphmill_plugins.kernels.dataset.pipeline.dataset import Dataset, Origin
from graphmill_plugins.kernels.dataset.pipeline.shuffle import SeedGenerator

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from graphmill.spi.protos import GraphDef

FAIL: Final = 2
"""The policy that refuses state outside of the dataset; the other policies accept it."""
RESULT: Final = "dataset"
"""The name of the `_Retval` node."""

_HANDLES: Final = {MemoryCache: "DummyMemoryCache", SeedGenerator: "DummySeedGenerator"}
"""Resources that a dataset creates itself if it receives a handle without one."""
_HARMLESS: Final = frozenset({"fs.read", "log"})
"""Effects that do not make a function stateful: its results do not depend on earlier calls."""


def graph_of_dataset(dataset: Dataset, *, functions: Any) -> GraphDef:
    """Return the graph of a dataset, with the functions that it calls.

    Args:
        dataset: the dataset.
        functions: the function runtime of the session.

    Raises:
        UnimplementedError: a part of it was not made by a kernel, or captures a resource that
            cannot be written.
    """
    writer = _Writer(functions)
    result = writer.graph.node.add(name=RESULT, op="_Retval", input=[writer.dataset(dataset)])
    result.attr["index"].i = 0
    result.attr["T"].type = dtypes.variant.enum  # type: ignore[assignment]
    # The result is the last node, as in TensorFlow's graphs.
    writer.graph.library.CopyFrom(_library(writer.graph.node, functions))
    return writer.graph


def fingerprint(dataset: Dataset, *, functions: Any) -> int:
    """Return a hash of 64 bits of a dataset's graph."""
    content = graph_of_dataset(dataset, functions=functions).SerializeToString(deterministic=True)
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little")


def check_state(graph: GraphDef, functions: Any) -> None:
    """Check that a dataset's elements depend on no state outside of it.

    Raises:
        FailedPreconditionError: a function has a stateful op.
    """
    for function in graph.library.function:
        for node in function.node_def:
            if node.op not in functions.library and _is_stateful(node.op, functions):
                raise FailedPreconditionError(f"{node.op} is stateful.")


def _is_stateful(op: str, functions: Any) -> bool:
    from graphmill.spi.passes import effects_of

    ops = functions.host.ops
    if op not in ops:
        return True
    op_def = ops.get(op)
    is_lookup = op.startswith("LookupTable")
    return op_def.is_stateful and not is_lookup and not effects_of(op_def) <= _HARMLESS


class _Writer:
    """Adds the nodes of a dataset to a graph, inputs first."""

    def __init__(self, functions: Any) -> None:
        self.graph = proto.GraphDef()
        self.graph.versions.producer = Graph().versions.producer
        self._ops = functions.host.ops
        self._names: dict[int, str] = {}

    def dataset(self, dataset: Dataset) -> str:
        """Write a dataset unless it is written; return the name of its node."""
        name = self._names.get(id(dataset))
        if name is None:
            name = self._names[id(dataset)] = self._called(_origin(dataset))
        return name

    def _called(self, origin: Origin) -> str:
        inputs = [self._value(value) for value in origin.inputs]
        return self._node(origin.op, inputs, origin.attrs)

    def _node(self, op: str, inputs: Iterable[str], attrs: Mapping[str, Any]) -> str:
        node = self.graph.node.add(name=f"{op}/_{len(self.graph.node)}", op=op, input=inputs)
        for attr in self._ops.get(op).attrs:
            if attr.name in attrs:
                value = canonical(attr, attrs[attr.name], op)
                attr_to_proto(value, node.attr[attr.name], attr.type)
        return node.name

    def _value(self, value: Any) -> str:
        if isinstance(value, Dataset):
            return self.dataset(value)
        if isinstance(value, ResourceHandle):
            return self._resource(value)
        content = value.item() if getattr(value, "ndim", None) == 0 else None
        if isinstance(content, (Dataset, ResourceHandle)):
            return self._value(content)
        name = f"Const/_{len(self.graph.node)}"
        node = self.graph.node.add(name=name, op="Const")
        tensor = numpy_to_tensor_proto(value)
        node.attr["value"].tensor.CopyFrom(tensor)
        node.attr["dtype"].type = tensor.dtype
        return name

    def _resource(self, handle: ResourceHandle) -> str:
        resource = handle.resource
        if isinstance(resource, Variable):
            return self._variable(handle, resource)
        op = "DummyMemoryCache" if resource is None else _HANDLES.get(type(resource))
        if op is None:
            raise UnimplementedError(
                f"the dataset captures the resource {handle.name} ({handle.type_name}), which "
                "cannot be written into a graph; only variables can"
            )
        return self._node(op, (), {})

    def _variable(self, handle: ResourceHandle, variable: Variable) -> str:
        """Write nodes that create a variable with its current value."""
        attrs = {"dtype": variable.dtype, "shape": variable.shape, "container": handle.container}
        variable_node = self._node("VarHandleOp", (), {**attrs, "shared_name": handle.name})
        with variable.lock:
            value = self._value(variable.value)
        assign = self._node("AssignVariableOp", (variable_node, value), {"dtype": variable.dtype})
        return self._node("Identity", (variable_node, f"^{assign}"), {"T": dtypes.resource})


def _origin(dataset: Dataset) -> Origin:
    """Return the kernel call that created a dataset.

    Raises:
        UnimplementedError: no kernel made it.
    """
    if dataset.origin is not None:
        return dataset.origin
    if isinstance(dataset, ListOfElements):
        tensors = tuple(value for element in dataset.elements for value in element)
        attrs = {"output_types": dataset.dtypes, "output_shapes": dataset.shapes}
        all_attrs = {"Tinput_types": dataset.dtypes * len(dataset.elements), **attrs}
        return Origin("ListDataset", tensors, all_attrs, None)
    raise UnimplementedError(
        f"{dataset!r} cannot be written into a graph: it was not created by a kernel"
    )


def _library(nodes: Iterable[Any], functions: Any) -> Any:
    """Return the functions that nodes call, directly or indirectly."""
    everything = proto.FunctionDefLibrary()
    functions.library.write(everything)
    known = {function.signature.name: function for function in everything.function}
    reached: dict[str, Any] = {}
    pending = list(_called(nodes, known))
    while pending:
        name = pending.pop()
        if name not in reached:
            reached[name] = known[name]
            pending += _called(known[name].node_def, known)
    library = proto.FunctionDefLibrary(function=[reached[name] for name in sorted(reached)])
    for gradient in everything.gradient:
        if gradient.function_name in reached:
            library.gradient.add().CopyFrom(gradient)
    return library


def _called(nodes: Iterable[Any], known: Mapping[str, Any]) -> Iterator[str]:
    for node in nodes:
        if node.op in known:
            yield node.op
        for value in node.attr.values():
            for function in (value.func, *value.list.func):
                if function.name in known:
                    yield function.name
