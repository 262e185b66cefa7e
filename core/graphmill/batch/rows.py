"""Read the rows of files one after the other."""

from __future__ import annotations

import csv
import io
import itertools
import re
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from graphmill import files, tf_record
from graphmill.batch.contents import (
    Arrays,
    Cells,
    Columns,
    JsonText,
    Members,
    Record,
    TextLine,
    WholeFile,
    choose_columns,
    only_input,
)
from graphmill.batch.row import Row
from graphmill.errors import (
    DataLossError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    OpError,
    PermissionDeniedError,
    UnknownError,
)
from graphmill.files.damaged_zip import DAMAGED_ARRAY, DAMAGED_ZIP
from graphmill.files.stream import open_stream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import BinaryIO

    from graphmill.batch.row import Content
    from graphmill.batch.sources import SourceFile
    from graphmill.inputs.input_spec import InputSpec

    Parts = Iterator[tuple[int | None, Content | OpError, int]]
    """Line, content, and bytes read, of each row of a file."""

_UNDECODABLE: Final = re.compile("[\udc80-\udcff]")  # bytes that are not UTF-8

_DAMAGED_ARCHIVE: Final[tuple[type[Exception], ...]] = (
    *DAMAGED_ZIP,
    *DAMAGED_ARRAY,
    AttributeError,
)
"""The exceptions that reading a damaged `.npz` file raises."""

_UNREADABLE: Final = (
    NotFoundError,
    PermissionDeniedError,
    FailedPreconditionError,
    UnknownError,
)
"""The errors of files that cannot be opened: dangling links, folders and the like."""


class RowReader:
    """Read the rows of files for the inputs of a model.

    Args:
        specs: the inputs that rows feed, without their batch dimension.
        columns: the columns of tables that the only input takes; empty to choose by name.
        whole_files: whether a text file is one text, rather than one on each line.
        on_note: is called with notes, such as on columns that no input takes.
    """

    def __init__(
        self,
        specs: Mapping[str, InputSpec],
        columns: Sequence[str] = (),
        *,
        whole_files: bool = False,
        on_note: Callable[[str], None] | None = None,
    ) -> None:
        self._specs = specs
        self._columns = columns
        self._whole_files = whole_files
        self._on_note = on_note or (lambda _: None)
        self._reported_columns: set[tuple[str, ...]] = set()
        self._formats: dict[str, Callable[[SourceFile], Parts]] = {
            "image": self._whole_file,
            "txt": self._whole_file if whole_files else self._text_lines,
            "csv": self._table,
            "jsonl": self._json_lines,
            "tfrecord": self._records,
            "npy": self._array,
            "npz": self._archive,
        }

    def read(self, sources: Iterable[SourceFile]) -> Iterator[Row]:
        """Yield the rows of all files, in order; a file or part that cannot be read is an error."""
        index, before = 0, 0
        for source in sources:
            for line, content, position in self._parts(source):
                yield Row(index, source.label, line, content, before + position)
                index += 1
            before += source.size

    def values(self, values: Iterable[Any]) -> Iterator[Row]:
        """Yield a row for each value from Python: a mapping by input, or the only input's value."""
        for index, value in enumerate(values):
            content = Members(dict(value) if hasattr(value, "keys") else value)
            yield Row(index, "", None, content)

    def _parts(self, source: SourceFile) -> Parts:
        try:
            yield from self._formats[source.format](source)
        except _UNREADABLE as error:
            yield None, error, source.size

    def _whole_file(self, source: SourceFile) -> Parts:
        yield None, WholeFile(source.path), source.size

    def _text_lines(self, source: SourceFile) -> Parts:
        for number, line, position in _lines(source):
            yield number, TextLine(line), position

    def _json_lines(self, source: SourceFile) -> Parts:
        for number, line, position in _lines(source):
            if line.strip():
                yield number, JsonText(line), position

    def _table(self, source: SourceFile) -> Parts:
        with closing(_Counted(open_stream(source.path))) as raw:
            text = io.TextIOWrapper(
                cast("BinaryIO", raw), "utf-8-sig", "surrogateescape", newline=""
            )
            delimiter = "\t" if source.path.lower().endswith(".tsv") else ","
            table = csv.reader(text, delimiter=delimiter, strict=True)
            try:
                columns = self._header(table, source)
            except OpError as error:
                yield 1, error, raw.position
                return
            while True:
                line = table.line_num + 1
                try:
                    cells = next(table, None)
                except csv.Error as error:
                    fault = InvalidArgumentError(f"{source.label}:{line} is not CSV: {error}")
                    yield line, fault, raw.position
                    continue
                if cells is None:
                    return
                if cells:
                    yield line, Cells(columns, cells), raw.position

    def _header(self, table: Iterator[list[str]], source: SourceFile) -> Columns:
        try:
            header = next(table, None)
        except csv.Error as error:
            raise InvalidArgumentError(f"{source.label}:1 is not CSV: {error}") from error
        if not header:
            raise InvalidArgumentError(f"{source.label}:1 is empty, expected a header of columns")
        if any(_UNDECODABLE.search(name) for name in header):
            raise InvalidArgumentError(f"{source.label}:1 is not text in UTF-8; convert the file")
        columns = choose_columns(header, self._specs, self._columns, f"{source.label}:1")
        unused = tuple(columns.unused[:10])
        if unused and unused not in self._reported_columns:
            self._reported_columns.add(unused)
            self._on_note(f"{source.label}: no input takes these columns: {', '.join(unused)}")
        return columns

    def _records(self, source: SourceFile) -> Parts:
        compression = "GZIP" if source.path.lower().endswith(".gz") else ""
        records = tf_record.tf_record_iterator(source.path, compression)
        position = 0
        for number in itertools.count(1):
            try:
                record = next(records, None)
            except DataLossError as error:
                text = f"{source.label}:{number}: {error.message}; the rest is skipped"
                fault = DataLossError(text)
                yield number, fault, source.size
                return
            if record is None:
                return
            position = min(position + len(record) + 16, source.size)
            yield number, Record(record), position

    def _array(self, source: SourceFile) -> Parts:
        name, spec = only_input(self._specs, source.label)
        try:
            array = np.load(io.BytesIO(files.read_bytes(source.path)), allow_pickle=False)
        except DAMAGED_ARRAY as error:
            fault = InvalidArgumentError(f"{source.label} is not a .npy file: {error}")
            yield None, fault, source.size
            return
        if not isinstance(array, np.ndarray):
            text = f"{source.label} is not a .npy file, but an archive of arrays; rename it to .npz"
            yield None, InvalidArgumentError(text), source.size
            return
        yield from self._rows_of({name: array}, {name: spec}, source)

    def _archive(self, source: SourceFile) -> Parts:
        try:
            arrays = _members_of(source)
        except InvalidArgumentError as error:
            yield None, error, source.size
            return
        except _DAMAGED_ARCHIVE as error:
            fault = InvalidArgumentError(f"{source.label} is not a .npz file: {error}")
            yield None, fault, source.size
            return
        if len(self._specs) == len(arrays) == 1:
            arrays = dict(zip(self._specs, arrays.values(), strict=True))
        yield from self._rows_of(arrays, self._specs, source)

    def _rows_of(
        self, arrays: dict[str, Any], specs: Mapping[str, InputSpec], source: SourceFile
    ) -> Parts:
        """Yield one row if the arrays have the rank of a row, else one for each element."""
        known = {name: arrays[name] for name in specs if name in arrays}
        if not known or any(_is_row(array, specs[name]) for name, array in known.items()):
            yield None, Arrays(known), source.size
            return
        counts = {len(array) for array in known.values()}
        if len(counts) > 1:
            fault = InvalidArgumentError(
                f"{source.label}: its arrays have different numbers of rows: "
                f"{', '.join(map(str, sorted(counts)))}; each needs an element for each row"
            )
            yield None, fault, source.size
            return
        (count,) = counts
        for row in range(count):
            element = {name: array[row] for name, array in known.items()}
            yield row + 1, Arrays(element), source.size * (row + 1) // count


def _members_of(source: SourceFile) -> dict[str, Any]:
    """Return the arrays of an archive by name.

    Raises:
        InvalidArgumentError: the file holds one array, or a member is not an array.
    """
    archive = np.load(io.BytesIO(files.read_bytes(source.path)), allow_pickle=False)
    if isinstance(archive, np.ndarray):
        raise InvalidArgumentError(
            f"{source.label} is not a .npz file, but a single array; rename it to .npy"
        )
    with archive:
        members = {name: archive[name] for name in archive.files}
    for name, member in members.items():
        if not isinstance(member, np.ndarray):  # NumPy returns the bytes of other members
            raise InvalidArgumentError(
                f"{source.label}: its member {name!r} is not an array in NumPy's format"
            )
    return members


def _is_row(array: np.ndarray[Any, Any], spec: InputSpec) -> bool:
    return array.ndim == 0 or (spec.shape is not None and array.ndim <= len(spec.shape))


class _Counted(io.BufferedIOBase):
    """A stream that counts the bytes that are read from it."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.position = 0

    def readable(self) -> bool:
        """Return true."""
        return True

    def read(self, size: int | None = -1, /) -> bytes:
        """Return the next bytes."""
        data = self._stream.read(-1 if size is None else size)
        self.position += len(data)
        return data

    def read1(self, size: int = -1, /) -> bytes:
        """Return the next bytes."""
        return self.read(size if size >= 0 else 1 << 16)

    def close(self) -> None:
        """Close the file."""
        self._stream.close()
        super().close()


def _lines(source: SourceFile) -> Iterator[tuple[int, str, int]]:
    """Yield number, text and end position of each line."""
    position = 0
    with closing(open_stream(source.path)) as stream:
        for number, line in enumerate(stream, 1):
            position += len(line)
            text = line.decode("utf-8", "surrogateescape")
            if number == 1:
                text = text.removeprefix("\ufeff")
            yield number, text.rstrip("\r\n"), position
