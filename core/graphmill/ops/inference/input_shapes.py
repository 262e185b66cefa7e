"""The shapes that ops accept as inputs: ranks, sizes, and axes of equal size, as patterns.

`input_shapes.tsv` has a line for each group of TensorFlow's ops that accept the same shapes: a
pattern for each input, a tab, the ops. A node with other static shapes is refused when it is added,
as by the shape functions of tensorflow/core/ops. What depends on attrs and values is checked by the
shape function (`graphmill.ops.shapes`).

| pattern | shapes |
|---|---|
| `*` | all |
| `[]`, `[_,_]` | scalars; matrices |
| `[n,4]` | matrices of four columns; each axis `n` of the node's inputs has the same size |
| `[...,m,m]` | a square matrix, or a batch of them |
| `[...b,k]` | a vector, or a batch of them; each `...b` of the node's inputs has the same sizes |
| `[#0]` | vectors with an element for each axis of input 0 |
| `<=1` | scalars and vectors |

The pattern of a list of tensors applies to each of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from graphmill.errors import InvalidArgumentError
from graphmill.ops.definition.op_registry import same_bundled
from graphmill.ops.inference.tensor_shape import UNKNOWN_SHAPE, TensorShape, merged_size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.ops.definition.op_def import OpDef
    from graphmill.ops.inference.shape_inference import ShapeContext
    from graphmill.ops.inference.tensor_shape import Size

_ANY_SIZE: Final = "_"
_ELLIPSIS: Final = "..."
_MAX_RANK: Final = 255


class Bindings:
    """What the names in the patterns of a node stand for, as far as it is known.

    Args:
        inputs: the shapes of all inputs of the node.
    """

    def __init__(self, inputs: Sequence[TensorShape]) -> None:
        self._inputs = inputs
        self._sizes: dict[str, Size] = {}
        self._shapes: dict[str, TensorShape] = {}

    def bind_size(self, axis: str, size: Size) -> None:
        """Check the size of an axis of a pattern.

        Raises:
            InvalidArgumentError: it must have another size.
        """
        if axis == _ANY_SIZE:
            return
        known = int(axis) if axis.isdigit() else self._sizes.get(axis)
        if axis.startswith("#"):
            known = merged_size(known, self._inputs[int(axis[1:])].rank)
        self._sizes[axis] = merged_size(known, size)

    def bind_shape(self, name: str, shape: TensorShape) -> None:
        """Check the axes that a named ellipsis stands for.

        Raises:
            InvalidArgumentError: there must be others.
        """
        if name:
            self._shapes[name] = self._shapes.get(name, UNKNOWN_SHAPE).merge_with(shape)


@dataclass(frozen=True, slots=True)
class ShapePattern:
    """The shapes that an input may have.

    Attributes:
        text: the pattern.
        max_rank: the highest rank.
        head: the axes before the ellipsis; all axes if there is none.
        tail: the axes after the ellipsis, or None if there is none.
        ellipsis: the name of the ellipsis; may be empty.
    """

    text: str
    max_rank: int = _MAX_RANK
    head: tuple[str, ...] = ()
    tail: tuple[str, ...] | None = ()
    ellipsis: str = ""

    @classmethod
    def parse(cls, text: str) -> ShapePattern:
        """Return the pattern that a text describes; see the head of the module."""
        if text == "*":
            return cls(text)
        if text.startswith("<="):
            return cls(text, max_rank=int(text[2:]))
        axes = [axis for axis in text[1:-1].split(",") if axis]
        places = [index for index, axis in enumerate(axes) if axis.startswith(_ELLIPSIS)]
        if not places:
            return cls(text, head=tuple(axes), tail=None)
        (place,) = places
        name = axes[place].removeprefix(_ELLIPSIS)
        return cls(text, head=tuple(axes[:place]), tail=tuple(axes[place + 1 :]), ellipsis=name)

    def check(self, shape: TensorShape, bindings: Bindings) -> None:
        """Check a shape and bind the names of the pattern.

        Raises:
            InvalidArgumentError: an input of this pattern cannot have this shape.
        """
        if shape.dims is None:
            return
        if self.tail is None:
            shape.with_rank(len(self.head))
        else:
            shape.with_rank_at_least(len(self.head) + len(self.tail))
            shape.with_rank_at_most(self.max_rank)
        for axis, size in zip(self.head, shape.dims, strict=False):
            bindings.bind_size(axis, size)
        if self.tail is None:
            return
        end = len(shape.dims) - len(self.tail)
        for axis, size in zip(self.tail, shape.dims[end:], strict=True):
            bindings.bind_size(axis, size)
        bindings.bind_shape(self.ellipsis, shape[len(self.head) : end])


def check_input_shapes(op: ShapeContext, op_def: OpDef) -> None:
    """Check the shapes of a node's inputs by the patterns of its op, if it has any.

    Raises:
        InvalidArgumentError: an input has a shape that the op does not accept; it names the input.
    """
    patterns = input_patterns(op_def)
    if not patterns:
        return
    bindings = Bindings(op.inputs)
    ranges = op_def.input_ranges(op.attrs)
    for pattern, (name, (start, stop)) in zip(patterns, ranges.items(), strict=True):
        for shape in op.inputs[start:stop]:
            try:
                pattern.check(shape, bindings)
            except InvalidArgumentError as error:
                raise InvalidArgumentError(
                    f"{error.message}: input {name!r} has the shape {shape}; expected "
                    f"{pattern.text} in {_described(patterns, tuple(ranges))}",
                    node=op.name,
                    op_type=op.type,
                ) from error


def input_patterns(op_def: OpDef) -> tuple[ShapePattern, ...]:
    """Return the pattern of each input of an op; none for an op without patterns."""
    line = _lines().get(op_def.name)
    if line is None or same_bundled(op_def) is None:  # an op of a plugin with the same name
        return ()
    return _parsed(line)


def _described(patterns: Sequence[ShapePattern], names: Sequence[str]) -> str:
    return ", ".join(f"{name}: {one.text}" for one, name in zip(patterns, names, strict=True))


@cache
def _parsed(line: str) -> tuple[ShapePattern, ...]:
    return tuple(map(ShapePattern.parse, line.split()))


@cache
def _lines() -> dict[str, str]:
    """Return the patterns of ops, by the name of the op."""
    text = Path(__file__).with_name("input_shapes.tsv").read_text(encoding="utf-8")
    rows = (line.split("\t") for line in text.splitlines())
    return {op: patterns for patterns, ops in rows for op in ops.split()}
