"""Run a model on many rows, and write its outputs to a file or return them."""

from __future__ import annotations

import hashlib
import os
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import files
from graphmill.batch.output.formats import check_format, write_results
from graphmill.batch.processes import run_in_processes
from graphmill.batch.progress import Progress, Stopwatch
from graphmill.batch.settings import BatchSettings, load, prepare
from graphmill.batch.shard import Shard, run_shard
from graphmill.batch.sources import STDIN, copy_stdin, find_sources
from graphmill.batch.store import STDIN_COPY, ResultStore
from graphmill.deprecations import renamed_argument
from graphmill.errors import (
    AlreadyExistsError,
    InvalidArgumentError,
    OpError,
    UnimplementedError,
    suggest,
)
from graphmill.inputs.notes import each_once
from graphmill.models.queue_runners import queue_runners_running

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from graphmill.batch.runner import BatchResult
    from graphmill.batch.sources import SourceFile
    from graphmill.plugin.host import Host
    from graphmill.typing import Value

    AnyPath = str | os.PathLike[str]

_NOT_IN_IDENTITY = ("batch_size", "timeout", "keep_going")


@dataclass(frozen=True, slots=True)
class Report:
    """The counts, duration and output file of a run.

    Attributes:
        out: the file of the results.
        rows: the number of rows with outputs.
        failures: the number of rows that failed.
        resumed_rows: how many of all rows an earlier run had done.
        seconds: how long it took.
    """

    out: str
    rows: int
    failures: int
    resumed_rows: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Prediction:
    """The outputs of a row.

    Attributes:
        file: its file; "" for a row from Python.
        line: its line or record in the file, from 1; None if it is the whole file.
        outputs: its outputs by name, without the batch dimension; empty if it failed.
        error: why it has none; None if it has.
    """

    file: str
    line: int | None
    outputs: Mapping[str, Value]
    error: OpError | None = None


def run(
    model: AnyPath,
    each: AnyPath | Iterable[AnyPath],
    out: AnyPath,
    *,
    inputs: Mapping[str, Any] | None = None,
    jobs: int = 1,
    resume: bool = False,
    overwrite: bool = False,
    stdin_format: str | None = None,
    progress: Callable[[Progress], None] | None = None,
    on_note: Callable[[str], None] | None = None,
    host: Host | None = None,
    **options: Any,
) -> Report:
    """Run a model on all rows of files, and write its outputs to a file, one row for each.

    Until the file is complete, results are in the folder `OUT.partial`; `resume=True` continues
    from there after an interruption.

    Args:
        model: the path of a SavedModel, GraphDef or MetaGraph.
        each: files, folders or patterns (`pics/*.png`): images, `.csv`, `.tsv`, `.jsonl`, `.txt`,
            `.tfrecord`, `.npy`, `.npz`; `-` for standard input.
        out: the file to write: `.csv`, `.jsonl`, `.npz` or `.parquet`.
        inputs: inputs that have the same value for all rows, as the model takes them.
        jobs: the number of processes.
        resume: whether an interrupted run is continued.
        overwrite: whether files of an earlier run are replaced.
        stdin_format: the format of standard input: csv, jsonl, txt, tfrecord, or paths of files.
        progress: is called after each step.
        on_note: is called with notes, such as on columns that no input takes or how pixels are
            scaled, and with a line for each row that fails; by default the logger
            `graphmill.batch` logs them as warnings.
        host: the host to run on; by default that of this process.
        options: `batch_size` (32), `keep_going`, `timeout`, `queue_runners`, `columns`,
            `whole_files`, `resize`, `pixels`, `signature`, `tags`, `fetches`, `device`, `executor`,
            `forbid`, `allow`, `trust`; see `BatchSettings`.

    Raises:
        AlreadyExistsError: `out`, or results of an interrupted run, exist.
        FailedPreconditionError: the run to resume had other settings or inputs.
        OpError: a file cannot be read or written, or a row failed and `keep_going` is off.
    """
    on_note = renamed_argument(options, "tell", "on_note", on_note)
    settings = _settings(model, options)
    if jobs < 1:
        raise InvalidArgumentError(f"jobs={jobs}: expected at least one process")
    if jobs > 1 and host is not None:
        raise UnimplementedError("a host cannot be shared with other processes; use jobs=1")
    target = files.as_path(out)
    _check_target(target, overwrite=overwrite)
    clock = Stopwatch()
    names = [files.as_path(item) for item in _listed(each)]
    store = ResultStore(target)
    try:
        copy = _stdin_copy(store, names, stdin_format)
        sources = find_sources(names, stdin_copy=copy, stdin_format=stdin_format)
        constants = {name: _as_array(value) for name, value in (inputs or {}).items()}
        identity = _identity(settings, sources, constants)
        store.begin(identity, resume=resume, overwrite=overwrite)
        store.write_constants(constants)
        resumed_rows = sum(stop - start for start, stop in store.done())
        tracker = _ProgressTracker(jobs, sources, resumed_rows, clock, progress, on_note)
        if jobs > 1:
            run_in_processes(jobs, settings, sources, target, tracker.message)
        else:
            _run_here(settings, sources, store, constants, tracker, host)
        rows, failures = store.counts()
        write_results(target, store, with_errors=settings.keep_going)
    except BaseException:
        store.discard()
        raise
    store.remove()
    return Report(target, rows, failures, resumed_rows, clock.seconds)


def predict(
    model: AnyPath,
    rows: Iterable[Any] | None = None,
    *,
    each: AnyPath | Iterable[AnyPath] | None = None,
    inputs: Mapping[str, Any] | None = None,
    on_note: Callable[[str], None] | None = None,
    host: Host | None = None,
    **options: Any,
) -> Iterator[Prediction]:
    """Yield the outputs of a model for each row, in order, computed in batches.

    Args:
        model: the path of a SavedModel, GraphDef or MetaGraph.
        rows: values from Python: mappings by input, or values of the only input.
        each: files with rows, instead of `rows`; as for `run`.
        inputs: inputs that have the same value for all rows, as the model takes them.
        on_note: is called with notes, such as on columns that no input takes or how pixels are
            scaled; by default the logger `graphmill.batch` logs them as warnings.
        host: the host to run on; by default that of this process.
        options: as for `run`; with `keep_going=True` a row that fails has an `error`.

    Raises:
        OpError: a file cannot be read, or a row failed and `keep_going` is off.
    """
    if (rows is None) == (each is None):
        raise InvalidArgumentError("pass either rows or each (files with rows), and not both")
    on_note = renamed_argument(options, "tell", "on_note", on_note)
    settings = _settings(model, options)
    constants = {name: _as_array(value) for name, value in (inputs or {}).items()}
    sources = [] if each is None else find_sources(files.as_path(item) for item in _listed(each))
    loaded = load(settings, _host(host))
    with loaded.session, queue_runners_running(loaded, is_on=settings.queue_runners):
        prepared = prepare(settings, loaded, constants, on_note or _log_note)
        read = prepared.reader.values(rows) if rows is not None else prepared.reader.read(sources)
        for result in prepared.runner.results(read):
            yield from _predictions(result)


class _ProgressTracker:
    """Sum the results that the steps of all processes report, and call the caller's `progress`.

    Attributes:
        note: passes each note on once.
    """

    def __init__(
        self,
        jobs: int,
        sources: Sequence[SourceFile],
        resumed_rows: int,
        clock: Stopwatch,
        progress: Callable[[Progress], None] | None,
        on_note: Callable[[str], None] | None,
    ) -> None:
        self._positions = [0] * jobs
        self._bytes = max(sum(source.size for source in sources), 1)
        self._resumed_rows = resumed_rows
        self._clock = clock
        self._progress = progress or (lambda _: None)
        self._on_note = on_note or _log_note
        self._rows = resumed_rows
        self._failures = 0
        self.note = each_once(self._on_note)

    def message(self, job: int, message: Mapping[str, Any]) -> None:
        """Handle a message of a process."""
        if "note" in message:
            self.note(message["note"])
            return
        for failure in message["failures"]:
            self._on_note(failure)
        self._positions[job] = message["position"]
        self._failures += len(message["failures"])
        self._rows += message["rows"] + len(message["failures"])
        fraction = sum(self._positions) / len(self._positions) / self._bytes
        self._progress(
            Progress(
                self._rows,
                self._failures,
                min(fraction, 1.0),
                self._clock.seconds,
                self._resumed_rows,
            )
        )

    def result(self, result: BatchResult) -> None:
        """Handle the result of a step in this process."""
        self.message(0, result.summary())


def _run_here(
    settings: BatchSettings,
    sources: Sequence[SourceFile],
    store: ResultStore,
    constants: Mapping[str, Any],
    tracker: _ProgressTracker,
    host: Host | None,
) -> None:
    model = load(settings, _host(host))
    with model.session, queue_runners_running(model, is_on=settings.queue_runners):
        prepared = prepare(settings, model, constants, tracker.note)
        shard = Shard(0, 1, settings.batch_size, store.done())
        run_shard(prepared, sources, shard, store, tracker.result)


def _log_note(text: str) -> None:
    """Log a note for which the caller has given no function."""
    import logging  # here: most runs have no notes

    logging.getLogger("graphmill.batch").warning("%s", text)


def _predictions(result: BatchResult) -> Iterator[Prediction]:
    """Yield the predictions of a batch, including failed rows, in the order of the rows."""
    found = [
        (row.index, Prediction(row.file, row.line, {k: v[i] for k, v in result.outputs.items()}))
        for i, row in enumerate(result.rows)
    ]
    found += [
        (failed.row.index, Prediction(failed.row.file, failed.row.line, {}, failed.error))
        for failed in result.failures
    ]
    found.sort(key=lambda item: item[0])
    yield from (prediction for _, prediction in found)


def _settings(model: AnyPath, options: Mapping[str, Any]) -> BatchSettings:
    known = {field.name for field in fields(BatchSettings)} - {"model"}
    for name in options:
        if name not in known:
            raise TypeError(
                f"there is no option {name!r}{suggest(name, known)}; the options are "
                f"{', '.join(sorted(known))}"
            )
    size = options.get("batch_size", 1)
    if size < 1:
        raise InvalidArgumentError(f"batch_size={size}: expected at least one row")
    return BatchSettings(files.as_path(model), **options)


def _check_target(target: str, *, overwrite: bool) -> None:
    if files.is_url(target):
        raise UnimplementedError(f"{target} is a URL; write a local file, then copy it")
    check_format(target)
    if files.exists(target) and not overwrite:
        error = AlreadyExistsError(f"{target} exists already")
        error.add_note("try: --overwrite (overwrite=True), or another file")
        raise error


def _stdin_copy(store: ResultStore, names: Sequence[str], kind: str | None) -> str | None:
    """Copy standard input to a file in the store, which several processes and runs can read."""
    if STDIN not in names:
        return None
    path = str(store.folder / STDIN_COPY)
    copy_stdin(path, kind)
    return path


def _identity(
    settings: BatchSettings, sources: Sequence[SourceFile], constants: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the settings, file stamps and inputs that must be equal for a run to be resumed."""
    content = hashlib.sha256()
    for source in sources:
        content.update(f"{source.path}\0{source.stamp}\0".encode("utf-8", "surrogateescape"))
    values = hashlib.sha256()
    for name, array in sorted(constants.items()):
        values.update(f"{name}\0{array.dtype}\0{array.shape}\0".encode())
        values.update(repr(array.tolist()).encode())
    options = {k: v for k, v in asdict(settings).items() if k not in _NOT_IN_IDENTITY}
    return {**options, "files": content.hexdigest(), "inputs": values.hexdigest()}


def _as_array(value: Any) -> np.ndarray[Any, Any]:
    """Return an input's value; texts are an array of bytes."""
    array = np.asarray(value)
    if array.dtype.kind not in "US":
        return array
    texts = np.empty(array.shape, object)
    texts.reshape(-1)[:] = [
        text.encode() if isinstance(text, str) else text for text in array.reshape(-1).tolist()
    ]
    return texts


def _listed(each: AnyPath | Iterable[AnyPath]) -> list[AnyPath]:
    return [each] if isinstance(each, str | os.PathLike) else list(each)


def _host(host: Host | None) -> Host:
    from graphmill.plugin.host import default_host

    return host or default_host()
