"""DecodeCSV: split CSV records into columns.

Semantics: tensorflow/core/kernels/decode_csv_op.cc (RFC 4180, except for line ends).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.dtypes import as_dtype
from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill.spi.kernels import cancellable, check_cancelled
from graphmill_plugins.kernels._strings import decode, encode, string_array
from graphmill_plugins.kernels._support import shape_text
from graphmill_plugins.kernels.parsing._csv_records import records_of_one_width
from graphmill_plugins.kernels.parsing._decimals import MAX_SCALAR_PARSES
from graphmill_plugins.kernels.parsing.number import parse_numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from graphmill.spi import Value

_LINE_ENDS = b"\n\r"


@kernel("DecodeCSV", make=True, host=True)
def decode_csv(
    OUT_TYPE: Sequence[np.dtype[Any]],
    field_delim: str,
    use_quote_delim: bool,
    na_value: str,
    select_cols: Sequence[int],
) -> Callable[..., list[Value]]:
    """Return one tensor per column; missing fields have the column's default value."""
    delimiter = encode(field_delim)
    if len(delimiter) != 1:
        raise InvalidArgumentError(f"field_delim should be only 1 char, got {field_delim!r}")
    columns = list(select_cols)
    if any(column < 0 for column in columns) or sorted(set(columns)) != columns:
        raise InvalidArgumentError(
            f"select_cols should be strictly increasing indices from 0 on, got {columns}"
        )
    if columns and len(columns) != len(OUT_TYPE):
        raise InvalidArgumentError(
            f"select_cols should match output size: {len(columns)} and {len(OUT_TYPE)}"
        )
    missing = encode(na_value)
    takes_decimals = not any(map(missing.__contains__, b"0123456789"))  # none stands for no value
    parsers = [_parser(dtype) for dtype in OUT_TYPE]

    def decode_records(records: Value, defaults: list[Value]) -> list[Value]:
        for default in defaults:
            if default.ndim > 1 or default.size > 1:
                raise InvalidArgumentError(
                    f"record_defaults must be scalars or vectors of at most one value, "
                    f"got shape {shape_text(default.shape)}"
                )
        items = records.ravel().tolist()
        count = len(OUT_TYPE)
        even = records_of_one_width(items, delimiter, use_quote_delim, columns, count)
        check_cancelled()  # for many records, each pass takes long
        complete: dict[int, Value] = {}
        fields: Mapping[int, list[bytes]] = {}
        if even is not None and takes_decimals and len(items) * count > MAX_SCALAR_PARSES:
            complete = even.decimal_columns(OUT_TYPE)
        if len(complete) < count:
            if even is None:
                fields = dict(
                    enumerate(_columns(items, delimiter, use_quote_delim, columns, count))
                )
            else:
                fields = even.fields(index for index in range(count) if index not in complete)
            check_cancelled()
            complete |= _complete_columns(fields, OUT_TYPE, missing, complete)
        return [
            complete[index].reshape(records.shape)
            if index in complete
            else _column(
                index, fields[index], parsers[index], defaults[index], missing, records.shape
            )
            for index in range(count)
        ]

    return decode_records


def _columns(
    records: list[bytes], delimiter: bytes, use_quotes: bool, columns: list[int], count: int
) -> list[list[bytes]]:
    """Return the fields of each column.

    Raises:
        InvalidArgumentError: a record is malformed, or has another number of fields.
    """
    rows = [csv_fields(record, delimiter, use_quotes, columns) for record in cancellable(records)]
    for index, row in enumerate(rows):
        if len(row) != count:
            raise InvalidArgumentError(
                f"Expect {count} fields but have {len(row)} in record {index}"
            )
    return [[row[index] for row in rows] for index in range(count)]


def _parser(dtype: np.dtype[Any]) -> Callable[[list[bytes]], Value]:
    return string_array if dtype.kind == "O" else partial(parse_numbers, dtype=dtype)


def _complete_columns(
    fields: Mapping[int, list[bytes]],
    types: Sequence[np.dtype[Any]],
    missing: bytes,
    known: Collection[int],
) -> dict[int, Value]:
    """Parse columns of numbers without missing fields, those of one type in one call.

    Returns the columns by index, without the known ones; those of a type are absent if one of their
    fields is not a number.
    """
    by_type: dict[np.dtype[Any], list[int]] = {}
    for index, dtype in enumerate(types):
        if index in known or dtype.kind == "O":
            continue
        if b"" not in fields[index] and missing not in fields[index]:
            by_type.setdefault(dtype, []).append(index)
    columns: dict[int, Value] = {}
    for dtype, indices in by_type.items():
        check_cancelled()
        try:
            values = parse_numbers([item for i in indices for item in fields[i]], dtype=dtype)
        except InvalidArgumentError:
            continue  # `_column` reports the field
        columns.update(zip(indices, values.reshape(len(indices), -1), strict=True))
    return columns


def _column(
    index: int,
    fields: list[bytes],
    parser: Callable[[list[bytes]], Value],
    default: Value,
    missing: bytes,
    shape: tuple[int, ...],
) -> Value:
    check_cancelled()
    if b"" not in fields and missing not in fields:
        try:
            return parser(fields).reshape(shape)
        except InvalidArgumentError:
            pass  # reported below
    is_missing = [not field or field == missing for field in cancellable(fields)]
    if any(is_missing) and not default.size:
        raise InvalidArgumentError(
            f"Field {index} is required but missing in record {is_missing.index(True)}!"
        )
    result = np.empty(len(fields), default.dtype)
    present = [field for field, skip in zip(fields, is_missing, strict=True) if not skip]
    is_present = ~np.array(is_missing, bool)
    try:
        result[is_present] = parser(present)
    except InvalidArgumentError:
        raise InvalidArgumentError(_bad_field(index, fields, is_missing, parser, default)) from None
    if any(is_missing):
        result[~is_present] = default.ravel()[0]
    return result.reshape(shape)


def _bad_field(
    column: int, fields: list[bytes], is_missing: list[bool], parser: Any, default: Value
) -> str:
    for record, (field, skip) in enumerate(cancellable(zip(fields, is_missing, strict=True))):
        if skip:
            continue
        try:
            parser([field])
        except InvalidArgumentError:
            name = as_dtype(default.dtype).name
            text = decode(field)[:100]
            return f"Field {column} in record {record} is not a valid {name}: {text}"
    return f"Field {column} has a malformed value"


def csv_fields(
    record: bytes, delimiter: bytes, use_quotes: bool, columns: Sequence[int] = ()
) -> list[bytes]:
    """Return the fields of a record, or those of the selected columns.

    Raises:
        InvalidArgumentError: a quote or line end is misplaced.
    """
    fields: list[bytes] = []
    position = column = 0
    while position < len(record):
        if record[position] in _LINE_ENDS:
            position += 1
            continue
        if use_quotes and record[position] == 0x22:
            field, position = _quoted(record, position + 1, delimiter)
        else:
            field, position = _plain(record, position, delimiter, use_quotes)
        if not columns or column in columns:
            fields.append(field)
            if columns and len(fields) == len(columns):
                return fields
        column += 1
    if record.endswith(delimiter) and (not columns or column in columns):
        fields.append(b"")
    return fields


def _plain(record: bytes, start: int, delimiter: bytes, use_quotes: bool) -> tuple[bytes, int]:
    end = record.find(delimiter, start)
    end = len(record) if end < 0 else end
    field = record[start:end]
    if (use_quotes and b'"' in field) or b"\n" in field or b"\r" in field:
        raise InvalidArgumentError("Unquoted fields cannot have quotes/CRLFs inside")
    return field, end + 1


def _quoted(record: bytes, start: int, delimiter: bytes) -> tuple[bytes, int]:
    parts = []
    while True:
        quote = record.find(b'"', start)
        if quote < 0:
            raise InvalidArgumentError(
                "Quoted field has to end with quote followed by delim or end"
            )
        parts.append(record[start:quote])
        following = record[quote + 1 : quote + 2]
        if not following or following == delimiter:
            return b"".join(parts), quote + 2
        if following != b'"':
            raise InvalidArgumentError("Quote inside a string has to be escaped by another quote")
        parts.append(b'"')
        start = quote + 2
