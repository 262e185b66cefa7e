"""Datasets that read the records of CSV files.

Semantics: tensorflow/core/kernels/data/experimental/csv_dataset_op.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from graphmill.errors import InvalidArgumentError
from graphmill.spi.files import check_compression, open_stream
from graphmill_plugins.kernels._strings import decode, string_array
from graphmill_plugins.kernels.dataset.pipeline.dataset import Dataset, ElementIterator
from graphmill_plugins.kernels.parsing.number import string_to_number

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import BinaryIO

    from graphmill.dtypes import DType
    from graphmill.spi import Shape, Value
    from graphmill_plugins.kernels.dataset.pipeline.dataset import Element, Elements, Scope

_QUOTE = 0x22
_ENDS = (b"\n", b"\r")


class CsvOptions(NamedTuple):
    """How the files are written, and which columns are wanted.

    Attributes:
        delimiter: one byte.
        selected: the wanted columns, ascending; empty for all.
        excluded: the columns that are not wanted, ascending.
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
        """Raise InvalidArgumentError for options that make no sense together."""
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
        for name, given in (("select_cols", self.selected), ("exclude_cols", self.excluded)):
            if min(given, default=0) < 0 or sorted(set(given)) != list(given):
                raise InvalidArgumentError(
                    f"{name} should be non-negative and strictly increasing indices, got "
                    f"{list(given)}"
                )


class _Fields:
    """The fields of the records of one open file."""

    def __init__(self, stream: BinaryIO, options: CsvOptions) -> None:
        self.stream = stream
        self._delimiter = options.delimiter
        self._use_quotes = options.use_quotes
        self._line = b""
        self._place = 0
        self._fault = ""

    def next(self) -> list[bytes] | None:
        """Return the fields of the next record, None at the end.

        Raises:
            InvalidArgumentError: quotes stand where they may not. The record is skipped, which
                may be the rest of the file if a quote is never closed.
        """
        if self._place >= len(self._line):
            self._line, self._place = self.stream.readline(), 0
            if not self._line:
                return None
        found: list[bytes] = []
        self._fault = ""
        while True:
            is_quoted = self._use_quotes and self._line[self._place : self._place + 1] == b'"'
            found.append(self._quoted() if is_quoted else self._plain())
            follows = self._line[self._place : self._place + 1]
            self._place += 1
            if follows != self._delimiter:
                if follows == b"\r" and self._line[self._place : self._place + 1] == b"\n":
                    self._place += 1
                if self._fault:
                    raise InvalidArgumentError(self._fault)
                return found

    def _plain(self) -> bytes:
        line, start = self._line, self._place
        ends = [line.find(mark, start) for mark in (self._delimiter, *_ENDS)]
        end = min((end for end in ends if end >= 0), default=len(line))
        field = line[start:end]
        if self._use_quotes and _QUOTE in field:
            self._fault = "Unquoted fields cannot have quotes inside"
        self._place = end
        return field

    def _quoted(self) -> bytes:
        parts = []
        start = self._place + 1
        while True:
            quote = self._line.find(b'"', start)
            if quote < 0:
                parts.append(self._line[start:])
                self._line, start = self.stream.readline(), 0
                if not self._line:
                    self._fault = "Reached end of file without closing quoted field in record"
                    self._place = 0
                    return b""
                continue
            parts.append(self._line[start:quote])
            follows = self._line[quote + 1 : quote + 2]
            if follows == b'"':
                parts.append(b'"')
                start = quote + 2
                continue
            if follows and follows != self._delimiter and follows not in _ENDS:
                self._fault = "Quote inside a string has to be escaped by another quote"
                start = quote + 1
                continue
            self._place = quote + 1
            return b"".join(parts)


class CsvRecords(Dataset):
    """The records of some CSV files, one after the other; a scalar of each column."""

    waits = True

    def __init__(
        self,
        paths: Sequence[str],
        options: CsvOptions,
        defaults: Sequence[Value],
        dtypes: Sequence[DType],
        shapes: Sequence[Shape],
    ) -> None:
        options.check(len(dtypes))
        for default in defaults:
            if default.ndim > 1 or default.size > 1:
                raise InvalidArgumentError(
                    "Each record default should be at most rank 1 and have at most one element"
                )
        super().__init__(dtypes, shapes)
        self._paths, self.options = list(paths), options
        self._defaults = [default.ravel()[:1] for default in defaults]
        self._parsers = [
            None if dtype.kind == "s" else string_to_number(dtype.as_numpy_dtype)
            for dtype in dtypes
        ]

    def iterate(self, scope: Scope) -> Elements:
        """Return an iterator over the records."""
        del scope
        return _Reading(self)

    def open(self, index: int) -> _Fields | None:
        """Open a file and pass over its header; None if there is no such file in the list."""
        if index >= len(self._paths):
            return None
        options = self.options
        stream = open_stream(self._paths[index], options.compression, options.buffer_size)
        fields = _Fields(stream, options)
        if options.has_header and fields.next() is None:
            raise InvalidArgumentError(f"Can't read header of file {self._paths[index]}")
        return fields

    def element(self, fields: list[bytes]) -> Element:
        """Return the values of a record.

        Raises:
            InvalidArgumentError: it has too many or too few fields, or one is none of its type.
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
        return tuple(self._value(place, field) for place, field in enumerate(fields))

    def _value(self, place: int, field: bytes) -> Any:
        if not field or field == self.options.missing:
            if not self._defaults[place].size:
                raise InvalidArgumentError(f"Field {place} is required but missing in record!")
            return self._defaults[place].reshape(())
        parser = self._parsers[place]
        if parser is None:
            return string_array([field]).reshape(())
        try:
            return parser(string_array([field])).reshape(())
        except InvalidArgumentError:
            raise InvalidArgumentError(
                f"Field {place} in record is not a valid {self.dtypes[place].name}: "
                f"{decode(field)[:100]}"
            ) from None


class _Reading(ElementIterator):
    def __init__(self, dataset: CsvRecords) -> None:
        self._dataset = dataset
        self._next_file = 0
        self._fields: _Fields | None = None

    def __next__(self) -> Element:
        while True:
            if self._fields is None:
                self._next_file += 1  # a file that cannot be opened is skipped the next time
                self._fields = self._dataset.open(self._next_file - 1)
                if self._fields is None:
                    raise StopIteration
            found = self._fields.next()
            if found is not None:
                return self._dataset.element(found)
            self._fields.stream.close()
            self._fields = None
