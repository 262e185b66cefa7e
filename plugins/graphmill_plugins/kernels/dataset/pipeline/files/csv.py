"""Datasets that read the records of CSV files.

Semantics: tensorflow/core/kernels/data/experimental/csv_dataset_op.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from graphmill.errors import InvalidArgumentError
from graphmill.spi.files import check_compression, read_line
from graphmill_plugins.kernels._strings import decode, string_array
from graphmill_plugins.kernels.dataset.pipeline.dataset import Dataset, ElementIterator
from graphmill_plugins.kernels.parsing.number import string_to_number

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import BinaryIO

    from graphmill.dtypes import DType
    from graphmill.spi import Shape, Value
    from graphmill.spi.files import Broker
    from graphmill_plugins.kernels.dataset.pipeline.dataset import Element, Elements, Scope

_QUOTE = 0x22
_LINE_ENDS = (b"\n", b"\r")


class CsvOptions(NamedTuple):
    """The format of the files, and the selected columns.

    Attributes:
        delimiter: one byte.
        missing: the text of a missing value.
        selected: indices of the columns to read, ascending; empty for all.
        excluded: indices of the columns to leave out, ascending.
    """

    compression: str
    buffer_size: int
    has_header: bool
    delimiter: bytes
    use_quotes: bool
    missing: bytes
    selected: tuple[int, ...] = ()
    excluded: tuple[int, ...] = ()

    def check(self, columns: int) -> None:
        """Raise InvalidArgumentError for invalid or contradictory options."""
        check_compression(self.compression)
        if self.buffer_size <= 0:
            raise InvalidArgumentError("buffer_size should be positive")
        if len(self.delimiter) != 1:
            raise InvalidArgumentError("field_delim should be only 1 char")
        if self.selected and self.excluded:
            raise InvalidArgumentError("Either select_cols or exclude_cols should be empty")
        if self.selected and len(self.selected) != columns:
            raise InvalidArgumentError(
                f"select_cols should match output size: {len(self.selected)} and {columns}"
            )
        for name, numbers in (("select_cols", self.selected), ("exclude_cols", self.excluded)):
            if min(numbers, default=0) < 0 or sorted(set(numbers)) != list(numbers):
                raise InvalidArgumentError(
                    f"{name} should be non-negative and strictly increasing indices, got "
                    f"{list(numbers)}"
                )


class _RecordParser:
    """Parses the records of an open file into fields."""

    def __init__(self, stream: BinaryIO, options: CsvOptions) -> None:
        self.stream = stream
        self._delimiter = options.delimiter
        self._use_quotes = options.use_quotes
        self._line = b""
        self._position = 0
        self._error = ""

    def next(self) -> list[bytes] | None:
        """Return the fields of the next record, None at the end.

        Raises:
            InvalidArgumentError: a quote is misplaced or not closed. The record is skipped, which
                may be the rest of the file if a quote is not closed.
        """
        if self._position >= len(self._line):
            self._line, self._position = read_line(self.stream), 0
            if not self._line:
                return None
        fields: list[bytes] = []
        self._error = ""
        while True:
            is_quoted = self._use_quotes and self._line[self._position : self._position + 1] == b'"'
            fields.append(self._quoted() if is_quoted else self._plain())
            following = self._line[self._position : self._position + 1]
            self._position += 1
            if following != self._delimiter:
                if following == b"\r" and self._line[self._position : self._position + 1] == b"\n":
                    self._position += 1
                if self._error:
                    raise InvalidArgumentError(self._error)
                return fields

    def _plain(self) -> bytes:
        line, start = self._line, self._position
        ends = [line.find(mark, start) for mark in (self._delimiter, *_LINE_ENDS)]
        end = min((end for end in ends if end >= 0), default=len(line))
        field = line[start:end]
        if self._use_quotes and _QUOTE in field:
            self._error = "Unquoted fields cannot have quotes inside"
        self._position = end
        return field

    def _quoted(self) -> bytes:
        parts = []
        start = self._position + 1
        while True:
            quote = self._line.find(b'"', start)
            if quote < 0:
                parts.append(self._line[start:])
                self._line, start = read_line(self.stream), 0
                if not self._line:
                    self._error = "Reached end of file without closing quoted field in record"
                    self._position = 0
                    return b""
                continue
            parts.append(self._line[start:quote])
            following = self._line[quote + 1 : quote + 2]
            if following == b'"':
                parts.append(b'"')
                start = quote + 2
                continue
            if following and following != self._delimiter and following not in _LINE_ENDS:
                self._error = "Quote inside a string has to be escaped by another quote"
                start = quote + 1
                continue
            self._position = quote + 1
            return b"".join(parts)


class CsvRecords(Dataset):
    """The records of CSV files, one after the other; each column is a scalar."""

    waits = True

    def __init__(
        self,
        paths: Sequence[str],
        options: CsvOptions,
        defaults: Sequence[Value],
        dtypes: Sequence[DType],
        shapes: Sequence[Shape],
        broker: Broker,
    ) -> None:
        options.check(len(dtypes))
        for default in defaults:
            if default.ndim > 1 or default.size > 1:
                raise InvalidArgumentError(
                    "Each record default should be at most rank 1 and have at most one element"
                )
        super().__init__(dtypes, shapes)
        self._paths, self.options, self._broker = list(paths), options, broker
        self._defaults = [default.ravel()[:1] for default in defaults]
        self._parsers = [
            None if dtype.kind == "s" else string_to_number(dtype.as_numpy_dtype)
            for dtype in dtypes
        ]

    def iterate(self, scope: Scope) -> Elements:
        """Return an iterator over the records."""
        del scope
        return _Reading(self)

    def open(self, index: int) -> _RecordParser | None:
        """Open a file and skip its header; return None after the last file."""
        if index >= len(self._paths):
            return None
        options = self.options
        stream = self._broker.open_stream(
            self._paths[index], options.compression, options.buffer_size
        )
        parser = _RecordParser(stream, options)
        if options.has_header and parser.next() is None:
            raise InvalidArgumentError(f"Can't read header of file {self._paths[index]}")
        return parser

    def element(self, fields: list[bytes]) -> Element:
        """Return the values of a record.

        Raises:
            InvalidArgumentError: it has too many or too few fields, or a field cannot be parsed.
        """
        options = self.options
        if options.selected:
            fields = [fields[column] for column in options.selected if column < len(fields)]
        elif options.excluded:
            fields = [field for n, field in enumerate(fields) if n not in options.excluded]
        if len(fields) != len(self.dtypes):
            raise InvalidArgumentError(
                f"Expect {len(self.dtypes)} fields but have {len(fields)} in record"
            )
        return tuple(self._value(column, field) for column, field in enumerate(fields))

    def _value(self, column: int, field: bytes) -> Any:
        if not field or field == self.options.missing:
            if not self._defaults[column].size:
                raise InvalidArgumentError(f"Field {column} is required but missing in record!")
            return self._defaults[column].reshape(())
        parser = self._parsers[column]
        if parser is None:
            return string_array([field]).reshape(())
        try:
            return parser(string_array([field])).reshape(())
        except InvalidArgumentError:
            raise InvalidArgumentError(
                f"Field {column} in record is not a valid {self.dtypes[column].name}: "
                f"{decode(field)[:100]}"
            ) from None


class _Reading(ElementIterator):
    def __init__(self, dataset: CsvRecords) -> None:
        self._dataset = dataset
        self._next_file = 0
        self._parser: _RecordParser | None = None

    def __next__(self) -> Element:
        while True:
            if self._parser is None:
                self._next_file += 1  # a file that cannot be opened is skipped the next time
                self._parser = self._dataset.open(self._next_file - 1)
                if self._parser is None:
                    raise StopIteration
            fields = self._parser.next()
            if fields is not None:
                return self._dataset.element(fields)
            self._parser.stream.close()
            self._parser = None
