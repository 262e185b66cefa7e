"""Parse the rows of each file format into values of a model's inputs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill.errors import InvalidArgumentError, suggest
from graphmill.inputs import image_files, input_files

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from graphmill.inputs.input_spec import InputSpec

_MAX_SHOWN: Final = 200
"""Maximum number of characters of a malformed value that an error shows."""

_MAX_NAMES: Final = 12
"""Maximum number of names that a message lists."""
_BOOLEANS: Final = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class ImageBytes:
    """An image file for an input of pixels, which `image_array` decodes."""

    data: bytes


@dataclass(frozen=True, slots=True)
class WholeFile:
    """A file that is one row: an image, or a text file as one text."""

    path: str

    def values(self, specs: Mapping[str, InputSpec], location: str) -> dict[str, Any]:
        """Return the file's content for the only input."""
        name, spec = only_input(specs, location)
        data = input_files.read_bytes(self.path)
        if not data:
            raise InvalidArgumentError(f"{location} is empty, expected an image, text or numbers")
        if self.path.lower().endswith(image_files.SUFFIXES):
            return {name: data if spec.is_text else ImageBytes(data)}
        return {name: data if spec.is_text else _numbers(data.decode("latin-1").split(), location)}


@dataclass(frozen=True, slots=True)
class TextLine:
    """A line of a text file: a text, or numbers with spaces or commas between them."""

    line: str

    def values(self, specs: Mapping[str, InputSpec], location: str) -> dict[str, Any]:
        """Return the line for the only input."""
        name, spec = only_input(specs, location)
        if spec.is_text:
            return {name: self.line}
        return {name: _numbers(self.line.replace(",", " ").split(), location)}


@dataclass(frozen=True, slots=True)
class Members:
    """A row as a JSON or Python value: an object with a member for each input, or one value."""

    value: Any

    def values(self, specs: Mapping[str, InputSpec], location: str) -> dict[str, Any]:
        """Return the member for each input; further members are ignored."""
        if not isinstance(self.value, dict):
            return {only_input(specs, location)[0]: self.value}
        only = len(specs) == 1
        return {
            name: _member(self.value, name, location, spec if only else None)
            for name, spec in specs.items()
        }


@dataclass(frozen=True, slots=True)
class JsonText:
    """A line of a JSON Lines file."""

    line: str

    def values(self, specs: Mapping[str, InputSpec], location: str) -> dict[str, Any]:
        """Parse the line, and return the member for each input."""
        try:
            value = json.loads(self.line)
        except (ValueError, RecursionError) as error:
            raise InvalidArgumentError(f"{location} is not JSON: {error}") from error
        return Members(value).values(specs, location)


@dataclass(frozen=True, slots=True)
class Record:
    """A record of a TFRecord file: a `tf.Example`, or bytes for a string input."""

    data: bytes

    def values(self, specs: Mapping[str, InputSpec], location: str) -> dict[str, Any]:
        """Return the features that the inputs name, or the record for the only string input."""
        features = _features(self.data)
        if len(specs) == 1:
            name, spec = next(iter(specs.items()))
            if spec.is_text and (features is None or name not in features):
                return {name: self.data}
            if features is not None and len(features) == 1 and name not in features:
                (values,) = features.values()
                return {name: _in_row_shape(values, spec)}
        if features is None:
            raise InvalidArgumentError(f"{location} is not a tf.Example")
        return {
            name: _in_row_shape(_member(features, name, location), spec)
            for name, spec in specs.items()
        }


@dataclass(frozen=True, slots=True)
class Columns:
    """Which columns of a table belong to each input.

    Attributes:
        names: the columns that the header names.
        of_input: the indices of its columns for each input.
        is_vector: the inputs whose columns are elements of a row, rather than one cell.
    """

    names: tuple[str, ...]
    of_input: Mapping[str, tuple[int, ...]]
    is_vector: Collection[str]

    @property
    def unused(self) -> list[str]:
        """The columns that no input takes."""
        used = {index for indices in self.of_input.values() for index in indices}
        return [name for index, name in enumerate(self.names) if index not in used]


def choose_columns(
    header: Sequence[str], specs: Mapping[str, InputSpec], chosen: Sequence[str], location: str
) -> Columns:
    """Return the columns of each input.

    An input takes the column with its name, or the columns `NAME[0]`, `NAME[1]`, … The only input
    of a model takes all columns as one row if none has such a name.

    Args:
        header: the names of the columns.
        specs: the inputs.
        chosen: the columns that the only input takes; empty to choose by name.
        location: the header, for messages.

    Raises:
        InvalidArgumentError: the header has a name twice, or an input has no column.
    """
    positions = {name: index for index, name in enumerate(header)}
    if len(positions) < len(header):
        twice = next(name for index, name in enumerate(header) if positions[name] != index)
        raise InvalidArgumentError(f"{location}: the header has column {twice!r} twice")
    if chosen:
        name, _ = only_input(specs, location)
        indices = tuple(_column(positions, column, location) for column in chosen)
        return Columns(tuple(header), {name: indices}, {name} if len(chosen) > 1 else ())
    of_input: dict[str, tuple[int, ...]] = {}
    vectors = set()
    for name in specs:
        if name in positions:
            of_input[name] = (positions[name],)
        elif f"{name}[0]" in positions:
            of_input[name] = _elements(positions, name)
            vectors.add(name)
        elif len(specs) == 1:
            of_input[name] = tuple(range(len(header)))
            vectors |= {name} if len(header) > 1 else set()
        else:
            error = InvalidArgumentError(
                f"{location}: no column is named {name!r}{suggest(name, header)}; "
                f"the columns are {_listed(header)}"
            )
            raise _with_vector_note(_with_separator_note(error, header), specs[name])
    return Columns(tuple(header), of_input, vectors)


@dataclass(frozen=True, slots=True)
class Cells:
    """A row of a table."""

    columns: Columns
    cells: Sequence[str]

    def values(self, specs: Mapping[str, InputSpec], location: str) -> dict[str, Any]:
        """Return the cells of each input."""
        if len(self.cells) != len(self.columns.names):
            raise InvalidArgumentError(
                f"{location} has {len(self.cells)} columns, but the header has "
                f"{len(self.columns.names)}"
            )
        return {name: self._value(name, spec, location) for name, spec in specs.items()}

    def _value(self, name: str, spec: InputSpec, location: str) -> Any:
        indices = self.columns.of_input[name]
        cells = [self.cells[index] for index in indices]
        is_vector = name in self.columns.is_vector
        if is_vector and spec.shape == () and len(cells) > 1:
            raise _too_many_columns(name, self.columns.names, location)
        if spec.is_text:
            return cells if is_vector else cells[0]
        if not is_vector and cells[0].lstrip().startswith("["):
            return JsonText(cells[0]).values({name: spec}, location)[name]
        for index, cell in zip(indices, cells, strict=True):
            if not cell.strip():
                raise InvalidArgumentError(
                    f"{location}: column {self.columns.names[index]!r} is empty, expected a number"
                )
        numbers = _numbers(cells, location)
        return [numbers] if is_vector and len(cells) == 1 else numbers


@dataclass(frozen=True, slots=True)
class Arrays:
    """An element of arrays in a `.npy` or `.npz` file, by input."""

    arrays: Mapping[str, np.ndarray[Any, Any]]

    def values(self, specs: Mapping[str, InputSpec], location: str) -> dict[str, Any]:
        """Return the array of each input."""
        return {name: _member(self.arrays, name, location) for name in specs}


def only_input(specs: Mapping[str, InputSpec], location: str) -> tuple[str, InputSpec]:
    """Return the model's only input, for a row that does not name inputs.

    Raises:
        InvalidArgumentError: there are several.
    """
    if len(specs) == 1:
        return next(iter(specs.items()))
    error = InvalidArgumentError(
        f"{location} does not name inputs, but the model has several: {_listed(specs)}"
    )
    error.add_note(
        "try: NAME=VALUE for those that are the same for all rows, or a .csv or .jsonl file"
    )
    raise error


def _member(
    members: Mapping[str, Any], name: str, location: str, spec: InputSpec | None = None
) -> Any:
    if name in members:
        return members[name]
    error = InvalidArgumentError(
        f"{location} has no value for input {name!r}{suggest(name, members)}; "
        f"it has {_listed(members)}"
    )
    if spec is not None and spec.is_text:
        error.add_note(
            "try: a .tfrecord file, if the model parses tf.Examples with these features; or one "
            "step with --input_examples"
        )
    raise error


def _too_many_columns(name: str, columns: Sequence[str], location: str) -> InvalidArgumentError:
    error = InvalidArgumentError(
        f"{location} has the columns {_listed(columns)}, but a row of input {name!r} is one value"
    )
    error.add_note(f"try: --columns NAME (columns=), with one of the columns, or name it {name!r}")
    return error


def _column(positions: Mapping[str, int], name: str, location: str) -> int:
    if name not in positions:
        error = InvalidArgumentError(
            f"{location}: there is no column {name!r}{suggest(name, positions)}; "
            f"the columns are {_listed(positions)}"
        )
        raise _with_separator_note(error, list(positions))
    return positions[name]


def _elements(positions: Mapping[str, int], name: str) -> tuple[int, ...]:
    indices: list[int] = []
    while (index := positions.get(f"{name}[{len(indices)}]")) is not None:
        indices.append(index)
    return tuple(indices)


def _numbers(words: Sequence[str], location: str) -> Any:
    """Return the only number, or a list of numbers."""
    try:
        numbers = [_number(word) for word in words]
    except ValueError as cause:
        error = InvalidArgumentError(
            f"{location} contains text that is not a number: {cause!s:.{_MAX_SHOWN}}"
        )
        raise _with_separator_note(error, words) from None
    if not numbers:
        raise InvalidArgumentError(f"{location} is empty, expected numbers")
    return numbers[0] if len(numbers) == 1 else numbers


def _with_separator_note(error: InvalidArgumentError, cells: Sequence[str]) -> InvalidArgumentError:
    """Return an error with advice if cells contain the separator of another format."""
    for separator, name in ((";", "semicolons"), ("\t", "tabs")):
        if any(separator in cell for cell in cells):
            error.add_note(
                f"try: a file whose columns are separated by commas, or by tabs in a .tsv; these "
                f"look separated by {name}"
            )
            return error
    return error


def _with_vector_note(error: InvalidArgumentError, spec: InputSpec) -> InvalidArgumentError:
    """Return an error without advice with the columns that a vector may have."""
    if spec.shape and tuple(spec.shape) != (1,) and not hasattr(error, "__notes__"):
        name = spec.name
        error.add_note(
            f"try: columns {name}[0], {name}[1] and so on for the elements of each row, or a "
            f"column {name} with cells such as [1, 2]"
        )
    return error


def _number(word: str) -> float | bool:
    try:
        return int(word)
    except ValueError:
        boolean = _BOOLEANS.get(word.strip().lower())
        return float(word) if boolean is None else boolean


def _features(data: bytes) -> dict[str, Any] | None:
    """Return the features of a serialized `tf.Example`; None if the bytes are not one."""
    from google.protobuf.message import DecodeError

    from graphmill.proto.example_pb2 import Example

    try:
        example = Example.FromString(data)
    except DecodeError:
        return None
    features = {}
    for name, feature in example.features.feature.items():
        kind = feature.WhichOneof("kind")
        features[name] = list(getattr(feature, kind).value) if kind else []
    return features or None


def _in_row_shape(values: list[Any], spec: InputSpec) -> Any:
    """Return a feature's values in the shape of a row if they fill it, else as they are."""
    if spec.shape is None or len(spec.shape) == 1:
        return values
    if not spec.shape and len(values) == 1:
        return values[0]
    unknown = sum(size < 0 for size in spec.shape)
    if spec.is_text or unknown > 1 or not spec.shape:
        return values
    try:
        return np.asarray(values).reshape(spec.shape)
    except ValueError:
        return values  # `fit` reports the shapes


def _listed(names: Collection[str]) -> str:
    shown = [repr(name) for _, name in zip(range(_MAX_NAMES), names, strict=False)]
    more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
    return (", ".join(shown) or "nothing") + more
