"""Batches of elements that are padded to one shape."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.data.components import Component, scalar
from graphmill.data.dataset import Dataset
from graphmill.data.element_spec import (
    TensorSpec,
    convert_leaves,
    flatten,
    output_attrs,
    pack,
)
from graphmill.data.steps import batch_arguments, known_batch
from graphmill.errors import InvalidArgumentError
from graphmill.ops import dataset as ops
from graphmill.ops.inference.tensor_shape import TensorShape

if TYPE_CHECKING:
    from graphmill.graph.builder import Graph
    from graphmill.graph.tensor import Tensor


def padded(
    source: Dataset,
    batch_size: Any,
    padded_shapes: Any,
    padding_values: Any,
    drop_remainder: Any,
    unknown: Tensor | None = None,
) -> Dataset:
    """Stack padded elements; see `Dataset.padded_batch`.

    Args:
        source, batch_size, padded_shapes, padding_values, drop_remainder: as there.
        unknown: the size to which sizes that are unknown are padded, int64; None for that of the
            largest element of the batch.
    """
    size, drop = batch_arguments(batch_size, drop_remainder, "padded_batch")
    specs = flatten(source.element_spec)
    shapes = _shapes(specs, padded_shapes)
    fillers = _fillers(specs, padding_values)
    first = known_batch(size, drop)
    spec = pack(
        source.element_spec,
        [
            TensorSpec([first, *shape], part.dtype)
            for shape, part in zip(shapes, specs, strict=True)
        ],
    )
    limits = [_limit(shape, -1 if unknown is None else unknown) for shape in shapes]

    def build(graph: Graph, inputs: list[Tensor]) -> Tensor:
        return ops.padded_batch_dataset_v2(
            inputs[0],
            size.add_to(graph),
            [part.add_to(graph) for part in limits],
            [part.add_to(graph) for part in fillers],
            drop.add_to(graph),
            output_shapes=output_attrs(spec)["output_shapes"],
        )

    return Dataset(build, spec, [source], [size, drop, *limits, *fillers])


def _limit(shape: list[int | None], unknown: Any) -> Component:
    """Return a shape as a tensor, with a number or tensor for unknown sizes."""
    sizes = [unknown if size is None else size for size in shape]
    return Component(sizes or np.zeros(0, np.int64), "int64")


def _shapes(specs: list[Any], padded_shapes: Any) -> list[list[int | None]]:
    """Return the shape to which each part is padded; None for the largest of the batch."""
    shapes: list[Any] = []
    if padded_shapes is None:
        shapes = [part.shape for part in specs]
    else:
        convert_leaves(padded_shapes, shapes.append, "padded_shapes")
    if len(shapes) != len(specs):
        raise InvalidArgumentError(
            f"padded_batch: {len(shapes)} padded_shapes for elements of {len(specs)} tensors; a "
            "shape is a list, a tuple is a structure"
        )
    return [
        _shape(part, shape, position)
        for position, (part, shape) in enumerate(zip(specs, shapes, strict=True))
    ]


def _shape(part: Any, shape: Any, position: int) -> list[int | None]:
    if not isinstance(part, TensorSpec):
        raise InvalidArgumentError("padded_batch: the elements are datasets; flatten them first")
    wide = TensorShape(shape)
    if wide.rank is None:
        raise InvalidArgumentError(
            f"padded_batch: the rank of tensor {position} of the elements is unknown; pass "
            "padded_shapes"
        )
    sizes = wide.as_list()
    if part.shape.rank is None:
        return sizes
    own = part.shape.as_list()
    is_wide_enough = len(own) == len(sizes) and all(
        one is None or other is None or one <= other for one, other in zip(own, sizes, strict=False)
    )
    if not is_wide_enough:
        raise InvalidArgumentError(
            f"padded_batch: tensor {position} of shape {part.shape} does not fit into the padded "
            f"shape {wide}"
        )
    return sizes


def _fillers(specs: list[Any], padding_values: Any) -> list[Component]:
    """Return the value with which each part is padded."""
    values: list[Any] = []
    if padding_values is None:
        values = [None] * len(specs)
    else:
        convert_leaves(padding_values, values.append, "padding_values")
        if len(values) == 1 and not isinstance(padding_values, (tuple, dict)):
            values *= len(specs)
    if len(values) != len(specs):
        raise InvalidArgumentError(
            f"padded_batch: {len(values)} padding_values for elements of {len(specs)} tensors"
        )
    return [
        scalar(_empty(part) if value is None else value, part.dtype, "padded_batch: padding_values")
        for part, value in zip(specs, values, strict=True)
    ]


def _empty(part: TensorSpec) -> Any:
    return {"string": b"", "bool": False}.get(part.dtype.name, 0)
