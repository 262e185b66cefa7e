"""Format a server's log: one line per event, with fields.

Loggers are `graphmill.server` (calls, at level DEBUG), `graphmill.server.master` (sessions, at
level INFO), `graphmill.serving` (models) and `graphmill.serving.access` (requests). The fields are
in the record's attribute `fields`, so that any handler can format them. Only `write_events`, which
the commands of servers call, configures logging.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

LEVELS: Final = ("debug", "info", "warning", "error")
FORMATS: Final = ("text", "json")
_LOGGER: Final = "graphmill"


def log_event(logger: logging.Logger, level: int, event: str, /, **fields: object) -> None:
    """Log an event with fields, if the level is enabled."""
    if logger.isEnabledFor(level):
        logger.log(level, event, extra={"fields": fields})


class TextFormatter(logging.Formatter):
    """Formats an event as one line of text.

    Example: `2026-11-22T10:00:00.123Z INFO graphmill.server session created session=ab12`.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as one line, and a traceback below it if there is one."""
        fields = "".join(f" {name}={_shown(value)}" for name, value in _fields(record).items())
        text = f"{_time(record)} {record.levelname} {record.name} {_line(_event(record))}{fields}"
        return f"{text}\n{self.formatException(record.exc_info)}" if record.exc_info else text


class JsonFormatter(logging.Formatter):
    """One JSON object per line: `time`, `level`, `logger`, `event` and the event's fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as one line of JSON."""
        fields: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": _event(record),
            **_fields(record),
        }
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        return json.dumps(fields, ensure_ascii=False, default=str)


def write_events(level: str, form: str, others: Sequence[str] = ()) -> logging.Handler:
    """Write the records of graphmill's loggers to stderr from now on; return the handler.

    Args:
        level: one of `LEVELS`.
        form: one of `FORMATS`.
        others: loggers of other packages, whose warnings and errors are written, too.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    logger = logging.getLogger(_LOGGER)
    logger.setLevel(level.upper())
    logger.addHandler(handler)
    for name in others:
        other = logging.getLogger(name)
        other.setLevel(max(logger.level, logging.WARNING))
        other.addHandler(handler)
    return handler


def stop_writing(handler: logging.Handler, others: Sequence[str] = ()) -> None:
    """Undo `write_events`, except for the levels of the loggers."""
    for name in (_LOGGER, *others):
        logging.getLogger(name).removeHandler(handler)


def _event(record: logging.LogRecord) -> str:
    """Return the event's name; the messages of core's records also contain the fields."""
    event: str = getattr(record, "event", "") or record.getMessage()
    return event


def _fields(record: logging.LogRecord) -> dict[str, object]:
    fields: dict[str, object] = getattr(record, "fields", {})
    return fields


def _shown(value: object) -> str:
    """Return a value as text of one line, without control characters."""
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    is_word = text and text.isprintable() and " " not in text and "=" not in text
    return text if is_word else json.dumps(text)


def _line(text: str) -> str:
    """Return a message as text of one line, which cannot look like further events."""
    return text if text.isprintable() else json.dumps(text)


def _time(record: logging.LogRecord) -> str:
    when = datetime.fromtimestamp(record.created, UTC)
    return f"{when:%Y-%m-%dT%H:%M:%S}.{when.microsecond // 1000:03d}Z"
