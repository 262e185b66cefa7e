"""Specs of the elements of a dataset: structures of tensors, and of datasets.

Elements are tensors, or tuples, named tuples and dicts of elements. A list is not a structure but a
tensor, as in `tf.data`. Semantics: tensorflow/python/data/util/{nest,structure}.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill import dtypes
from graphmill.dtypes import as_dtype
from graphmill.errors import InvalidArgumentError, InvalidValueError
from graphmill.graph import structures
from graphmill.ops.inference.tensor_shape import TensorShape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from graphmill.dtypes import DType
    from graphmill.ops.inputs.arguments import DTypeLike, ShapeLike


class TensorSpec:
    """The static shape and the element type of a tensor.

    Attributes:
        shape: its shape; sizes may be unknown.
        dtype: its element type.
        name: a name, or None.
    """

    __slots__ = ("dtype", "name", "shape")

    def __init__(
        self, shape: ShapeLike | TensorShape, dtype: DTypeLike = "float32", name: str | None = None
    ) -> None:
        """Describe a tensor; the arguments have the order of `tf.TensorSpec`."""
        self.shape = TensorShape(shape)
        self.dtype: DType = as_dtype(dtype)
        self.name = name

    def is_compatible_with(self, other: TensorSpec) -> bool:
        """Return whether a tensor may fit both."""
        return self.dtype is other.dtype and self.shape.is_compatible_with(other.shape)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, TensorSpec)
            and self.dtype is other.dtype
            and self.shape.dims == other.shape.dims
        )

    def __hash__(self) -> int:
        return hash((self.dtype, self.shape.dims))

    def __repr__(self) -> str:
        return f"TensorSpec(shape={self.shape}, dtype={self.dtype.name})"


class DatasetSpec:
    """The elements of a dataset that is an element of another one, as those of `Dataset.window`.

    Attributes:
        element_spec: the structure of its elements.
    """

    __slots__ = ("element_spec",)
    dtype = dtypes.variant
    shape = TensorShape([])

    def __init__(self, element_spec: Any) -> None:
        """Describe a dataset by its elements."""
        self.element_spec = element_spec

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DatasetSpec) and self.element_spec == other.element_spec

    def __hash__(self) -> int:
        return hash(tuple(flatten(self.element_spec)))

    def __repr__(self) -> str:
        return f"DatasetSpec({self.element_spec})"


Spec = TensorSpec | DatasetSpec


def flatten(structure: Any) -> list[Any]:
    """Return the leaves of an element, the values of a dict by its sorted keys."""
    return structures.flatten(structure)


def element_of(arguments: tuple[Any, ...]) -> Any:
    """Return the element with which a function was called: one argument, or a tuple of several."""
    return arguments[0] if len(arguments) == 1 else arguments


def pack(structure: Any, leaves: Iterable[Any]) -> Any:
    """Return an element with the structure of another one and new leaves."""
    return structures.pack(structure, leaves)


def spec_of_types(output_types: Any, output_shapes: Any = None) -> Any:
    """Return the spec of a structure of types and one of shapes, in which a list is a shape.

    Raises:
        InvalidArgumentError: the numbers of types and shapes differ.
    """
    types = flatten(output_types)
    shapes: list[Any] = [None] * len(types)
    if output_shapes is not None:
        shapes = []
        convert_leaves(output_shapes, shapes.append, "output_shapes")
    if len(shapes) != len(types):
        raise InvalidValueError(
            f"there are {len(types)} output_types and {len(shapes)} output_shapes; a shape is a "
            "list, a tuple is a structure"
        )
    specs = [TensorSpec(shape, dtype) for shape, dtype in zip(shapes, types, strict=True)]
    return pack(output_types, specs)


def as_datasets(element_spec: Any, tensors: Iterable[Any]) -> Any:
    """Return the element of the tensors of its leaves: datasets for their variants."""
    from graphmill.data.dataset import Dataset

    parts = zip(tensors, flatten(element_spec), strict=True)
    return pack(
        element_spec,
        [
            Dataset.of_tensor(tensor, spec.element_spec)
            if isinstance(spec, DatasetSpec)
            else tensor
            for tensor, spec in parts
        ],
    )


def map_spec(function: Callable[[Spec], Spec], element_spec: Any) -> Any:
    """Return a structure with `function` applied to each spec."""
    return structures.map_leaves(function, element_spec)


def convert_leaves(structure: Any, convert: Callable[[Any], Any], what: str) -> Any:
    """Return an element with each leaf converted; a list is one leaf.

    Raises:
        InvalidArgumentError: a leaf cannot be converted; the message names it by `what`.
    """
    if isinstance(structure, dict):
        parts = {
            key: convert_leaves(part, convert, f"{what}[{key!r}]")
            for key, part in structure.items()
        }
        return type(structure)(parts) if type(structure) is not dict else parts
    if isinstance(structure, tuple):
        leaves = [
            convert_leaves(part, convert, f"{what}[{index}]")
            for index, part in enumerate(structure)
        ]
        return type(structure)(*leaves) if hasattr(structure, "_fields") else tuple(leaves)
    try:
        return convert(structure)
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"{what}: {error.message}") from error


def output_attrs(element_spec: Any) -> dict[str, Any]:
    """Return the attrs `output_types` and `output_shapes` of a dataset op."""
    specs = flatten(element_spec)
    return {
        "output_types": [spec.dtype for spec in specs],
        "output_shapes": [spec.shape.dims for spec in specs],
    }


def check_same_structure(
    expected: Any, actual: Any, what: str, other: str = "the element of this dataset"
) -> None:
    """Check that two elements have one structure and the same types.

    Args:
        expected: the spec of one, which messages call `other`.
        actual: the spec of the one that is checked, which messages call `what`.
        what, other: names for messages.

    Raises:
        InvalidArgumentError: they differ.
    """
    structures.check_same(expected, actual, what, other)
    for (path, one), (_, found) in zip(
        structures.flatten_with_paths(expected),
        structures.flatten_with_paths(actual),
        strict=True,
    ):
        if one.dtype is not found.dtype:
            raise InvalidValueError(
                f"{what}{path} is {found.dtype.name}, but {other} is {one.dtype.name}"
            )


def most_general(one: Any, other: Any) -> Any:
    """Return the spec that covers those of two elements of one structure."""
    pairs = zip(flatten(one), flatten(other), strict=True)
    return pack(one, [_general(left, right) for left, right in pairs])


def _general(one: Spec, other: Spec) -> Spec:
    if isinstance(one, DatasetSpec):
        assert isinstance(other, DatasetSpec)
        return DatasetSpec(most_general(one.element_spec, other.element_spec))
    return TensorSpec(one.shape.relaxed_with(other.shape), one.dtype)
