"""Keep the results of an unfinished run in a folder, so that an interrupted run can be resumed.

The folder `OUT.partial` holds `run.json`, which identifies the run, and a file for each range of
rows that is done. Every file appears complete or not at all, and the name of a range says which
rows it has, so several processes can write to the folder.
"""

from __future__ import annotations

import io
import json
import re
import shutil
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from graphmill import files
from graphmill.dtypes import as_dtype
from graphmill.errors import AlreadyExistsError, DataLossError, FailedPreconditionError
from graphmill.files.damaged_zip import DAMAGED_ARRAY, DAMAGED_ZIP
from graphmill.files.status import typed_errors

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from graphmill.batch.runner import BatchResult

    Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

SUFFIX: Final = ".partial"
STDIN_COPY: Final = "stdin"
_RUN_FILE: Final = "run.json"
_CONSTANTS_FILE: Final = "constants.npz"
_RANGE: Final = re.compile(r"rows-(\d+)-(\d+)\.npz")
_DAMAGE: Final[tuple[type[Exception], ...]] = (*DAMAGED_ZIP, *DAMAGED_ARRAY, KeyError)
"""The exceptions that reading a damaged file of results raises."""


@dataclass(frozen=True, slots=True)
class StoredFailure:
    """A row without outputs: its position in the run, its file and line, and the reason."""

    index: int
    file: str
    line: int | None
    error: str


@dataclass(frozen=True, slots=True)
class RowRange:
    """The results of a range of rows.

    Attributes:
        rows: index, file and line of each row with outputs.
        outputs: for each output an array with one element for each of these rows.
        failures: the rows without outputs.
    """

    rows: Sequence[tuple[int, str, int | None]]
    outputs: Mapping[str, Array]
    failures: Sequence[StoredFailure]


class ResultStore:
    """The folder of an unfinished run."""

    def __init__(self, out: str) -> None:
        self.folder = Path(f"{out}{SUFFIX}")

    def begin(self, identity: Mapping[str, Any], *, resume: bool, overwrite: bool) -> None:
        """Create the folder, or check that it belongs to this run.

        Args:
            identity: what has to be equal for the run to be resumed, as JSON data.
            resume: whether the rows that are done are used.
            overwrite: whether they may be deleted.

        Raises:
            AlreadyExistsError: there are results of an interrupted run, and neither is set.
            FailedPreconditionError: they are those of another run.
        """
        text = json.dumps(identity, sort_keys=True)
        path = str(self.folder / _RUN_FILE)
        if files.exists(path) and self.done():
            if resume:
                self._check(json.loads(files.read_bytes(path)), json.loads(text))
                return
            if not overwrite:
                done = sum(stop - start for start, stop in self.done())
                error = AlreadyExistsError(
                    f"{self.folder} has {done} rows of a run that was interrupted"
                )
                error.add_note("try: --resume to continue it, or --overwrite to start again")
                raise error
            self._delete_ranges()
        files.write(path, text.encode())

    def done(self) -> list[tuple[int, int]]:
        """Return the sorted ranges of finished rows, each as `(start, stop)`.

        Raises:
            OpError: the folder cannot be read.
        """
        with typed_errors(str(self.folder)):
            matches = [_RANGE.fullmatch(path.name) for path in self.folder.iterdir()]
        return sorted((int(match[1]), int(match[2])) for match in matches if match)

    def add(self, start: int, stop: int, results: Sequence[BatchResult]) -> None:
        """Write the results of the rows from `start` up to before `stop`.

        Raises:
            OpError: the file cannot be written, as on a full disk.
        """
        meta: dict[str, Any] = {
            "rows": [(r.index, r.file, r.line) for result in results for r in result.rows],
            "failures": [
                (failed.row.index, failed.row.file, failed.row.line, _reason(failed.error))
                for result in results
                for failed in result.failures
            ],
        }
        arrays: dict[str, Array] = {}
        outputs = [result.outputs for result in results if result.rows]
        meta["parts"] = [pack(part, arrays) for part in _joined(outputs)]
        arrays["meta"] = np.frombuffer(json.dumps(meta).encode(), np.uint8)
        name = f"rows-{start:012d}-{stop:012d}.npz"
        files.write(str(self.folder / name), archive_bytes(arrays))

    def read(self) -> Iterator[RowRange]:
        """Yield the results in the order of the rows; each has outputs of one shape.

        Raises:
            DataLossError: a file is damaged.
        """
        for start, stop in self.done():
            path = self.folder / f"rows-{start:012d}-{stop:012d}.npz"
            try:
                with np.load(io.BytesIO(files.read_bytes(str(path)))) as archive:
                    meta = json.loads(archive["meta"].tobytes())
                    parts = [unpack(part, archive) for part in meta["parts"]]
            except _DAMAGE as error:
                raise DataLossError(
                    f"{path} is damaged ({error}); delete it, and resume the run"
                ) from error
            yield from _ranges(meta, parts)

    def counts(self) -> tuple[int, int]:
        """Return the number of rows with outputs, and of those that failed."""
        rows = failures = 0
        for part in self.read():
            rows += len(part.rows)
            failures += len(part.failures)
        return rows, failures

    def write_constants(self, values: Mapping[str, Array]) -> None:
        """Write the inputs that are the same for all rows, for other processes."""
        arrays: dict[str, Array] = {}
        stored = json.dumps(pack(values, arrays)).encode()
        arrays["meta"] = np.frombuffer(stored, np.uint8)
        files.write(str(self.folder / _CONSTANTS_FILE), archive_bytes(arrays))

    def read_constants(self) -> dict[str, Array]:
        """Return the inputs that are the same for all rows."""
        content = files.read_bytes(str(self.folder / _CONSTANTS_FILE))
        with np.load(io.BytesIO(content)) as archive:
            return unpack(json.loads(archive["meta"].tobytes()), archive)

    def discard(self) -> None:
        """Delete the folder if no rows are finished, so that nothing could be resumed."""
        if self.folder.is_dir() and not self.done():
            self.remove()

    def remove(self) -> None:
        """Delete the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _check(self, stored: Any, current: Any) -> None:
        different = sorted(
            key for key in {*stored, *current} if stored.get(key) != current.get(key)
        )
        if different:
            error = FailedPreconditionError(
                f"{self.folder} belongs to another run; these are different: {', '.join(different)}"
            )
            error.add_note("try: --overwrite to start again")
            raise error

    def _delete_ranges(self) -> None:
        with typed_errors(str(self.folder)):
            for path in list(self.folder.iterdir()):
                if _RANGE.fullmatch(path.name):
                    path.unlink()


def _joined(outputs: Iterable[Mapping[str, Array]]) -> Iterator[Mapping[str, Array]]:
    """Concatenate the outputs of consecutive steps with equal shapes, to store fewer arrays."""
    for _, group in groupby(outputs, _row_types):
        steps = list(group)
        yield {name: np.concatenate([one[name] for one in steps]) for name in steps[0]}


def _row_types(outputs: Mapping[str, Array]) -> list[tuple[str, Any, tuple[int, ...]]]:
    return [(name, array.dtype, array.shape[1:]) for name, array in outputs.items()]


def _reason(error: Exception) -> str:
    """Return an error's type and message on one line."""
    message = str(getattr(error, "message", error))
    return f"{type(error).__name__}: {message}".replace("\n", " ")


def _ranges(meta: Any, parts: list[dict[str, Array]]) -> Iterator[RowRange]:
    """Yield the rows of a file, divided where their outputs begin to have another shape."""
    rows = [(index, file, line) for index, file, line in meta["rows"]]
    failures = [StoredFailure(*failure) for failure in meta["failures"]]
    first = 0
    for position, part in enumerate(parts, 1):
        count = len(next(iter(part.values())))
        here, rest = rows[first : first + count], rows[first + count :]
        until = rest[0][0] if position < len(parts) else None
        yield RowRange(here, part, [f for f in failures if until is None or f.index < until])
        failures = [f for f in failures if until is not None and f.index >= until]
        first += count
    if not parts:
        yield RowRange([], {}, failures)


def pack(values: Mapping[str, Array], arrays: dict[str, Array]) -> dict[str, Any]:
    """Add values to the arrays of a file, and return how they are stored, as JSON data."""
    return {name: _pack(f"{len(arrays)}", value, arrays) for name, value in values.items()}


def unpack(stored: Mapping[str, Any], archive: Mapping[str, Array]) -> dict[str, Array]:
    """Return values that `pack` has stored."""
    return {name: _unpack(archive, described) for name, described in stored.items()}


def archive_bytes(arrays: Mapping[str, Any]) -> bytes:
    """Return the bytes of a `.npz` archive of arrays."""
    content = io.BytesIO()
    np.savez(content, **arrays)  # none of objects, so none is pickled
    return content.getvalue()


def _pack(key: str, array: Array, arrays: dict[str, Array]) -> dict[str, Any]:
    """Add an array to those of a file, and return how it is stored."""
    if array.dtype == object:
        items = [bytes(item) for item in array.reshape(-1)]
        arrays[key] = np.frombuffer(b"".join(items), np.uint8)
        arrays[f"{key}.sizes"] = np.asarray([len(item) for item in items], np.int64)
        return {"key": key, "dtype": "string", "shape": array.shape}
    name = as_dtype(array.dtype).name
    is_native = array.dtype.kind in "biufc"
    arrays[key] = array if is_native else np.frombuffer(array.tobytes(), np.uint8)
    return {"key": key, "dtype": name, "shape": array.shape}


def _unpack(archive: Mapping[str, Array], described: Mapping[str, Any]) -> Array:
    key, shape = described["key"], described["shape"]
    if described["dtype"] != "string":
        array = archive[key]
        dtype = as_dtype(described["dtype"]).as_numpy_dtype
        if array.dtype != dtype:
            array = np.frombuffer(array.tobytes(), dtype)
        return array.reshape(shape)
    content, result = archive[key].tobytes(), np.empty(len(archive[f"{key}.sizes"]), object)
    start = 0
    for index, size in enumerate(archive[f"{key}.sizes"].tolist()):
        result[index] = content[start : start + size]
        start += size
    return result.reshape(shape)
