"""`TensorShape`: the static shape of a tensor, which may be partially known.

Semantics: tf.TensorShape of tensorflow/python/framework/tensor_shape.py.
"""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any, overload

from graphmill.errors import InvalidArgumentError, InvalidValueError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphmill.ops.inputs.arguments import ShapeLike
    from graphmill.proto import TensorShapeProto

Size = int | None


class TensorShape:
    """An immutable shape, whose rank or sizes may be unknown.

    It equals the tuple of its sizes, with None for unknown sizes (`x.shape == (None, 3)`), or None
    if its rank is unknown.

    Attributes:
        dims: the sizes, None for an unknown size; None if the rank is unknown.
    """

    __slots__ = ("dims",)

    dims: tuple[Size, ...] | None

    def __init__(self, dims: Any = None) -> None:
        """Create a shape.

        Args:
            dims: the sizes, None or -1 for an unknown size; None for an unknown rank; another
                `TensorShape`, or a `TensorShapeProto`.

        Raises:
            InvalidArgumentError: `dims` is none of these.
        """
        if dims is None or getattr(dims, "unknown_rank", False):
            self.dims = None
        elif isinstance(dims, TensorShape):
            self.dims = dims.dims
        elif hasattr(dims, "unknown_rank"):
            self.dims = tuple(_size(dim.size) for dim in dims.dim)
        else:
            try:
                self.dims = tuple(map(_size, dims))
            except TypeError as error:
                raise InvalidArgumentError(
                    f"{dims!r} is not a shape; expected sizes (None if unknown), or None for "
                    "an unknown rank"
                ) from error

    @property
    def rank(self) -> int | None:
        """Number of dimensions, None if it is unknown; `ndims` is the same."""
        return None if self.dims is None else len(self.dims)

    ndims = rank

    def is_fully_defined(self) -> bool:
        """Return whether rank and all sizes are known."""
        return self.dims is not None and None not in self.dims

    def as_list(self) -> list[Size]:
        """Return the sizes.

        Raises:
            InvalidArgumentError: the rank is unknown.
        """
        return list(self)

    def as_proto(self) -> TensorShapeProto:
        """Return the shape as a message."""
        from graphmill.proto import TensorShapeProto

        if self.dims is None:
            return TensorShapeProto(unknown_rank=True)
        message = TensorShapeProto()
        for size in self.dims:
            message.dim.add(size=-1 if size is None else size)
        return message

    def num_elements(self) -> int | None:
        """Return the number of elements, None if it is unknown."""
        if self.dims is None or None in self.dims:
            return None
        return math.prod(self.dims)  # type: ignore[arg-type]

    def with_rank(self, rank: int) -> TensorShape:
        """Return the shape, or a shape of this rank with unknown sizes if its rank is unknown.

        Raises:
            InvalidArgumentError: it has another rank.
        """
        if self.dims is None:
            return TensorShape((None,) * rank)
        if len(self.dims) != rank:
            raise InvalidArgumentError(f"Shape must be rank {rank} but is rank {len(self.dims)}")
        return self

    def with_rank_at_least(self, rank: int) -> TensorShape:
        """Return the shape unchanged, after a check of its rank.

        Raises:
            InvalidArgumentError: it has fewer dimensions.
        """
        if self.dims is not None and len(self.dims) < rank:
            raise InvalidArgumentError(
                f"Shape must be at least rank {rank} but is rank {len(self.dims)}"
            )
        return self

    def with_rank_at_most(self, rank: int) -> TensorShape:
        """Return the shape unchanged, after a check of its rank.

        Raises:
            InvalidArgumentError: it has more dimensions.
        """
        if self.dims is not None and len(self.dims) > rank:
            raise InvalidValueError(
                f"Shape must be at most rank {rank} but is rank {len(self.dims)}"
            )
        return self

    def assert_has_rank(self, rank: int) -> None:
        """Check the rank.

        Raises:
            InvalidArgumentError: it has another rank.
        """
        if self.rank not in (None, rank):
            raise InvalidValueError(f"Shape {self} must have rank {rank}")

    def assert_same_rank(self, other: Any) -> None:
        """Check that another shape can have the same rank.

        Raises:
            InvalidArgumentError: it has another rank.
        """
        theirs = TensorShape(other)
        if None not in (self.rank, theirs.rank) and self.rank != theirs.rank:
            raise InvalidValueError(f"Shapes {self} and {theirs} must have the same rank")

    def assert_is_compatible_with(self, other: Any) -> None:
        """Check that one tensor can have both shapes.

        Raises:
            InvalidArgumentError: it cannot.
        """
        if not self.is_compatible_with(other):
            raise InvalidValueError(f"Shapes {self} and {TensorShape(other)} are incompatible")

    def assert_is_fully_defined(self) -> None:
        """Check that rank and all sizes are known.

        Raises:
            InvalidArgumentError: they are not.
        """
        if not self.is_fully_defined():
            raise InvalidValueError(f"Shape {self} is not fully defined")

    def merge_with(self, other: Any) -> TensorShape:
        """Merge two partial shapes of one tensor.

        Raises:
            InvalidArgumentError: they contradict each other.
        """
        mine, theirs = self.dims, TensorShape(other).dims
        if mine is None or theirs is None:
            return TensorShape(theirs if mine is None else mine)
        if len(mine) != len(theirs):
            raise InvalidArgumentError(
                f"Shapes must be equal rank, but are {len(mine)} and {len(theirs)}"
            )
        return TensorShape(map(merged_size, mine, theirs))

    def is_compatible_with(self, other: Any) -> bool:
        """Return whether one tensor can have both shapes."""
        mine, theirs = self.dims, TensorShape(other).dims
        if mine is None or theirs is None:
            return True
        return len(mine) == len(theirs) and all(
            a is None or b is None or a == b for a, b in zip(mine, theirs, strict=True)
        )

    def relaxed_with(self, other: TensorShape) -> TensorShape:
        """Return the most specific shape that is compatible with both."""
        mine, theirs = self.dims, other.dims
        if mine is None or theirs is None or len(mine) != len(theirs):
            return UNKNOWN_SHAPE
        return TensorShape(a if a == b else None for a, b in zip(mine, theirs, strict=True))

    def broadcast_with(self, other: TensorShape) -> TensorShape:
        """Return the broadcast shape of two tensors.

        Raises:
            InvalidArgumentError: they cannot be broadcast.
        """
        if self.dims is None or other.dims is None:
            return UNKNOWN_SHAPE
        rank = max(len(self.dims), len(other.dims))
        mine, theirs = ((1,) * (rank - len(dims)) + dims for dims in (self.dims, other.dims))
        return TensorShape(map(_broadcast_size, mine, theirs))

    def concatenate(self, other: Any) -> TensorShape:
        """Return the sizes of both, one after the other; `+` is the same."""
        theirs = TensorShape(other).dims
        if self.dims is None or theirs is None:
            return UNKNOWN_SHAPE
        return TensorShape(self.dims + theirs)

    def with_axis(self, axis: int, *sizes: Size) -> TensorShape:
        """Return the shape with one axis replaced by any number of sizes."""
        if self.dims is None:
            return UNKNOWN_SHAPE
        index = range(len(self.dims))[axis]
        return TensorShape(self.dims[:index] + sizes + self.dims[index + 1 :])

    def with_new_axis(self, axis: int, size: Size) -> TensorShape:
        """Return the shape with a new axis inserted before `axis`."""
        if self.dims is None:
            return UNKNOWN_SHAPE
        return TensorShape((*self.dims[:axis], size, *self.dims[axis:]))

    @overload
    def __getitem__(self, key: int) -> Size: ...
    @overload
    def __getitem__(self, key: slice) -> TensorShape: ...

    def __getitem__(self, key: int | slice) -> Size | TensorShape:
        if isinstance(key, slice):
            return UNKNOWN_SHAPE if self.dims is None else TensorShape(self.dims[key])
        return None if self.dims is None else self.dims[key]

    def __add__(self, other: Any) -> TensorShape:
        return self.concatenate(other)

    def __radd__(self, other: Any) -> TensorShape:
        return TensorShape(other) + self

    def __iter__(self) -> Iterator[Size]:
        return iter(self._known_rank())

    def __len__(self) -> int:
        return len(self._known_rank())

    def __bool__(self) -> bool:
        return self.dims is not None

    def __eq__(self, other: object) -> bool:
        if isinstance(other, TensorShape):
            return self.dims == other.dims
        if other is None or isinstance(other, tuple | list):
            return self.dims == TensorShape(other).dims
        return NotImplemented

    def __hash__(self) -> int:
        return hash(self.dims)

    def __repr__(self) -> str:
        return f"TensorShape({self.dims if self.dims is None else list(self.dims)})"

    def __str__(self) -> str:
        return "<unknown>" if self.dims is None else str(self.dims)

    def _known_rank(self) -> tuple[Size, ...]:
        if self.dims is None:
            raise InvalidArgumentError(
                "the rank of this shape is unknown before the graph runs; check `shape.rank` first"
            )
        return self.dims


def merged_size(one: Size, other: Size) -> Size:
    """Merge two partially known sizes.

    Raises:
        InvalidArgumentError: they contradict each other.
    """
    if one is None or other is None:
        return other if one is None else one
    if one != other:
        raise InvalidArgumentError(f"Dimensions must be equal, but are {one} and {other}")
    return one


def checked_shape(shape: ShapeLike | int) -> TensorShape:
    """Return the shape that a program passes to `set_shape`.

    Raises:
        InvalidValueError: it is no shape, or has a negative size.
    """
    sizes: Any = (shape,) if isinstance(shape, int) else shape
    try:
        declared = TensorShape(sizes)
    except InvalidArgumentError as error:
        raise InvalidValueError(error.message) from error
    if isinstance(sizes, tuple | list):
        negative = [size for size in sizes if size is not None and size < 0]
        if negative:
            raise InvalidValueError(f"Dimension {negative[0]} must be >= 0")
    return declared


def _size(value: Any) -> Size:
    """Return a size, with -1 converted to None."""
    if value is None:
        return None
    size = operator.index(value)
    if size < -1:
        raise InvalidArgumentError(f"a dimension has the negative size {size}")
    return None if size == -1 else size


def _broadcast_size(one: Size, other: Size) -> Size:
    if one == 1:
        return other
    if other == 1:
        return one
    if one is None or other is None:
        return other if one is None else one
    return merged_size(one, other)


UNKNOWN_SHAPE = TensorShape()
SCALAR = TensorShape(())
