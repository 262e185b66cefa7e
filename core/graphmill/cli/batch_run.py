"""`graphmill run --each`: the options of a batch run, and its progress on stderr."""

from __future__ import annotations

import sys
from dataclasses import asdict, astuple
from typing import TYPE_CHECKING, Any, Final

import click

from graphmill.cli.error_reporting import FAULT, OK
from graphmill.cli.output.formatting import emit
from graphmill.cli.output.progress import INTERVAL, stage
from graphmill.cli.output.visible_text import say

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from graphmill.batch import Progress
    from graphmill.cli.options import Settings
    from graphmill.inputs.source import Source

_STDIN_FORMATS: Final = ("csv", "jsonl", "txt", "tfrecord", "paths")
_TERMINAL_INTERVAL: Final = 0.5
_MAX_LINES: Final = 20
"""Maximum number of failed rows that are reported one by one; the others are counted."""
BATCH_OPTIONS: Final = (
    *("each", "out", "batch_size", "keep_going", "resume", "jobs", "columns", "whole_files"),
    "stdin_format",
)
"""The names of the parameters of `batch_options`."""
_NEEDS_EACH: Final = {
    "batch_size": "--batch",
    "out": "--out",
    "keep_going": "--keep-going",
    "resume": "--resume",
    "jobs": "--jobs",
    "columns": "--columns",
    "whole_files": "--whole-files",
    "stdin_format": "--format",
}


def batch_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a batch run to a command; all are None or empty if not given."""
    positive = click.IntRange(min=1)
    for option in (
        click.option("--format", "stdin_format", type=click.Choice(_STDIN_FORMATS),
                     help="For --each -: the format of standard input."),
        click.option("--whole-files", is_flag=True,
                     help="For --each: a text file is one string, instead of one for each line."),
        click.option("--columns", help="For --each: the columns of tables to use, as a,b,c."),
        click.option("--jobs", type=positive, help="For --each: the number of processes."),
        click.option("--resume", is_flag=True, help="For --each: continue an interrupted run."),
        click.option("--keep-going", is_flag=True,
                     help="For --each: report rows that fail and leave them out."),
        click.option("--out", type=click.Path(),
                     help="For --each: the file of the outputs; .csv, .jsonl, .npz or "
                     ".parquet."),
        click.option("--batch", "batch_size", type=positive,
                     help="For --each: the number of rows in a step (default: 32)."),
        click.option("--each", multiple=True, type=click.Path(),
                     metavar="FILES",
                     help="Run all rows of a file, folder or pattern; - for standard input; may "
                     "be repeated."),
    ):  # fmt: skip
        function = option(function)
    return function


def check_batch_options(options: Mapping[str, Any]) -> bool:
    """Return whether this is a batch run.

    Raises:
        click.UsageError: an option needs `--each`, or `--out` is missing.
    """
    if options["each"]:
        if not options["out"]:
            raise click.UsageError("--each needs --out with the file of the outputs.")
        return True
    for name, spelling in _NEEDS_EACH.items():
        if options[name]:
            raise click.UsageError(f"{spelling} needs --each with the files of the rows.")
    return False


def refuse_with_each(**options: Any) -> None:
    """Refuse options that a batch run does not support.

    Raises:
        click.UsageError: one is given.
    """
    for name, value in options.items():
        if value is not None:
            raise click.UsageError(f"--{name} cannot be used with --each; leave it out.")


def run_batch(
    settings: Settings,
    model: str,
    sources: Mapping[str, Source],
    options: Mapping[str, Any],
    run_options: Mapping[str, Any],
    *,
    overwrite: bool,
) -> int:
    """Run the batch, print a summary, and return the exit code: 1 if rows failed.

    Args:
        settings: the common options.
        model: the path of the model.
        sources: the inputs that are the same for all rows.
        options: the values of `batch_options`.
        run_options: further settings of `graphmill.batch.run`.
        overwrite: whether files of an earlier run are replaced.
    """
    from graphmill import batch

    display = _Display(model)
    columns = options["columns"]
    host = settings.host
    interval = _TERMINAL_INTERVAL if sys.stderr.isatty() else INTERVAL
    try:
        with stage(f"running {model}", display.lines, interval=interval):
            report = batch.run(
                model,
                options["each"],
                options["out"],
                sources=tuple(astuple(source) for source in sources.values()),
                batch_size=options["batch_size"] or 32,
                jobs=options["jobs"] or 1,
                resume=options["resume"],
                overwrite=overwrite,
                stdin_format=options["stdin_format"],
                keep_going=options["keep_going"],
                columns=tuple(columns.split(",")) if columns else (),
                whole_files=options["whole_files"],
                progress=display.follow,
                on_note=display.note,
                host=host,
                **run_options,
            )
    finally:
        display.finish()
    emit({"model": model, **asdict(report)}, _summary(report), as_json=settings.as_json)
    return FAULT if report.failures else OK


class _Display:
    """The display of a batch run's progress on stderr."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._progress: Progress | None = None
        self._lines = 0

    def follow(self, progress: Progress) -> None:
        """Record the progress of the run; called by the thread that runs it."""
        self._progress = progress

    def lines(self) -> list[str]:
        """Return the progress as lines; called by the thread of the display."""
        return [] if self._progress is None else [str(self._progress)]

    def note(self, line: str) -> None:
        """Show a note, or a row that failed."""
        self._lines += 1
        if self._lines <= _MAX_LINES:
            say(f"graphmill: {line}", err=True)

    def finish(self) -> None:
        """Show the number of lines that were left out."""
        if self._lines > _MAX_LINES:
            say(f"graphmill: and {self._lines - _MAX_LINES} more", err=True)


def _summary(report: Any) -> Iterator[str]:
    text = f"{report.rows} rows in {report.seconds:.1f} s"
    if report.resumed_rows:
        text += f" ({report.resumed_rows} of them by an earlier run)"
    if report.failures:
        text += f", {report.failures} failed"
    yield f"{report.out}: {text}"
