"""The columns of a table of results: one for each element of an output's row."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from graphmill.json_data import json_data

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from graphmill.batch.store import RowRange

    Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

MAX_ELEMENTS: Final = 1024
"""An output with more elements in a row has one column, of JSON."""


@dataclass(frozen=True, slots=True)
class OutputShape:
    """The common shape and type of an output's rows in the whole run.

    Attributes:
        shape: the shape of each row; None if rows have different ones.
        dtype: the dtype of its elements.
    """

    shape: tuple[int, ...] | None
    dtype: np.dtype[Any]

    @property
    def is_flat(self) -> bool:
        """Whether a table has a column for each element of a row."""
        return self.shape is not None and math.prod(self.shape) <= MAX_ELEMENTS


def output_shapes(ranges: Iterable[RowRange]) -> dict[str, OutputShape]:
    """Return the shape of each output's rows."""
    shapes: dict[str, OutputShape] = {}
    for part in ranges:
        for name, array in part.outputs.items():
            known = shapes.get(name)
            shape: tuple[int, ...] | None = array.shape[1:]
            if known is not None and known.shape != shape:
                shape = None
            shapes[name] = OutputShape(shape, array.dtype)
    return shapes


def column_names(shapes: Mapping[str, OutputShape], taken: Collection[str]) -> list[str]:
    """Return the names of the columns: `NAME`, or `NAME[0]`, `NAME[1]` and so on.

    Args:
        shapes: the outputs.
        taken: the names of the other columns.
    """
    names = distinct_names({name: name for name in shapes}, taken)
    return [column for name, shape in shapes.items() for column in _columns(names[name], shape)]


def distinct_names(wanted: Mapping[str, str], taken: Collection[str]) -> dict[str, str]:
    """Return a name for each output, no two of which are equal.

    A name that is taken gets the suffix `_output`, and a number if that is taken, too. Outputs that
    can keep their own name do.

    Args:
        wanted: a name by output; it may differ from the output's, which the format cannot hold.
        taken: names that no output can have.
    """
    used = set(taken)
    names = {}
    for output in sorted(wanted, key=lambda one: wanted[one] != one):
        name = candidate = wanted[output]
        number = 1
        while candidate in used:
            candidate = f"{name}_output" if number == 1 else f"{name}_output_{number}"
            number += 1
        used.add(candidate)
        names[output] = candidate
    return names


def cells(part: RowRange, shapes: Mapping[str, OutputShape]) -> Iterator[list[Any]]:
    """Yield for each row the value of each column."""
    columns = [_values(part.outputs[name], shape) for name, shape in shapes.items()]
    for values in zip(*columns, strict=True):
        yield list(itertools.chain.from_iterable(values))


def _columns(name: str, shape: OutputShape) -> list[str]:
    if not shape.is_flat or shape.shape in ((), None):
        return [name]
    indices = itertools.product(*map(range, shape.shape or ()))
    return [f"{name}[{','.join(map(str, index))}]" for index in indices]


def _values(array: Array, shape: OutputShape) -> list[list[Any]]:
    """Return for each row the values of an output's columns."""
    if shape.is_flat:
        rows = array.reshape(len(array), -1)
        if array.dtype.kind == "f" and array.dtype.itemsize < 8:
            rows = rows.astype(np.str_)  # the fewest digits that give the same number again
        flat: list[list[Any]] = rows.tolist()
        return [[_text(value) for value in row] for row in flat] if array.dtype == object else flat
    return [[json.dumps(json_data(row.tolist()), ensure_ascii=False)] for row in array]


def _text(value: Any) -> Any:
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value
