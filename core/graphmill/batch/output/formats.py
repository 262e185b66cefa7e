"""The formats in which the results of a batch run are written."""

from __future__ import annotations

import csv
import io
import json
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from graphmill import files
from graphmill.batch.output.byte_stream import ByteStream
from graphmill.batch.output.table_columns import cells, column_names, distinct_names, output_shapes
from graphmill.distribution import install_command
from graphmill.errors import InvalidArgumentError, UnimplementedError
from graphmill.json_data import json_data

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from graphmill.batch.output.table_columns import OutputShape
    from graphmill.batch.store import ResultStore, RowRange
    from graphmill.files.base import Writer

    Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

_LOCATION: Final = ("file", "line")
_ERROR: Final = "error"


def check_format(path: str) -> None:
    """Check that results can be written to a file of this name.

    Raises:
        InvalidArgumentError: its suffix is not known.
        UnimplementedError: the format needs a package that is not installed.
    """
    if Path(path).suffix.lower() not in _WRITERS:
        raise InvalidArgumentError(
            f"{path} is of an unsupported file type; results are written as {', '.join(_WRITERS)}"
        )
    if path.lower().endswith(".parquet"):
        _pyarrow()


def write_results(path: str, store: ResultStore, *, with_errors: bool) -> None:
    """Write all results of a store to a file, which appears when it is complete.

    Args:
        path: the file; its suffix chooses the format.
        store: the results.
        with_errors: whether a column says why rows have no outputs.

    Raises:
        InvalidArgumentError: the format cannot hold the outputs.
        OpError: the file cannot be written; a file that exists stays as it is.
    """
    write = _WRITERS[Path(path).suffix.lower()]
    with files.open_writer(path) as writer:
        write(writer, store, with_errors)


class _Lines(io.StringIO):
    """Rows of a table that end with a newline.

    `csv` puts a cell in quotes if it contains a character that ends rows. Readers take a carriage
    return for the end of a row, too, so rows are written with both at their end.
    """

    def write(self, row: str, /) -> int:
        """Write a row, without the carriage return at its end."""
        return super().write(row.removesuffix("\r\n") + "\n")


def _write_csv(writer: Writer, store: ResultStore, with_errors: bool) -> None:
    shapes = output_shapes(store.read())
    text = _Lines(newline="")
    table = csv.writer(text, lineterminator="\r\n")
    errors = [_ERROR] if with_errors else []
    names = column_names(shapes, (*_LOCATION, *errors))
    table.writerow([*_LOCATION, *names, *errors])
    for part in store.read():
        for file, line, values, error in _records(part, shapes, len(names)):
            shown = ["" if value is None else value for value in values]
            last = [error or ""] if with_errors else []
            table.writerow([file, "" if line is None else line, *shown, *last])
        writer.write(text.getvalue().encode("utf-8", "surrogateescape"))
        text.seek(0)
        text.truncate()
    writer.write(text.getvalue().encode("utf-8", "surrogateescape"))


def _write_jsonl(writer: Writer, store: ResultStore, _with_errors: bool) -> None:
    """Write an object for each row: `file`, `line`, and `outputs` or `error`."""
    for part in store.read():
        lines: list[tuple[int, dict[str, Any]]] = [
            (failed.index, {"file": failed.file, "line": failed.line, _ERROR: failed.error})
            for failed in part.failures
        ]
        values = {name: array.tolist() for name, array in part.outputs.items()}
        for row, (index, file, line) in enumerate(part.rows):
            outputs = {name: json_data(items[row]) for name, items in values.items()}
            lines.append((index, {"file": file, "line": line, "outputs": outputs}))
        lines.sort(key=lambda line: line[0])
        text = "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for _, line in lines)
        writer.write(text.encode("utf-8", "surrogateescape"))


def _write_npz(writer: Writer, store: ResultStore, with_errors: bool) -> None:
    """Write an archive of arrays: `file`, `line` (-1 for a whole file) and the outputs by row."""
    shapes = output_shapes(store.read())
    for name, shape in shapes.items():
        if shape.shape is None:
            error = InvalidArgumentError(f"the rows of output {name!r} have different shapes")
            error.add_note("try: a .jsonl, .csv or .parquet file")
            raise error
    rows = [row for part in store.read() for row in part.rows]
    failures = [failed for part in store.read() for failed in part.failures]
    of_failures = [f"failed_{name}" for name in (*_LOCATION, _ERROR)] if with_errors else []
    taken = (*_LOCATION, *of_failures)
    names = distinct_names({name: name.replace("/", "_") for name in shapes}, taken)
    with zipfile.ZipFile(ByteStream(writer), "w") as archive:
        _add_locations(archive, "", [(file, line) for _, file, line in rows])
        for name, shape in shapes.items():
            _add_output(archive, names[name], name, shape, len(rows), store)
        if with_errors:
            _add_locations(archive, "failed_", [(failed.file, failed.line) for failed in failures])
            errors = np.asarray([failed.error for failed in failures], np.str_)
            _add_array(archive, "failed_error", errors)


def _add_locations(
    archive: zipfile.ZipFile, prefix: str, locations: list[tuple[str, int | None]]
) -> None:
    _add_array(archive, f"{prefix}file", np.asarray([file for file, _ in locations], np.str_))
    lines = [-1 if line is None else line for _, line in locations]
    _add_array(archive, f"{prefix}line", np.asarray(lines, np.int64))


def _add_array(archive: zipfile.ZipFile, name: str, array: Array) -> None:
    with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
        np.lib.format.write_array(file, array, allow_pickle=False)


def _add_output(
    archive: zipfile.ZipFile,
    key: str,
    name: str,
    shape: OutputShape,
    count: int,
    store: ResultStore,
) -> None:
    """Write an output as the array `key` part by part, so that it need not fit into memory."""
    dtype = shape.dtype
    if dtype.kind == "O":
        sizes = [
            len(item) for part in store.read() for item in part.outputs.get(name, _NONE).reshape(-1)
        ]
        dtype = np.dtype(f"S{max(sizes, default=1) or 1}")
    elif dtype.kind == "V" or dtype.isbuiltin != 1:
        dtype = np.dtype(np.float32)  # NumPy's files have no bfloat16 and the like
    header = {
        "descr": np.lib.format.dtype_to_descr(dtype),
        "fortran_order": False,
        "shape": (count, *(shape.shape or ())),
    }
    with archive.open(f"{key}.npy", "w", force_zip64=True) as file:
        np.lib.format.write_array_header_2_0(file, header)
        for part in store.read():
            if name in part.outputs:
                array = part.outputs[name]
                if array.dtype == object:
                    _check_bytes(name, array)
                file.write(np.ascontiguousarray(array.astype(dtype)).tobytes())


def _check_bytes(name: str, array: Array) -> None:
    """Raise if NumPy would remove zero bytes at the end of a string."""
    if any(item.endswith(b"\0") for item in array.reshape(-1)):
        error = InvalidArgumentError(
            f"a string of output {name!r} ends with a zero byte, which an .npz file cannot hold"
        )
        error.add_note("try: a .jsonl or .parquet file")
        raise error


def _write_parquet(writer: Writer, store: ResultStore, with_errors: bool) -> None:
    """Write a column for each output: nested lists, or JSON if rows have different shapes."""
    pa, parquet = _pyarrow()
    shapes = output_shapes(store.read())
    fixed = (*_LOCATION, _ERROR) if with_errors else _LOCATION
    names = distinct_names({name: name for name in shapes}, fixed)
    fields = [("file", pa.string()), ("line", pa.int64())]
    fields += [(names[name], _arrow_type(pa, shape)) for name, shape in shapes.items()]
    schema = pa.schema([*fields, *([(_ERROR, pa.string())] if with_errors else [])])
    with parquet.ParquetWriter(ByteStream(writer), schema) as table:
        for part in store.read():
            columns: dict[str, list[Any]] = {
                "file": [file for _, file, _ in part.rows],
                "line": [line for _, _, line in part.rows],
                **{
                    names[name]: _arrow_values(array, shapes[name])
                    for name, array in part.outputs.items()
                },
            }
            failures = part.failures if with_errors else ()
            for name in schema.names:
                values = columns.get(name, [None] * len(part.rows))
                more = [getattr(failed, name) if name in fixed else None for failed in failures]
                columns[name] = values + more
            order = sorted(
                range(len(columns["file"])),
                key=[*(i for i, _, _ in part.rows), *(f.index for f in failures)].__getitem__,
            )
            ordered = {name: [columns[name][i] for i in order] for name in schema.names}
            table.write_table(pa.table(ordered, schema=schema))


def _arrow_type(pa: Any, shape: OutputShape) -> Any:
    if shape.shape is None:
        return pa.string()
    kind = pa.binary() if shape.dtype.kind == "O" else _arrow_element(pa, shape.dtype)
    for _ in shape.shape:
        kind = pa.list_(kind)
    return kind


def _arrow_element(pa: Any, dtype: np.dtype[Any]) -> Any:
    if dtype.kind == "c":
        raise UnimplementedError(f"Parquet has no complex numbers ({dtype}); use .npz or .jsonl")
    return pa.from_numpy_dtype(dtype if dtype.kind in "biuf" else np.dtype(np.float32))


def _arrow_values(array: Array, shape: OutputShape) -> list[Any]:
    values: list[Any] = array.tolist()
    if shape.shape is None:
        return [json.dumps(json_data(value), ensure_ascii=False) for value in values]
    return values


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError as missing:
        error = UnimplementedError("writing .parquet needs pyarrow, which is not installed")
        error.add_note(f"try: {install_command('parquet')}, or write a .csv file")
        raise error from missing
    return pa, parquet


def _records(
    part: RowRange, shapes: dict[str, OutputShape], width: int
) -> Iterator[tuple[str, int | None, list[Any], str | None]]:
    """Yield file, line, columns and error of each row of a table, in order."""
    records: list[tuple[int, tuple[str, int | None, list[Any], str | None]]] = [
        (failed.index, (failed.file, failed.line, [None] * width, failed.error))
        for failed in part.failures
    ]
    if part.rows:
        for (index, file, line), values in zip(part.rows, cells(part, shapes), strict=True):
            records.append((index, (file, line, values, None)))
    records.sort(key=lambda record: record[0])
    yield from (record for _, record in records)


_NONE: Final = np.empty(0, object)
_WRITERS: Final[dict[str, Callable[[Writer, ResultStore, bool], None]]] = {
    ".csv": _write_csv,
    ".jsonl": _write_jsonl,
    ".npz": _write_npz,
    ".parquet": _write_parquet,
}
