"""Remap the rows and columns of a checkpoint's matrix when a vocabulary has changed.

Semantics: tensorflow/core/kernels/load_and_remap_matrix_op.cc, generate_vocab_remapping_op.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphmill import dtypes, errors
from graphmill.spi import files, kernel
from graphmill.spi.checkpoints import BundleReader, TensorSlice
from graphmill_plugins.kernels._path_strings import scalar_path, sole_text
from graphmill_plugins.kernels._support import check_size, shape_text
from graphmill_plugins.kernels.lookup.text_file import read_lines

if TYPE_CHECKING:
    from graphmill.spi import Value
    from graphmill.spi.files import Broker


@kernel("GenerateVocabRemapping", host=True, expensive=True, effects=("fs.read",), brokered=True)
def generate_vocab_remapping(
    new_vocab_file: Value,
    old_vocab_file: Value,
    new_vocab_offset: int,
    num_new_vocab: int,
    old_vocab_size: int,
    *,
    broker: Broker,
) -> tuple[Value, Value]:
    """Return the old index of each word in a slice of a new vocabulary, and the number with one.

    Words that the old vocabulary lacks get -1.

    Raises:
        FailedPreconditionError: the old vocabulary has a word on several lines.
        InvalidArgumentError: a path is empty, the new vocabulary is too small for the slice, or a
            file has an empty line.
        NotFoundError: a file does not exist.
        OutOfRangeError: a vocabulary is empty.
    """
    new = _vocabulary(new_vocab_file, "new_vocab_file", -1, broker)
    if new_vocab_offset + num_new_vocab > len(new):
        raise errors.InvalidArgumentError(
            f"the new vocabulary has {len(new)} words; words {new_vocab_offset} to "
            f"{new_vocab_offset + num_new_vocab} were requested"
        )
    old = _vocabulary(old_vocab_file, "old_vocab_file", old_vocab_size, broker)
    lines = {word: line for line, word in enumerate(old)}
    if len(lines) < len(old):
        raise errors.FailedPreconditionError(
            "a word of the old vocabulary is on several lines, so its index is not unique"
        )
    words = new[new_vocab_offset : new_vocab_offset + num_new_vocab]
    remapping = np.fromiter((lines.get(word, -1) for word in words), np.int64, len(words))
    return remapping, np.array(np.count_nonzero(remapping != -1), np.int32)


def _vocabulary(path: Value, what: str, size: int, broker: Broker) -> list[bytes]:
    """Return the lines of a vocabulary file, the first `size` of them unless it is -1."""
    text = scalar_path(path, what)
    if not text:
        raise errors.InvalidArgumentError(f"{what} must not be empty")
    lines = read_lines(text, size, 0, broker)
    if not lines:
        raise errors.OutOfRangeError(f"{what} {text} has no lines to read")
    return lines


@kernel("LoadAndRemapMatrix", host=True, expensive=True, effects=("fs.read",), brokered=True)
def load_and_remap_matrix(
    ckpt_path: Value,
    old_tensor_name: Value,
    row_remapping: Value,
    col_remapping: Value,
    initializing_values: Value,
    num_rows: int,
    num_cols: int,
    max_rows_in_memory: int,
    *,
    broker: Broker,
) -> Value:
    """Return a matrix of a checkpoint with its rows and columns moved to new positions.

    A remapping has the old position of each new one, or -1 for a position that takes the next of
    the initializing values. Without a column remapping the columns stay.

    Raises:
        InvalidArgumentError: a remapping has a wrong size, the tensor is no float32 matrix, or the
            number of initializing values is not that of the missing elements.
        InternalError: a remapping has a row that the tensor does not have.
        NotFoundError: the checkpoint or the tensor does not exist.
        UnimplementedError: a remapping has an old position twice.
    """
    if row_remapping.ndim != 1:
        raise errors.InvalidArgumentError(
            f"row_remapping must be a vector, got shape {shape_text(row_remapping.shape)}"
        )
    _check_remapping(row_remapping, num_rows, "row_remapping", "num_rows")
    has_columns = col_remapping.size > 0
    if has_columns:
        _check_remapping(col_remapping, num_cols, "col_remapping", "num_cols")
    path = files.as_path(sole_text(ckpt_path, "ckpt_path"))
    name = sole_text(old_tensor_name, "old_tensor_name")
    check_size((num_rows, num_cols), "the matrix", itemsize=4)
    out = np.zeros((num_rows, num_cols), np.float32)
    is_missing = np.broadcast_to(row_remapping[:, None] < 0, out.shape)
    if has_columns:
        is_missing = is_missing | (col_remapping < 0)
    with BundleReader(path, broker=broker) as reader:
        columns = _check_matrix(reader, name, None if has_columns else num_cols)
        _copy(reader, name, out, row_remapping, col_remapping, columns, max_rows_in_memory)
    _initialize(out, is_missing, initializing_values)
    return out


def _check_remapping(remapping: Value, size: int, what: str, attr: str) -> None:
    """Check the size of a remapping, and that its old positions are unique."""
    if remapping.shape != (size,):
        raise errors.InvalidArgumentError(
            f"{what} must have {attr} = {size} elements, got shape {shape_text(remapping.shape)}"
        )
    positions, counts = np.unique(remapping[remapping >= 0], return_counts=True)
    if counts.max(initial=1) > 1:
        raise errors.UnimplementedError(
            f"old position {positions[counts.argmax()]} is in {what} more than once, which is not "
            "supported"
        )


def _check_matrix(reader: BundleReader, name: str, num_cols: int | None) -> int:
    """Return the number of columns of a tensor after checking that it is a float32 matrix."""
    entry = reader.entry(name)
    if entry.dtype is not dtypes.float32:
        raise errors.InvalidArgumentError(
            f"tensor {name} has type {entry.dtype.name}, expected float32"
        )
    if len(entry.shape) != 2:
        raise errors.InvalidArgumentError(
            f"tensor {name} has shape {shape_text(entry.shape)}, expected a matrix"
        )
    if num_cols is not None and entry.shape[1] != num_cols:
        raise errors.InvalidArgumentError(
            f"tensor {name} has {entry.shape[1]} columns, expected num_cols = {num_cols} because "
            "there is no column remapping"
        )
    return entry.shape[1]


def _copy(
    reader: BundleReader,
    name: str,
    out: Value,
    rows: Value,
    cols: Value,
    columns: int,
    max_rows: int,
) -> None:
    """Copy the remapped rows into `out`, reading at most `max_rows` at once if it is positive."""
    new_rows = np.flatnonzero(rows >= 0)
    if not new_rows.size:
        return
    old_rows = rows[new_rows]
    source, target = np.arange(columns), np.arange(columns)
    if cols.size:
        target = np.flatnonzero((cols >= 0) & (cols < columns))
        source = cols[target]
    first, last = int(old_rows.min()), int(old_rows.max())
    length = max_rows if max_rows > 0 else last - first + 1
    for start in range(first, last + 1, length):
        count = min(length, last + 1 - start)
        part = reader.read_slice(name, TensorSlice(((start, count), (0, columns))))
        is_read = (old_rows >= start) & (old_rows < start + count)
        values = part[old_rows[is_read] - start][:, source]
        out[np.ix_(new_rows[is_read], target)] = values


def _initialize(out: Value, is_missing: Value, values: Value) -> None:
    """Fill the missing elements of `out`, row by row."""
    missing = int(np.count_nonzero(is_missing))
    if missing != values.size:
        raise errors.InvalidArgumentError(
            f"initializing_values has {values.size} elements, but {missing} are missing in the "
            "remapped matrix"
        )
    out[is_missing] = values.reshape(-1)
