"""What is known of a tensor's value before the graph runs: constants, and sums of known sizes.

Shape functions ask: `Reshape(x, [Shape(x)[0], -1])` has a first size of its own although nothing
runs. Semantics: EvaluateConstantTensor and ConstantPartialShape of
tensorflow/core/common_runtime/shape_refiner.cc.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from graphmill.graph.node import Node
    from graphmill.ops.tensor_shape import TensorShape

    Partial = NDArray[Any] | None
    ShapeOf = Callable[[Node, int], TensorShape]

_DEEPEST: Final = 24  # calls; sizes are computed in a few steps
_LARGEST: Final = 256  # elements; shapes are smaller

_ARITHMETIC: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "Add": operator.add,
    "AddV2": operator.add,
    "Sub": operator.sub,
    "Mul": operator.mul,
    "Maximum": max,
    "Minimum": min,
}


def partial_value(node: Node, output: int, shape_of: ShapeOf, depth: int = 0) -> Partial:
    """Return what is known of an output's value.

    Args:
        node, output: the tensor.
        shape_of: returns what is known of a tensor's shape.
        depth: of calls so far.

    Returns:
        The array of a constant; of computed integers an array of objects, of rank 0 or 1, None for
        an element that is not known; None if nothing is known.
    """
    rule = _RULES.get(node.op)
    if rule is None or depth > _DEEPEST:
        return None
    return rule(_Asked(node, output, shape_of, depth))


class _Asked:
    """A tensor whose value is asked for, and how to ask for those that it is computed of."""

    __slots__ = ("depth", "node", "output", "shape_of")

    def __init__(self, node: Node, output: int, shape_of: ShapeOf, depth: int) -> None:
        self.node = node
        self.output = output
        self.shape_of = shape_of
        self.depth = depth

    def value(self, index: int) -> Partial:
        edge = self.node.in_edges[index]
        return partial_value(edge.src, edge.src_output, self.shape_of, self.depth + 1)

    def integers(self, index: int) -> Partial:
        """Return an input as an array of objects if it is a number or a vector of integers."""
        found = self.value(index)
        if found is None or found.ndim > 1 or found.size > _LARGEST:
            return None
        if found.dtype == object:
            return found if self.node.input_types[index].is_integer else None
        return found.astype(object) if found.dtype.kind in "iu" else None

    def shape(self, index: int) -> TensorShape:
        edge = self.node.in_edges[index]
        return self.shape_of(edge.src, edge.src_output)


def _const(asked: _Asked) -> Partial:
    found: NDArray[Any] = asked.node.attrs["value"].numpy()
    return found


def _same(asked: _Asked) -> Partial:
    return asked.value(0)


def _cast(asked: _Asked) -> Partial:
    return asked.integers(0) if asked.node.output_types[0].is_integer else None


def _shape(asked: _Asked) -> Partial:
    known = asked.shape(asked.output)
    return None if known.dims is None else _vector(known.dims)


def _rank(asked: _Asked) -> Partial:
    rank = asked.shape(0).rank
    return None if rank is None else _number(rank)


def _size(asked: _Asked) -> Partial:
    count = asked.shape(0).num_elements()
    return None if count is None else _number(count)


def _pack(asked: _Asked) -> Partial:
    if asked.node.attrs["axis"] not in (0, -1):
        return None
    parts = [asked.integers(index) for index in range(len(asked.node.in_edges))]
    scalars = [part if part is None or part.ndim == 0 else None for part in parts]
    if any(asked.shape(index).rank != 0 for index in range(len(parts))):
        return None
    return _vector([None if part is None else part.item() for part in scalars])


def _concat(asked: _Asked) -> Partial:
    parts = [asked.integers(index) for index in range(len(asked.node.in_edges) - 1)]
    sizes: list[Any] = []
    for index, part in enumerate(parts):
        shape = asked.shape(index)
        length = shape[0] if shape.rank == 1 else None
        if part is not None and part.ndim == 1:
            sizes += part.tolist()
        elif length is not None and length <= _LARGEST:
            sizes += [None] * length
        else:
            return None
    return _vector(sizes)


def _strided_slice(asked: _Asked) -> Partial:
    attrs = asked.node.attrs
    vector, *bounds = (asked.integers(index) for index in range(4))
    if vector is None or vector.ndim != 1 or attrs["new_axis_mask"] or attrs["ellipsis_mask"]:
        return None
    if any(bound is None or bound.shape != (1,) or None in bound for bound in bounds):
        return None
    begin, end, step = (bound[0] for bound in bounds)  # type: ignore[index]
    if attrs["shrink_axis_mask"] & 1:
        inside = -len(vector) <= begin < len(vector)
        return _number(vector[begin]) if inside else None
    if step == 0:
        return None
    start = None if attrs["begin_mask"] & 1 else begin
    stop = None if attrs["end_mask"] & 1 else end
    return vector[slice(start, stop, step)]


def _gather(asked: _Asked) -> Partial:
    vector, places = asked.integers(0), asked.integers(1)
    if vector is None or vector.ndim != 1 or places is None or None in places.flat:
        return None
    if any(not 0 <= place < len(vector) for place in places.flat):
        return None
    if places.ndim == 0:
        return _number(vector[places.item()])
    return _vector([vector[place] for place in places])


def _expand_dims(asked: _Asked) -> Partial:
    found = asked.integers(0)
    return found.reshape(1) if found is not None and found.ndim == 0 else None


def _reshape(asked: _Asked) -> Partial:
    found, shape = asked.integers(0), asked.integers(1)
    if found is None or shape is None or shape.ndim != 1 or len(shape) > 1:
        return None
    if len(shape) == 0:
        return found.reshape(()) if found.size == 1 else None
    return found.reshape(-1) if shape[0] in (-1, found.size) else None


def _squeeze(asked: _Asked) -> Partial:
    found = asked.integers(0)
    return found.reshape(()) if found is not None and found.shape == (1,) else None


def _prod(asked: _Asked) -> Partial:
    found = asked.integers(0)
    if found is None or found.ndim != 1 or None in found or asked.node.attrs["keep_dims"]:
        return None
    return _number(int(np.prod(found.astype(np.int64)))) if asked.value(1) is not None else None


def _range(asked: _Asked) -> Partial:
    bounds = [asked.integers(index) for index in range(3)]
    if any(bound is None or bound.ndim or bound.item() is None for bound in bounds):
        return None
    numbers = [bound.item() for bound in bounds]  # type: ignore[union-attr]
    if numbers[2] == 0 or abs((numbers[1] - numbers[0]) // numbers[2]) > _LARGEST:
        return None
    return _vector(list(range(*numbers)))


def _fill(asked: _Asked) -> Partial:
    dims, value = asked.integers(0), asked.integers(1)
    if dims is None or value is None or dims.shape != (1,) or not 0 <= (dims[0] or -1) <= _LARGEST:
        return None
    return _vector([value.item()] * dims[0])


def _computed(asked: _Asked) -> Partial:
    left, right = asked.integers(0), asked.integers(1)
    if left is None or right is None:
        return None
    if 1 not in (left.size, right.size) and left.shape != right.shape:
        return None
    compute = _ARITHMETIC[asked.node.op]
    known = np.frompyfunc(lambda a, b: None if None in (a, b) else compute(a, b), 2, 1)
    return np.asarray(known(left, right), object)


def _number(value: Any) -> NDArray[Any]:
    return np.array(value, object)


def _vector(values: Any) -> NDArray[Any]:
    made = np.empty(len(values), object)
    made[:] = values
    return made


_RULES: Final[dict[str, Callable[[_Asked], Partial]]] = {
    "Const": _const,
    "HostConst": _const,
    **dict.fromkeys(("Identity", "StopGradient", "GuaranteeConst", "Enter"), _same),
    "Cast": _cast,
    "Shape": _shape,
    "ShapeN": _shape,
    "Rank": _rank,
    "Size": _size,
    "Pack": _pack,
    "ConcatV2": _concat,
    "StridedSlice": _strided_slice,
    "GatherV2": _gather,
    "ExpandDims": _expand_dims,
    "Reshape": _reshape,
    "Squeeze": _squeeze,
    "Prod": _prod,
    "Range": _range,
    "Fill": _fill,
    **dict.fromkeys(_ARITHMETIC, _computed),
}
