"""Feeds: convert the caller's values to tensors of the graph, and check them (clause S6).

A fed array is not copied; it is passed as a view, so that whatever keeps a value beyond the step (a
variable) can see that it does not own the memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.dtypes import as_dtype, resource, string
from graphmill.errors import InvalidArgumentError, InvalidValueError
from graphmill.graph.node import find_tensor, parse_tensor_name
from graphmill.graph.node_roles import SCALAR_MEANS_UNKNOWN_BEFORE
from graphmill.ops.attrs.attr_types import ShapeAttr
from graphmill.ops.definition.op_traits import Source
from graphmill.runtime.resources.session_state import StoredTensor
from graphmill.runtime.resources.variables import ResourceHandle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from graphmill.dtypes import DType
    from graphmill.graph.graph import Graph
    from graphmill.graph.node import Node
    from graphmill.ops.definition.op_registry import OpRegistry
    from graphmill.session.executors_cache import Signature
    from graphmill.typing import Shape, Value

_PLACEHOLDERS = (Source.PLACEHOLDER, Source.PLACEHOLDER_WITH_DEFAULT)
# The kinds of values that may be fed, by the kind of the tensor's type (see `DType.kind`).
_FROM_KINDS = {
    **dict.fromkeys("iu", frozenset("iubf")),
    "b": frozenset("iub"),
    "q": frozenset("qiub"),
    "f": frozenset("fiub"),
    "c": frozenset("cfiub"),
}
_PLAIN_VALUES = (bool, int, float, complex, str, bytes, list, tuple, dict, np.generic, np.ndarray)
"""Classes of values that are refused as variants: kernels would misinterpret them."""
_NUMBERS = (bool, int, float, complex, np.number, np.bool_)
_LONG = 8  # bytes of the integer types that float64 does not hold
_SMALL = 2  # bytes of the floating-point types that do not hold all integers, even if rounded


def checked_feeds(feed_dict: Mapping[Any, Any] | None) -> Mapping[Any, Any]:
    """Return the values by tensor that a call feeds; None means no feeds.

    Raises:
        InvalidValueError: it is not a mapping.
    """
    if feed_dict is None:
        return {}
    if not isinstance(feed_dict, Mapping):
        raise InvalidValueError(
            f"feed_dict is a {type(feed_dict).__name__}; expected a dict of values by tensor"
        )
    return feed_dict


def check_declared_once(signature: Signature) -> None:
    """Check that no tensor is declared as a feed twice, or as a feed and a fetch.

    Raises:
        InvalidValueError: one is.
    """
    feeds, fetches, _ = signature
    for position, name in enumerate(feeds):
        if name in feeds[:position]:
            raise InvalidValueError(f"Endpoint {name!r} fed more than once; declare it once")
        if name in fetches:
            raise InvalidValueError(f"{name} is both fed and fetched; declare it as one of the two")


def check_values(
    feeds: Iterable[tuple[str, Any]], full: Graph, source: Graph | None, ops: OpRegistry
) -> None:
    """Check values of a call that runs nothing, as if it ran.

    Args:
        feeds: the name of each fed tensor, and the value.
        full: the session's full graph.
        source: the program's graph object, if there is one.
        ops: definitions of the ops of its functions.

    Raises:
        UnknownNameError: a tensor does not exist.
        InvalidValueError: a value does not fit its tensor.
    """
    for name, value in feeds:
        node, output = find_tensor(full, name, "feed")
        shape = feed_shape(full, source or full, name, ops)
        feed_converter(name, node.output_types[output], shape)(value)


def static_shape(node: Node, output: int, producer: int) -> Shape:
    """Return the shape that the graph declares for a tensor; None without a declaration."""
    if node.op_def.traits.source in _PLACEHOLDERS:
        shape = node.attrs.get("shape")
        if shape == () and 0 < producer < SCALAR_MEANS_UNKNOWN_BEFORE:
            return None
    else:
        shapes = node.attrs.get("_output_shapes")
        shape = shapes[output] if isinstance(shapes, tuple) and output < len(shapes) else None
    return shape if isinstance(shape, ShapeAttr) else None


def feed_shape(full: Graph, source: Graph, feed: str, ops: OpRegistry) -> Shape:
    """Return the static shape of a feed; None if it is unknown, or if it is inside a function.

    Args:
        full: the session's full graph.
        source: the program's graph object, or the full graph.
        feed: name of the tensor.
        ops: definitions of the ops of its functions.
    """
    name, output = parse_tensor_name(feed)
    if not full.has_node(name):  # it is inside a function
        return None
    declared = source.declared_shape(name, output)
    if declared is None:
        declared = static_shape(full.node(name), output, full.versions.producer)
    return inferred_shape(source, name, output, ops) if declared is None else declared


def inferred_shape(
    graph: Graph | None, name: str, output: int, ops: OpRegistry | None = None
) -> Shape:
    """Return the inferred shape of an inner tensor; None if it is unknown.

    A placeholder without a shape can be fed with any.

    Args:
        graph: the session's graph object or full graph; None for none.
        name: name of the node.
        output: the number of the output.
        ops: definitions of the ops of its functions; None to infer shapes in graph objects only.
    """
    if graph is None:
        return None
    node = graph.node(name)
    if node.op_def.traits.source in _PLACEHOLDERS:
        return None
    from graphmill.graph.shapes.shape_refiner import shapes_with_calls  # few feed inner tensors
    from graphmill.graph.shapes.shaped_graph import ShapedGraph

    try:
        if isinstance(graph, ShapedGraph):
            shape = graph.shapes_of(node)[output]
        elif ops is None:
            return None
        else:
            shape = shapes_with_calls(graph.library, ops).of(node)[output]
    except InvalidArgumentError:  # of an ancestor, which does not run because the tensor is fed
        return None
    return None if shape.rank is None else ShapeAttr(-1 if n is None else n for n in shape)


def feed_converter(name: str, dtype: DType, shape: Shape) -> Callable[[Any], Value]:
    """Return the function that converts a fed value to a tensor of `dtype` and `shape`.

    The function raises InvalidValueError with the tensor's name for a value that does not fit.
    """
    if dtype is resource:
        return lambda value: _handle(name, value)
    if not dtype.is_numpy_compatible:
        return lambda value: _variant(name, value)
    expected = dtype.as_numpy_dtype
    is_static = shape is not None and -1 not in shape
    fits = None if shape is None else _shape_check(shape)
    ndarray = np.ndarray
    takes_scalars = shape is None or not shape
    # Kernels work several times faster on NumPy scalars than on arrays without dimensions.
    scalar_type = None if expected.hasobject or not takes_scalars else expected.type

    def convert(value: Any) -> Value:
        if type(value) is scalar_type:
            return value
        if (
            type(value) is ndarray
            and value.dtype is expected
            and (not is_static or value.shape == shape)
        ):
            if scalar_type is not None and not value.ndim:
                return value[()]
            if is_static or shape is None:
                return value.view()
            array = value
        else:
            array = _to_array(name, value, dtype)
        if fits is not None and not fits(array.shape):
            assert shape is not None
            raise InvalidValueError(
                f"Cannot feed value of shape {array.shape} for tensor '{name}', which has shape "
                f"'{_shape_text(shape)}'{_batch_hint(array.shape, shape)}"
            )
        if scalar_type is not None and not array.ndim:
            return array[()]
        return array.view() if array is value else array

    return convert


def _to_array(name: str, value: Any, dtype: DType) -> np.ndarray[Any, Any]:
    if isinstance(value, ResourceHandle) and isinstance(value.resource, StoredTensor):
        # As in TensorFlow, the handle of a stored tensor can be fed as text, and in its place.
        value = value.resource.handle if dtype is string else value.resource.value
    if dtype is string:
        return _to_strings(name, value)
    expected = dtype.as_numpy_dtype
    try:
        array = np.asarray(value)
    except (ValueError, TypeError) as error:
        raise InvalidValueError(
            f"the value fed for tensor '{name}' is not an array: {error}"
        ) from error
    if array.dtype == expected:
        return array.view()  # `__array__` may have returned the object's own array
    if array.size == 0 and not hasattr(value, "__array__"):
        return array.astype(expected)  # an empty list has no type
    if array.dtype == object or (array.dtype == np.float64 and _may_have_rounded(value, dtype)):
        found = _of_numbers(np.asarray(value, object), dtype)
        if found is not None:
            return found
    return _cast(name, array, dtype)


def _may_have_rounded(value: Any, dtype: DType) -> bool:
    """Return whether NumPy may have rounded integers of a list, because it has other numbers."""
    return dtype.kind in "iu" and dtype.size == _LONG and isinstance(value, (list, tuple))


def _of_numbers(array: np.ndarray[Any, Any], dtype: DType) -> np.ndarray[Any, Any] | None:
    """Return the numbers of an array of objects as `dtype`; None if one does not fit."""
    items = array.ravel().tolist()
    if not all(isinstance(item, _NUMBERS) for item in items):
        return None
    try:
        with np.errstate(all="ignore"):
            cast = array.astype(dtype.as_numpy_dtype)
    except (OverflowError, TypeError, ValueError):  # too large, complex or NaN
        return None
    if dtype.kind in "fc":
        has_lost = any(isinstance(item, int) for item in array[np.isinf(cast)].ravel())
    else:
        has_lost = cast.ravel().tolist() != items
    return None if has_lost else cast


def _cast(name: str, array: np.ndarray[Any, Any], dtype: DType) -> np.ndarray[Any, Any]:
    """Cast `array` to `dtype`; values may change only by the rounding of floating-point numbers.

    So 1.5 and 2**40 are refused for int32, but 2.0 is accepted, as are 0 and 1 for bool. Integers
    that would be infinite in float16 are refused.
    """
    if _kind(array) in _FROM_KINDS[dtype.kind]:
        with np.errstate(all="ignore"):
            cast = array.astype(dtype.as_numpy_dtype)
        if dtype.kind in "fc":
            if array.dtype.kind not in "iu" or dtype.size > _SMALL or np.isfinite(cast).all():
                return cast
        elif np.array_equal(cast, array):
            return cast
        if array.dtype.kind not in "iub":
            raise InvalidValueError(
                f"Cannot feed a value of dtype {array.dtype} for tensor '{name}', which has dtype "
                f"{dtype.name}: {array[cast != array].flat[0]} is not an integer of that type; "
                "round or convert it first"
            )
        raise InvalidValueError(
            f"a value fed for tensor '{name}' does not fit in {dtype.name}: values from "
            f"{array.min()} to {array.max()}"
        )
    raise InvalidValueError(
        f"Cannot feed a value of dtype {array.dtype} for tensor '{name}', which has dtype "
        f"{dtype.name}; convert it first"
    )


def _kind(array: np.ndarray[Any, Any]) -> str:
    """Return the kind of an array's element type; "" if TensorFlow has no such type."""
    try:
        return as_dtype(array.dtype).kind
    except InvalidArgumentError:
        return ""


def _variant(name: str, value: Any) -> Value:
    """Return a fed variant or array of variants; refuse values of Python's or NumPy's types."""
    is_tensor = isinstance(value, np.ndarray) and value.dtype == object
    for item in value.ravel().tolist() if is_tensor else [value]:
        if isinstance(item, _PLAIN_VALUES):
            raise InvalidValueError(
                f"Cannot feed {type(item).__name__} for tensor '{name}', which has dtype variant; "
                "pass the value that was fetched"
            )
    return value


def _handle(name: str, value: Any) -> Value:
    if isinstance(value, ResourceHandle):
        return value
    if getattr(value, "dtype", None) == resource.as_numpy_dtype and all(
        isinstance(item, ResourceHandle) for item in value.ravel().tolist()
    ):
        return value
    raise InvalidValueError(
        f"Cannot feed {type(value).__name__} for tensor '{name}', which has dtype resource; pass "
        "the handle that was fetched"
    )


def _to_strings(name: str, value: Any) -> np.ndarray[Any, Any]:
    array = np.asarray(value, dtype=object) if not isinstance(value, np.ndarray) else value
    if array.dtype.kind in "SU":
        array = array.astype(object)
    if array.dtype != object:
        raise InvalidValueError(
            f"Cannot feed a value of dtype {array.dtype} for tensor '{name}', which has dtype "
            "string; pass bytes or str"
        )
    items = array.ravel().tolist()
    if set(map(type, items)) <= {bytes}:  # several times as fast as looking at each in Python
        return array
    flat = [item for item in items if not isinstance(item, bytes)]
    if not flat:
        return array
    wrong = [item for item in flat if not isinstance(item, str)]
    if wrong:
        raise InvalidValueError(
            f"Cannot feed {type(wrong[0]).__name__} for tensor '{name}', which has dtype string; "
            "pass bytes or str"
        )
    encoded = np.empty(array.shape, dtype=object)
    encoded.ravel()[:] = [_encoded(name, item) for item in items]
    return encoded


def _encoded(name: str, item: str | bytes) -> bytes:
    try:
        return item.encode("utf-8", "surrogateescape") if isinstance(item, str) else item
    except UnicodeEncodeError as error:
        raise InvalidValueError(
            f"a str fed for tensor '{name}' cannot be written as UTF-8: {error}; pass bytes"
        ) from error


def _batch_hint(found: tuple[int, ...], shape: tuple[int, ...]) -> str:
    """Return what to do if a value lacks only the first dimension, of any size."""
    if shape and shape[0] < 0 and _fits(found, shape[1:]):
        return ". It lacks the first dimension: for a batch of one, feed [value]"
    return ""


def _shape_check(shape: tuple[int, ...]) -> Callable[[tuple[int, ...]], bool]:
    """Return the function that returns whether a shape fits `shape`; see `_fits`."""
    rank, rest = len(shape), tuple(shape[1:])
    if rank and shape[0] == -1 and -1 not in rest:  # only the size of the batch is unknown
        return lambda actual: len(actual) == rank and actual[1:] == rest
    return lambda actual: _fits(actual, shape)


def _fits(actual: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Return whether a shape has the sizes of `shape`, in which -1 stands for any."""
    return len(actual) == len(shape) and all(
        expected in (-1, size) for size, expected in zip(actual, shape, strict=True)
    )


def _shape_text(shape: tuple[int, ...]) -> str:
    sizes = ", ".join("?" if size < 0 else str(size) for size in shape)
    return f"({sizes},)" if len(shape) == 1 else f"({sizes})"
