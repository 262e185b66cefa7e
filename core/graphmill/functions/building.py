"""Functions of the default graph: constants, placeholders, scopes, collections.

Each calls the method of the same name of the graph that is the default (`Graph.as_default`).
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from graphmill.errors import InvalidArgumentError
from graphmill.graph.infer_graph import infer_graph
from graphmill.ops import array
from graphmill.ops.inputs.input_values import holds_tensor

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from graphmill.graph.builder import Graph
    from graphmill.graph.node import Node
    from graphmill.graph.scopes.device_scopes import DeviceSpec
    from graphmill.graph.tensor import Tensor
    from graphmill.ops.inputs.arguments import DTypeLike, ShapeLike, TensorLike


def constant(
    value: Any, dtype: DTypeLike | None = None, shape: Any = None, name: str = "Const"
) -> Tensor:
    """Add a constant to the default graph; see `Graph.constant`.

        print(session.run(F.constant([1, 2], dtype="float32")))  # [1. 2.]

    Args:
        value: a number, string, list or array.
        dtype: the element type; by default that of the value, float32 for Python floats and int32
            for Python ints.
        shape: the shape; a single value fills it.
        name: name of the node.

    Raises:
        InvalidArgumentError: the value does not fit the type or the shape.
    """
    return infer_graph().constant(value, dtype, shape, name)


def placeholder(dtype: DTypeLike, shape: ShapeLike = None, name: str = "Placeholder") -> Tensor:
    """Add a tensor that is fed when the default graph runs; see `Graph.placeholder`.

        x = F.placeholder("float32", [None], name="x")
        print(session.run(x * 2.0, {x: [1.0, 4.0]}))  # [2. 8.]

    Args:
        dtype: the element type.
        shape: the static shape; None for a size or rank that is not known.
        name: name of the node.
    """
    return infer_graph().placeholder(dtype, shape, name)


def placeholder_with_default(
    input: TensorLike,  # noqa: A002 - TensorFlow's name
    shape: ShapeLike,
    name: str | None = None,
) -> Tensor:
    """Add a tensor that may be fed, and otherwise is `input`, whose shape fits `shape`.

        rate = F.placeholder_with_default(0.5, [])
        print(session.run(rate), session.run(rate, {rate: 0.25}))  # 0.5 0.25

    Args:
        input: the default, a tensor or value.
        shape: the static shape of what is fed.
        name: name of the node.
    """
    return array.placeholder_with_default(input, shape=shape, name=name)


def convert_to_tensor(value: Any, dtype: DTypeLike | None = None, name: str = "Const") -> Tensor:
    """Return a tensor unchanged, and convert a value, or a list that holds tensors, to one.

    Raises:
        InvalidArgumentError: it has another element type than `dtype`, or is not a tensor.
    """
    graph = infer_graph(value)
    if isinstance(value, (list, tuple)) and holds_tensor(value):
        value = array.pack([convert_to_tensor(part, dtype) for part in value])
    return graph.convert(value, dtype, name)


def name_scope(
    name: str | None, default_name: str | None = None, values: Iterable[Any] | None = None
) -> AbstractContextManager[str]:
    """Prefix the names of the nodes of a `with` block; see `Graph.name_scope`.

        with F.name_scope("layer"):
            print(F.constant(1, name="one").name)  # layer/one:0

    Args:
        name: the name of the scope.
        default_name: the name of the scope if `name` is None.
        values: tensors; the scope is one of their graph, which becomes the default graph.

    Raises:
        InvalidArgumentError: there are `values`, but neither `name` nor `default_name`.
    """
    chosen = default_name if name is None else name
    if values is None:
        return infer_graph().name_scope(chosen)
    if chosen is None:
        raise InvalidArgumentError("name_scope with values needs name or default_name")
    return _scope_of(infer_graph(*values), chosen)


@contextmanager
def _scope_of(graph: Graph, name: str | None) -> Iterator[str]:
    with graph.as_default(), graph.name_scope(name) as scope:
        yield scope


def device(device_name_or_function: DeviceSpec) -> AbstractContextManager[None]:
    """Request a device for the nodes of a `with` block; see `Graph.device`."""
    return infer_graph().device(device_name_or_function)


def control_dependencies(
    control_inputs: Iterable[Tensor | Node] | None,
) -> AbstractContextManager[None]:
    """Make the nodes of a `with` block run after others; see `Graph.control_dependencies`.

        counter = graphmill.Variable(0)
        session.run(counter.initializer)
        with F.control_dependencies([counter.assign_add(1)]):
            result = F.constant("done")
        print(session.run(result), session.run(counter))  # b'done' 1

    Args:
        control_inputs: nodes or tensors; None for none at all, also from outer blocks.
    """
    inputs = None if control_inputs is None else list(control_inputs)
    return infer_graph(*(inputs or ())).control_dependencies(inputs)


def colocate_with(op: Tensor | Node, ignore_existing: bool = False) -> AbstractContextManager[None]:
    """Place the nodes of a `with` block with another one; see `Graph.colocate_with`."""
    return infer_graph(op).colocate_with(op, ignore_existing)


def add_to_collection(name: str, value: Any) -> None:
    """Add a value to a collection of the default graph; see `Graph.add_to_collection`."""
    infer_graph(value).add_to_collection(name, value)


def add_to_collections(names: str | Sequence[str], value: Any) -> None:
    """Add a value to several collections of the default graph."""
    for name in [names] if isinstance(names, str) else names:
        add_to_collection(name, value)


def get_collection(key: str, scope: str | None = None) -> list[Any]:
    """Return the values of a collection of the default graph; see `Graph.get_collection`."""
    return infer_graph().get_collection(key, scope)
