"""Choose exit codes and print errors: what happened, where, what to try."""

from __future__ import annotations

import json
import os
import traceback
from typing import TYPE_CHECKING, Any

import click

from graphmill.cli.output.visible_text import one_line, say, visible, visible_json
from graphmill.errors import OpError, PermissionDeniedError, UnimplementedError
from graphmill.models.execution_errors import is_from_execution

if TYPE_CHECKING:
    from collections.abc import Iterator

OK = 0
FAULT = 1
"""A bug in graphmill or in a plugin; Python's traceback is shown."""
USAGE = 2
"""The command line itself is wrong: an unknown command or option, a missing argument."""
INVALID = 3
"""The model, an input or a name on the command line is not valid; nothing was run."""
EXECUTION = 4
"""The graph failed while it ran, or it could not be prepared, as for an op without a kernel."""
UNSUPPORTED = 5
"""Not supported: a feature of an op or format, or a package that is not installed."""
INTERRUPTED = 130
"""The user interrupted the command (Ctrl-C)."""

_CONTINUED = " " * 4
"""The prefix of continuation lines of a message, which may contain text of the model."""


def exit_code(error: OpError) -> int:
    """Return the exit code for an error."""
    if isinstance(error, UnimplementedError):
        return UNSUPPORTED
    # A node may be refused while variables are restored, before the step.
    is_refused_node = isinstance(error, PermissionDeniedError) and error.node is not None
    return EXECUTION if is_refused_node or is_from_execution(error) else INVALID


def wants_traceback(*, asked: bool) -> bool:
    """Return whether tracebacks are shown: by `--traceback` or `GRAPHMILL_TRACEBACK=1`."""
    return asked or os.environ.get("GRAPHMILL_TRACEBACK", "") not in {"", "0"}


def report(error: OpError, *, as_json: bool, with_traceback: bool) -> None:
    """Print an error to stderr, as text or as a JSON object."""
    if with_traceback:
        click.echo(visible("".join(traceback.format_exception(error))), err=True, nl=False)
    if as_json:
        text = json.dumps({"error": _as_data(error)}, ensure_ascii=False)
        click.echo(visible_json(text), err=True)
        return
    click.secho("error: ", fg="red", bold=True, nl=False, err=True)
    for line in _lines(error):
        say(line.replace("\n", f"\n{_CONTINUED}"), err=True)


def report_usage(error: click.ClickException, *, as_json: bool) -> None:
    """Print an error in the command line itself to stderr, in the forms of `report`."""
    if not as_json:
        error.show()
        return
    missing = dict.fromkeys(("code", "node", "op", "device", "plugin"))
    data: dict[str, Any] = {
        "type": type(error).__name__,
        "message": error.format_message(),
        **missing,
        "notes": [],
        "exit_code": error.exit_code,
    }
    click.echo(visible_json(json.dumps({"error": data}, ensure_ascii=False)), err=True)


def _lines(error: OpError) -> Iterator[str]:
    message = error.message.rstrip()
    yield f"{type(error).__name__}: {message}"
    location = _location(error)
    if location:
        yield f"  where: {one_line(location)}"
    for note in getattr(error, "__notes__", ()):
        yield f"  {note}"


def _location(error: OpError) -> str:
    parts = (
        ("node", error.node),
        ("op", error.op_type),
        ("device", error.device),
        ("plugin", error.plugin),
    )
    named = ((kind, str(value).removeprefix(f"{kind} ")) for kind, value in parts if value)
    return ", ".join(f"{kind} {value}" for kind, value in named)


def _as_data(error: OpError) -> dict[str, Any]:
    return {
        "type": type(error).__name__,
        "code": error.code,
        "message": error.message,
        "node": error.node,
        "op": error.op_type,
        "device": error.device,
        "plugin": error.plugin,
        "notes": list(getattr(error, "__notes__", ())),
        "exit_code": exit_code(error),
    }
