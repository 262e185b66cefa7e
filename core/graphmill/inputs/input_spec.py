"""`InputSpec`: the name, dtype and static shape of a model's input."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphmill.dtypes import DType
    from graphmill.typing import Shape


@dataclass(frozen=True, slots=True)
class InputSpec:
    """Name, dtype and static shape of an input.

    Attributes:
        name: the input, as the user writes it.
        dtype: its element type; None if the model does not state it.
        shape: its static shape; -1 for an unknown size, None for an unknown rank.
    """

    name: str
    dtype: DType | None
    shape: Shape

    def __str__(self) -> str:
        dtype = self.dtype.name if self.dtype else "any dtype"
        return f"input {self.name!r} ({dtype} {show_shape(self.shape)})"

    @property
    def is_text(self) -> bool:
        """Whether the input is a string tensor."""
        return self.dtype is not None and self.dtype.base_dtype.name == "string"

    def takes(self, shape: tuple[int, ...]) -> bool:
        """Return whether an array of this shape may be fed."""
        if self.shape is None:
            return True
        return len(shape) == len(self.shape) and all(
            expected in (-1, size) for size, expected in zip(shape, self.shape, strict=True)
        )


def show_shape(shape: Shape) -> str:
    """Return a static shape as `[?, 8, 8, 1]`, or `[...]` if the rank is unknown."""
    if shape is None:
        return "[...]"
    return "[" + ", ".join("?" if size < 0 else str(size) for size in shape) + "]"
