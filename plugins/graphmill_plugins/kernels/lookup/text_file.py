"""InitializeTableFromTextFile: initialize a table from a text file.

Semantics: tensorflow/core/kernels/lookup_util.cc, TextFileLineIterator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import dtypes, errors
from graphmill.spi import kernel
from graphmill_plugins.kernels._path_strings import scalar_path
from graphmill_plugins.kernels._strings import decode
from graphmill_plugins.kernels.lookup.ops import initializable

if TYPE_CHECKING:
    from graphmill.spi import OpKernelContext, Value
    from graphmill.spi.files import Broker

_WHOLE_LINE, _LINE_NUMBER = -2, -1


_PARSED = (dtypes.int32, dtypes.int64, dtypes.float32, dtypes.float64)


def read_lines(path: str, vocab_size: int, offset: int, broker: Broker) -> list[bytes]:
    """Return `vocab_size` lines of a file (-1: all) after the first `offset` lines.

    Raises:
        InvalidArgumentError: a line is empty, or there are fewer lines than `vocab_size`.
    """
    content = broker.read_bytes(path)
    lines = content.split(b"\n")
    if lines and not lines[-1]:
        lines.pop()
    # As in TensorFlow, only line feeds end a line; carriage returns are removed.
    lines = [line.replace(b"\r", b"") for line in lines[offset:]]
    if vocab_size >= 0:
        if len(lines) < vocab_size:
            raise errors.InvalidArgumentError(
                f"Invalid vocab_size in {path}: expected {vocab_size} but got {len(lines)}"
            )
        lines = lines[:vocab_size]
    for number, line in enumerate(lines):
        if not line:
            raise errors.InvalidArgumentError(
                f"Invalid content in {path}: empty line found at line {number + offset}"
            )
    return lines


def _parse(field: bytes, kind: dtypes.DType, number: int) -> Any:
    if kind is dtypes.string:
        return field
    if kind not in _PARSED:  # TensorFlow aborts the process for some of the other types
        raise errors.InvalidArgumentError(f"Data type {kind.name} not supported.")
    try:
        return kind.as_numpy_dtype.type(field.decode("ascii"))
    except (ValueError, OverflowError):
        raise errors.InvalidArgumentError(
            f"Field {decode(field)} in line {number} is not a valid {kind.tf_name}."
        ) from None


def column(
    lines: list[bytes], index: int, delimiter: bytes, kind: dtypes.DType, path: str
) -> Value:
    """Return the keys or values selected by `index`: line numbers (-1), lines (-2) or a column.

    Raises:
        InvalidArgumentError: a line has too few columns, or a field cannot be parsed as `kind`.
    """
    out = np.empty(len(lines), kind.as_numpy_dtype)
    if index == _LINE_NUMBER:
        if kind is not dtypes.int64:
            raise errors.InvalidArgumentError(
                f"line numbers are int64, but the table expects {kind.name}"
            )
        out[:] = np.arange(len(lines))
        return out
    for number, line in enumerate(lines):
        if index == _WHOLE_LINE:
            out[number] = _parse(line, kind, number)
            continue
        fields = line.split(delimiter)
        if len(fields) <= index:
            raise errors.InvalidArgumentError(
                f"Invalid number of columns in {path} line {number} ({decode(line)[:80]}) : "
                f"expected at least {index + 1} got {len(fields)}"
            )
        out[number] = _parse(fields[index], kind, number)
    return out


@kernel(
    "InitializeTableFromTextFile",
    "InitializeTableFromTextFileV2",
    stateful=True,
    host=True,
    expensive=True,
    effects=("state", "fs.read"),
    brokered=True,
)
def initialize_table_from_text_file(
    ctx: OpKernelContext,
    table_handle: Any,
    filename: Value,
    key_index: int,
    value_index: int,
    vocab_size: int,
    delimiter: str,
    offset: int,
    *,
    broker: Broker,
) -> None:
    """Initialize a table from the lines of a text file."""
    if len(delimiter) != 1:
        raise errors.InvalidArgumentError(f"delimiter should be only 1 char, got {delimiter!r}")
    table = initializable(ctx, table_handle)
    path = scalar_path(filename, "filename")
    lines = read_lines(path, vocab_size, offset, broker)
    separator = delimiter.encode()
    table.initialize(
        column(lines, key_index, separator, table.key_dtype, path),
        column(lines, value_index, separator, table.value_dtype, path),
    )
