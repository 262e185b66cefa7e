"""Convert an argument for an input to an array that the model accepts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from graphmill.errors import InvalidArgumentError
from graphmill.inputs import image_files, input_files
from graphmill.inputs.input_spec import show_shape
from graphmill.inputs.literals import evaluate

if TYPE_CHECKING:
    from collections.abc import Iterable

    from graphmill.inputs.image_input import ImageOptions
    from graphmill.inputs.input_spec import InputSpec
    from graphmill.inputs.source import Source

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

_MAX_SHOWN: Final = 60  # characters of a value in a message


def load(source: Source, spec: InputSpec, images: ImageOptions | None = None) -> Array:
    """Return the array for one input, in the dtype and rank that the model accepts.

    A missing batch dimension is added. `image_array` converts images; for an input of strings,
    the value is the bytes of the image file.

    Raises:
        InvalidArgumentError: the value does not fit the input's type, dtype or shape.
        NotFoundError: the file, or the key in it, does not exist.
    """
    if source.kind == "file":
        return _from_file(source, spec, images)
    if source.kind == "examples":
        from graphmill.inputs.tf_examples import serialized_examples

        return fit(serialized_examples(_examples(source), source.name), source, spec)
    return fit(_literal(source, spec), source, spec)


def _examples(source: Source) -> Any:
    """Return the dicts of `--input_examples`, from the argument or from a JSON file."""
    if not source.text.startswith("@"):
        return evaluate(source.text)
    file = replace(source, kind="file", text=source.text[1:])
    return input_files.read_value(file, input_files.read_bytes(file.text))


def fit(value: Any, source: Source, spec: InputSpec) -> Array:
    """Return a value as an array of the input's dtype; add dimensions of size 1 that are missing.

    They are the batch dimension, and the last one of an input with one value in each row: a text
    model takes its texts as a column.
    """
    array = _cast(_as_array(value, source, spec), source, spec)
    rows = array.reshape(*array.shape, 1)
    for candidate in (array, array[np.newaxis], rows, rows[np.newaxis]):
        if spec.takes(candidate.shape):
            return candidate
    raise InvalidArgumentError(
        f"{source} has shape {show_shape(array.shape)}, but {spec.name!r} accepts "
        f"{show_shape(spec.shape)}"
    )


def _from_file(source: Source, spec: InputSpec, images: ImageOptions | None) -> Array:
    is_image = input_files.suffix_of(source) in image_files.SUFFIXES
    data = input_files.read_bytes(source.text)
    if not is_image:
        return fit(input_files.read_value(source, data), source, spec)
    if spec.is_text:
        return fit(data, source, spec)
    from graphmill.inputs.image_input import image_array

    return image_array(source, data, spec, images)


def _literal(source: Source, spec: InputSpec) -> Any:
    """Return the value of a literal; for a string input, text that does not parse is a string."""
    try:
        return evaluate(source.text)
    except InvalidArgumentError as error:
        if spec.is_text and source.kind == "literal":
            return source.text
        if source.text.lower().endswith(input_files.SUFFIXES):
            error.add_note(f"try: {source.name}=@{source.text}, if it is a file")
        raise


def _as_array(value: Any, source: Source, spec: InputSpec) -> Array:
    if isinstance(value, input_files.Lines):
        value = list(value) if spec.is_text else _numbers(value, source)
    if isinstance(value, bytes):  # NumPy would strip trailing zero bytes
        return _text([value], (), source)
    try:
        array = np.asarray(value, object if spec.is_text else None)
    except (ValueError, TypeError, OverflowError) as error:
        raise InvalidArgumentError(
            f"{source} is not an array for input {source.name!r}: {error}"
        ) from error
    if array.dtype.kind in "US" or spec.is_text:
        return _text(array.reshape(-1).tolist(), array.shape, source)
    if array.dtype == object and (large := _large_integer(array)) is not None:
        raise InvalidArgumentError(f"{source} has {_shown(large)}, which does not fit {spec}")
    if array.dtype.kind not in "fiubc":
        raise InvalidArgumentError(f"{source} for input {source.name!r} does not contain numbers")
    return array


def _large_integer(array: Array) -> int | None:
    """Return an element that only Python's integers hold; None if all are others."""
    return next((item for item in array.flat if type(item) is int and abs(item) >= 2**63), None)


def _numbers(lines: list[str], source: Source) -> Any:
    """Parse lines of text as numbers: a scalar, a row, a column or a table."""
    rows = [line.replace(",", " ").split() for line in lines if line.strip()]
    try:
        table = [[_number(word) for word in row] for row in rows]
    except ValueError as error:
        raise InvalidArgumentError(
            f"{source} contains text that is not a number: {error}"
        ) from error
    if len(table) == 1:
        return table[0] if len(table[0]) > 1 else table[0][0]
    return [row[0] for row in table] if all(len(row) == 1 for row in table) else table


def _number(word: str) -> int | float:
    try:
        return int(word)
    except ValueError:
        return float(word)


def _text(items: Iterable[object], shape: tuple[int, ...], source: Source) -> Array:
    """Return a string tensor: an object array of bytes."""
    result = np.empty(shape, dtype=object)
    flat = result.reshape(-1)
    for index, item in enumerate(items):
        if isinstance(item, str):
            flat[index] = _encoded(item, source)
        elif isinstance(item, bytes):
            flat[index] = item
        else:
            error = InvalidArgumentError(
                f"input {source.name!r} accepts strings, but {source} has {type(item).__name__}"
            )
            if isinstance(item, dict):
                error.add_note(
                    f"try: --input_examples '{source.name}=[{{...}}]', if the model parses "
                    "tf.Examples with these features"
                )
            raise error
    return result


def _encoded(text: str, source: Source) -> bytes:
    """Return a text in UTF-8, with the bytes of a file that were not UTF-8 as they were."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise InvalidArgumentError(
            f"{source} has the character {text[error.start]!a}, half of a surrogate pair, which no "
            "text has alone"
        ) from error


def _cast(array: Array, source: Source, spec: InputSpec) -> Array:
    """Return the array in the input's dtype; raise if that would lose more than precision."""
    if spec.dtype is None or (spec.is_text and array.dtype == object):
        return array
    target = spec.dtype.base_dtype
    if array.dtype.kind == "c" and not target.is_complex:
        if array.imag.any():
            raise _misfit(array, array[array.imag != 0][0], source, spec)
        array = array.real
    if array.dtype != object:
        with np.errstate(all="ignore"):
            cast = array.astype(target.as_numpy_dtype)
        widens = target.is_complex or target.is_floating
        differs = cast.astype(array.dtype) != array
        if widens or not differs.any():
            return cast
        value = array[differs][0]
    else:
        value = next(iter(array.flat), b"")
    raise _misfit(array, value, source, spec)


def _misfit(array: Array, value: Any, source: Source, spec: InputSpec) -> InvalidArgumentError:
    """Return the error for an array with an element that the input's dtype cannot represent."""
    actual = "string" if array.dtype == object else array.dtype.name
    shown = _shown(value if isinstance(value, bytes) else value.item())
    return InvalidArgumentError(f"{source} is {actual}, which does not fit {spec}: it has {shown}")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _MAX_SHOWN else text[: _MAX_SHOWN - 3] + "..."
