"""DecodeCSV: split CSV records into columns.

Semantics: tensorflow/core/kernels/decode_csv_op.cc (RFC 4180, with its own rules for line ends).
"""

from __future__ import annotations

from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.dtypes import as_dtype
from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill_plugins.kernels._strings import decode, encode, string_array
from graphmill_plugins.kernels._support import shape_text
from graphmill_plugins.kernels.parsing.number import numbers_in

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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
    """Make one tensor of each column; a field that is missing has the column's default value."""
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
    parsers = [_parser(dtype) for dtype in OUT_TYPE]

    def decode_records(records: Value, defaults: list[Value]) -> list[Value]:
        for default in defaults:
            if default.ndim > 1 or default.size > 1:
                raise InvalidArgumentError(
                    f"each of record_defaults should be a scalar, or a vector of one or no value; "
                    f"got shape {shape_text(default.shape)}"
                )
        items = records.ravel().tolist()
        fields = _plain_columns(items, delimiter, use_quote_delim, columns, len(OUT_TYPE))
        if fields is None:
            rows = [csv_fields(item, delimiter, use_quote_delim, columns) for item in items]
            for index, row in enumerate(rows):
                if len(row) != len(OUT_TYPE):
                    raise InvalidArgumentError(
                        f"Expect {len(OUT_TYPE)} fields but have {len(row)} in record {index}"
                    )
            fields = [[row[place] for row in rows] for place in range(len(OUT_TYPE))]
        return [
            _column(place, *column, missing, records.shape)
            for place, column in enumerate(zip(fields, parsers, defaults, strict=True))
        ]

    return decode_records


def _plain_columns(
    records: list[bytes], delimiter: bytes, use_quotes: bool, columns: list[int], count: int
) -> list[list[bytes]] | None:
    """Return the fields column by column if no record has quotes or line ends, or else None.

    All records have as many fields, `count` of them if no columns are chosen.
    """
    text = delimiter.join(records)
    if b"\n" in text or b"\r" in text or (use_quotes and b'"' in text) or b"" in records:
        return None
    numbers = set(map(bytes.count, records, repeat(delimiter)))
    if len(numbers) != 1:
        return None
    width = numbers.pop() + 1
    wanted = columns or range(width)
    if len(wanted) != count or max(wanted, default=0) >= width:
        return None
    flat = text.split(delimiter)
    return [flat[column::width] for column in wanted]


def _parser(dtype: np.dtype[Any]) -> Callable[[list[bytes]], Value]:
    return string_array if dtype.kind == "O" else partial(numbers_in, dtype=dtype)


def _column(
    place: int,
    fields: list[bytes],
    parser: Callable[[list[bytes]], Value],
    default: Value,
    missing: bytes,
    shape: tuple[int, ...],
) -> Value:
    if b"" not in fields and missing not in fields:
        try:
            return parser(fields).reshape(shape)
        except InvalidArgumentError:
            pass  # reported below
    given = [not field or field == missing for field in fields]
    if any(given) and not default.size:
        raise InvalidArgumentError(
            f"Field {place} is required but missing in record {given.index(True)}!"
        )
    result = np.empty(len(fields), default.dtype)
    there = [field for field, is_missing in zip(fields, given, strict=True) if not is_missing]
    is_there = ~np.array(given, bool)
    try:
        result[is_there] = parser(there)
    except InvalidArgumentError:
        raise InvalidArgumentError(_bad_field(place, fields, given, parser, default)) from None
    if any(given):
        result[~is_there] = default.ravel()[0]
    return result.reshape(shape)


def _bad_field(
    place: int, fields: list[bytes], given: list[bool], parser: Any, default: Value
) -> str:
    for index, (field, is_missing) in enumerate(zip(fields, given, strict=True)):
        if is_missing:
            continue
        try:
            parser([field])
        except InvalidArgumentError:
            name = as_dtype(default.dtype).name
            text = decode(field)[:100]
            return f"Field {place} in record {index} is not a valid {name}: {text}"
    return f"Field {place} has a value that is malformed"


def csv_fields(
    record: bytes, delimiter: bytes, use_quotes: bool, columns: Sequence[int] = ()
) -> list[bytes]:
    """Return the fields of a record, or those of some columns.

    Raises:
        InvalidArgumentError: quotes or line ends stand where they may not.
    """
    found: list[bytes] = []
    place = number = 0
    while place < len(record):
        if record[place] in _LINE_ENDS:
            place += 1
            continue
        if use_quotes and record[place] == 0x22:
            field, place = _quoted(record, place + 1, delimiter)
        else:
            field, place = _plain(record, place, delimiter, use_quotes)
        if not columns or number in columns:
            found.append(field)
            if columns and len(found) == len(columns):
                return found
        number += 1
    if record.endswith(delimiter) and (not columns or number in columns):
        found.append(b"")
    return found


def _plain(record: bytes, start: int, delimiter: bytes, use_quotes: bool) -> tuple[bytes, int]:
    end = record.find(delimiter, start)
    end = len(record) if end < 0 else end
    field = record[start:end]
    if (use_quotes and b'"' in field) or b"\n" in field or b"\r" in field:
        raise InvalidArgumentError("Unquoted fields cannot have quotes/CRLFs inside")
    return field, end + 1


def _quoted(record: bytes, place: int, delimiter: bytes) -> tuple[bytes, int]:
    parts = []
    while True:
        quote = record.find(b'"', place)
        if quote < 0:
            raise InvalidArgumentError(
                "Quoted field has to end with quote followed by delim or end"
            )
        parts.append(record[place:quote])
        follows = record[quote + 1 : quote + 2]
        if not follows or follows == delimiter:
            return b"".join(parts), quote + 2
        if follows != b'"':
            raise InvalidArgumentError("Quote inside a string has to be escaped by another quote")
        parts.append(b'"')
        place = quote + 2
