"""Datasets of values and tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.data.components import Component, scalar
from graphmill.data.dataset import Dataset, dataset_leaves
from graphmill.data.element_spec import TensorSpec, convert_leaves, flatten, output_attrs, pack
from graphmill.errors import InvalidArgumentError
from graphmill.ops import dataset as ops

if TYPE_CHECKING:
    from graphmill.graph.builder import Graph
    from graphmill.graph.tensor import Tensor


def from_tensors(tensors: Any) -> Dataset:
    """Return a dataset with one element; see `Dataset.from_tensors`."""
    structure = convert_leaves(tensors, Component, "tensors")
    components: list[Component] = flatten(structure)
    spec = pack(structure, [TensorSpec(part.shape, part.dtype) for part in components])
    shapes = output_attrs(spec)["output_shapes"]

    def build(graph: Graph, inputs: list[Tensor]) -> Tensor:
        del inputs
        return ops.tensor_dataset([part.add_to(graph) for part in components], output_shapes=shapes)

    return Dataset(build, spec, components=components)


def from_tensor_slices(tensors: Any) -> Dataset:
    """Return a dataset of slices; see `Dataset.from_tensor_slices`."""
    structure = convert_leaves(tensors, _sliceable, "tensors")
    components: list[Component] = flatten(structure)
    _check_first_axes(components)
    spec = pack(
        structure,
        [
            TensorSpec(None if part.shape is None else part.shape[1:], part.dtype)
            for part in components
        ],
    )
    shapes = output_attrs(spec)["output_shapes"]

    def build(graph: Graph, inputs: list[Tensor]) -> Tensor:
        del inputs
        return ops.tensor_slice_dataset(
            [part.add_to(graph) for part in components], output_shapes=shapes
        )

    return Dataset(build, spec, components=components)


def number_range(args: tuple[Any, ...], output_type: Any) -> Dataset:
    """Return a dataset of numbers; see `Dataset.range`."""
    if not 1 <= len(args) <= 3:
        raise InvalidArgumentError(
            f"Dataset.range takes one to three numbers (start, stop, step), got {len(args)}"
        )
    numbers = {1: (0, *args, 1), 2: (*args, 1), 3: args}[len(args)]
    limits = [
        scalar(value, "int64", f"range: {name}")
        for name, value in zip(("start", "stop", "step"), numbers, strict=True)
    ]
    spec = TensorSpec([], output_type)

    def build(graph: Graph, inputs: list[Tensor]) -> Tensor:
        del inputs
        return ops.range_dataset(*(part.add_to(graph) for part in limits), **output_attrs(spec))

    return Dataset(build, spec, components=limits)


def zipped(structure: Any) -> Dataset:
    """Return a dataset of structures of elements; see `Dataset.zip`."""
    datasets, spec = dataset_leaves(structure, "zip")

    def build(graph: Graph, inputs: list[Tensor]) -> Tensor:
        del graph
        return ops.zip_dataset(inputs, **output_attrs(spec))

    return Dataset(build, spec, datasets)


def _sliceable(value: Any) -> Component:
    component = Component(value)
    if component.shape == []:
        raise InvalidArgumentError("a scalar has no slices; use from_tensors, or put it in a list")
    return component


def _check_first_axes(components: list[Component]) -> None:
    if not components:
        raise InvalidArgumentError("from_tensor_slices needs at least one tensor")
    sizes = {part.shape[0] for part in components if part.shape and part.shape[0] is not None}
    if len(sizes) > 1:
        raise InvalidArgumentError(
            f"the first axes of the tensors differ: {', '.join(map(str, sorted(sizes)))}"
        )
