"""Trace a Python function of elements to a function of a graph.

The Python function is called once, with tensors for the parts of an element, and the nodes that it
adds become a `FunctionDef`. Semantics: tensorflow/python/data/ops/structured_function.py.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from graphmill.data.element_spec import (
    DatasetSpec,
    TensorSpec,
    convert_leaves,
    flatten,
    pack,
)
from graphmill.errors import InvalidArgumentError, OpError
from graphmill.functions import convert_to_tensor
from graphmill.graph.algorithms import ancestors
from graphmill.graph.builder import Graph
from graphmill.graph.functions.function_def import function_def
from graphmill.graph.tensor import Tensor
from graphmill.ops.inputs.default_graph import get_default_graph, has_default_graph
from graphmill.plugin.local_functions import functions_kept_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from graphmill import proto
    from graphmill.plugin.local_functions import LocalFunction


class TracedFunction:
    """A function that a dataset op calls for each element.

    Attributes:
        name: its name in the library of a graph, the same for equal functions.
        output_spec: the structure of its result.
    """

    def __init__(
        self,
        function: proto.FunctionDef,
        library: proto.FunctionDefLibrary,
        output_spec: Any,
        called: Iterable[LocalFunction] = (),
    ) -> None:
        self._function, self._library = function, library
        self._called = tuple(called)
        self.name = function.signature.name
        self.output_spec = output_spec

    def add_to(self, graph: Graph) -> str:
        """Add the function, and those that it calls, to a graph; return its name."""
        graph.library.add_library(self._library)
        graph.library.add(self._function)
        for function in self._called:
            function.keep_for(graph)
        return self.name


def trace(function: Callable[..., Any], element_spec: Any, caller: str) -> TracedFunction:
    """Return the graph function of a Python function.

    Args:
        function: takes an element, or the parts of a tuple, as tensors and datasets; returns a
            structure of tensors, values and datasets.
        element_spec: the element.
        caller: the method that calls this, for messages: "map".

    Raises:
        InvalidArgumentError: the function uses tensors of another graph, or returns what is no
            tensor.
    """
    graph = Graph()
    if has_default_graph():
        graph.seed = getattr(get_default_graph(), "seed", None)
    with graph.as_default():
        specs = flatten(element_spec)
        tensors = [
            graph.placeholder(spec.dtype, spec.shape.dims, name=f"args_{index}")
            for index, spec in enumerate(specs)
        ]
        args = pack(element_spec, map(_as_argument, tensors, specs))
        result = _called(function, args, graph, caller)
        return _function_of(graph, tensors, result, caller)


def trace_source(make: Callable[[Graph], Tensor], name: str) -> TracedFunction:
    """Return the graph function without arguments that returns a dataset."""
    graph = Graph()
    with graph.as_default():
        variant = make(graph)
        return _function_of(graph, [], variant, name)


def _as_argument(tensor: Tensor, spec: Any) -> Any:
    if not isinstance(spec, DatasetSpec):
        return tensor
    from graphmill.data.dataset import Dataset

    return Dataset.of_tensor(tensor, spec.element_spec)


def _called(function: Callable[..., Any], args: Any, graph: Graph, caller: str) -> Any:
    """Call the Python function; return its result with tensors of the graph as leaves."""
    what = f"{caller}: {_name_of(function)}"
    try:
        result = function(*args) if type(args) is tuple else function(args)
    except OpError as error:
        raise InvalidArgumentError(
            f"{what} cannot be traced: {error.message}. It may use its arguments and Python "
            "values, but no tensors or variables of the graph around it"
        ) from error
    if isinstance(result, list):
        result = tuple(result)
    return convert_leaves(result, lambda leaf: _as_result(leaf, graph), f"{what} returned a value")


def _as_result(leaf: Any, graph: Graph) -> Any:
    from graphmill.data.dataset import Dataset

    if leaf is None:
        raise InvalidArgumentError("it is None, expected a tensor")
    if isinstance(leaf, Dataset):
        return leaf
    tensor = convert_to_tensor(leaf)
    if tensor.graph is not graph:
        raise InvalidArgumentError(f"{tensor!r} belongs to another graph")
    return tensor


def _function_of(graph: Graph, args: Sequence[Tensor], result: Any, caller: str) -> TracedFunction:
    from graphmill.data.dataset import Dataset

    leaves = flatten(result)
    output_spec = pack(result, [_spec_of(leaf) for leaf in leaves])
    outputs = [leaf.add_to(graph) if isinstance(leaf, Dataset) else leaf for leaf in leaves]
    results = [(tensor.op, tensor.value_index) for tensor in outputs]
    arg_nodes = [tensor.op for tensor in args]
    needed = ancestors([node for node, _ in results])
    effects = [
        node
        for node in graph.nodes
        if node.op_def.is_stateful and node not in needed and node not in arg_nodes
    ]
    function = function_def("", graph, arg_nodes, results, effects)
    library = graph.as_graph_def().library
    digest = hashlib.sha256(function.SerializeToString(deterministic=True)).hexdigest()
    function.signature.name = f"Dataset_{caller}_{digest[:16]}"
    return TracedFunction(function, library, output_spec, functions_kept_for(graph))


def _spec_of(leaf: Any) -> TensorSpec | DatasetSpec:
    if isinstance(leaf, Tensor):
        return TensorSpec(leaf.shape.dims, leaf.dtype.base_dtype)
    return DatasetSpec(leaf.element_spec)


def _name_of(function: Callable[..., Any]) -> str:
    name = getattr(function, "__qualname__", type(function).__name__)
    code = getattr(function, "__code__", None)
    return name if code is None else f"{name} ({code.co_filename}:{code.co_firstlineno})"
