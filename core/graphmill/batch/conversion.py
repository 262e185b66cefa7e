"""Convert rows to the arrays that one step of a model takes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from graphmill.batch.contents import ImageBytes
from graphmill.batch.row import Failure
from graphmill.errors import InvalidArgumentError, OpError
from graphmill.inputs.image_input import image_arrays
from graphmill.inputs.input_values import fit
from graphmill.inputs.source import Source

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphmill.batch.row import Row
    from graphmill.inputs.image_input import ImageOptions
    from graphmill.inputs.input_spec import InputSpec

    Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows that one step runs.

    Attributes:
        rows: all of them.
        converted: the rows that could be converted.
        values: for each input the values of the converted rows, stacked; without the first
            dimension if the model has no batch dimension.
        failures: the rows that could not be converted, with their errors.
    """

    rows: Sequence[Row]
    converted: Sequence[Row]
    values: Mapping[str, Array]
    failures: Sequence[Failure]

    @property
    def position(self) -> int:
        """The bytes of all files that were read up to the end of this batch."""
        return self.rows[-1].position

    @property
    def span(self) -> tuple[int, int]:
        """The index of its first row, and the index after its last row."""
        return self.rows[0].index, self.rows[-1].index + 1


@dataclass(frozen=True, slots=True)
class _Decoded:
    """An image as an array for its input."""

    pixels: Array


class RowConverter:
    """Convert rows to arrays.

    A model has a batch dimension if the first dimension of an input is unknown, or 1 in all of
    them; otherwise each step runs one row, which has the whole shape of the input.

    Args:
        specs: the inputs that rows feed, as the model has them.
        images: how images become arrays.

    Attributes:
        has_batch: whether the model has a batch dimension.
        max_rows: how many rows a step can take; None for any number.
        row_specs: the inputs without their batch dimension.
    """

    def __init__(self, specs: Mapping[str, InputSpec], images: ImageOptions) -> None:
        self._specs = specs
        self._images = images
        first = [spec.shape[0] if spec.shape else 0 for spec in specs.values() if spec.shape != ()]
        ranks_are_known = all(spec.shape is not None for spec in specs.values())
        is_one = bool(first) and all(size == 1 for size in first)
        self.has_batch = not ranks_are_known or -1 in first or is_one
        self.max_rows = 1 if is_one or not self.has_batch else None
        self.row_specs = {name: self._row_spec(spec) for name, spec in specs.items()}

    def convert(self, rows: Sequence[Row]) -> Batch:
        """Return the rows as arrays; rows that do not fit are failures."""
        converted: list[Row] = []
        failures: list[Failure] = []
        values_of_rows: list[dict[str, Array]] = []
        contents = [self._content(row) for row in rows]
        self._decode_images(rows, contents)
        for row, content in zip(rows, contents, strict=True):
            try:
                values = self._values(row, content)
                _check_shapes(values, values_of_rows, row)
            except OpError as error:
                failures.append(Failure(row, error))
            else:
                converted.append(row)
                values_of_rows.append(values)
        stacked = {
            name: self._stack([values[name] for values in values_of_rows]) for name in self._specs
        } if converted else {}  # fmt: skip
        return Batch(rows, converted, stacked, failures)

    def _row_spec(self, spec: InputSpec) -> InputSpec:
        if not self.has_batch or spec.shape is None:
            return spec
        if spec.shape == ():
            raise InvalidArgumentError(
                f"{spec} has no batch dimension, so rows cannot feed it; "
                f"give it one value for all rows: {spec.name}=VALUE"
            )
        return replace(spec, shape=spec.shape[1:])

    def _content(self, row: Row) -> dict[str, Any] | OpError:
        """Return the unconverted value of each input of a row, or the row's error."""
        try:
            if isinstance(row.content, OpError):
                return row.content
            return row.content.values(self.row_specs, row.location)
        except OpError as error:
            return error

    def _decode_images(
        self, rows: Sequence[Row], contents: Sequence[dict[str, Any] | OpError]
    ) -> None:
        """Replace the image files in contents by arrays, or by the errors of those files."""
        for name, spec in self._specs.items():
            files = [
                (content, Source(name, "file", row.location), content[name].data)
                for row, content in zip(rows, contents, strict=True)
                if isinstance(content, dict) and isinstance(content.get(name), ImageBytes)
            ]
            if not files:
                continue
            images = [(source, data) for _, source, data in files]
            decoded = image_arrays(images, spec, self._images)
            for (content, _, _), array in zip(files, decoded, strict=True):
                content[name] = array if isinstance(array, OpError) else _Decoded(array)

    def _values(self, row: Row, content: dict[str, Any] | OpError) -> dict[str, Array]:
        if isinstance(content, OpError):
            raise content
        return {name: self._array(name, content[name], row) for name in self._specs}

    def _array(self, name: str, value: Any, row: Row) -> Array:
        if isinstance(value, OpError):
            raise value
        if isinstance(value, _Decoded):
            return value.pixels[0] if self.has_batch else value.pixels
        return fit(value, Source(name, "file", row.location), self.row_specs[name])

    def _stack(self, arrays: list[Array]) -> Array:
        return np.stack(arrays) if self.has_batch else arrays[0]


def _check_shapes(values: dict[str, Array], others: list[dict[str, Array]], row: Row) -> None:
    """Raise if the shape of an input with unknown sizes differs from that in the rows before."""
    if not others:
        return
    for name, array in values.items():
        expected = others[0][name].shape
        if array.shape != expected:
            error = InvalidArgumentError(
                f"{row.location}: input {name!r} has shape {list(array.shape)}, but the rows "
                f"before it in its batch have {list(expected)}"
            )
            error.add_note(
                "try: --batch 1 (batch_size=1), rows of equal shape, or --resize for images"
            )
            raise error
