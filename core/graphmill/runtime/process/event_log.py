"""Log events, one line each with fields; `GRAPHMILL_LOG=jit=debug,placement=info` shows them.

    log_event("jit", DEBUG, "compiled", cluster=name, seconds=0.2)

The loggers are `graphmill.jit`, `.placement`, `.plugins`, `.executor` and `.rendezvous` of Python's
`logging`. A record's message has the event and its fields as text, and its attribute `fields` has
them as a dict. graphmill itself sets levels and a handler only if the environment variable
requests it. While a program has not imported `logging`, nothing is logged and nothing is imported.
"""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any, Final

from graphmill.errors import InvalidArgumentError, suggest

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable, Mapping

    Listener = Callable[[str, Mapping[str, object]], object]

VARIABLE: Final = "GRAPHMILL_LOG"
FORMAT: Final = "%(asctime)s %(levelname)s %(name)s %(message)s"
"""The lines that the variable writes to stderr."""
LOGGERS: Final = ("jit", "placement", "plugins", "executor", "rendezvous")
LEVELS: Final = ("debug", "info", "warning", "error")
DEBUG: Final = 10
"""The level of frequent events; the number is that of `logging`."""
INFO: Final = 20
"""The level of rare events."""

_applied: list[str] = []  # the last value of the variable that was applied
_ready: dict[str, logging.Logger] = {}
_listeners: dict[str, tuple[Listener, ...]] = {}


def is_logged(name: str, level: int) -> bool:
    """Return whether events of a logger are logged at a level.

    Args:
        name: one of `LOGGERS`.
        level: `DEBUG` or `INFO`.
    """
    logger = _ready.get(name) or _logger(name)
    return name in _listeners or (logger is not None and logger.isEnabledFor(level))


def log_event(name: str, level: int, event: str, /, **fields: object) -> None:
    """Log an event if its level is enabled.

    Args:
        name: one of `LOGGERS`.
        level: `DEBUG` or `INFO`.
        event: what happened.
        fields: what it is about; text, numbers, lists or dicts.
    """
    for listener in _listeners.get(name, ()):
        listener(event, fields)
    logger = _ready.get(name) or _logger(name)
    if logger is not None and logger.isEnabledFor(level):
        text = "".join(f" {field}={_shown(value)}" for field, value in fields.items())
        logger.log(level, "%s", event + text, extra={"fields": fields, "event": event})


def listen(name: str, listener: Listener) -> None:
    """Call a function for each event of a logger, whatever its level; twice has no effect.

    Args:
        name: one of `LOGGERS`.
        listener: is given the event and its fields. It must be quick and raise nothing: the
            thread that compiles, places or loads waits for it.
    """
    known = _listeners.get(name, ())
    if listener not in known:
        _listeners[name] = (*known, listener)


def stop_listening(name: str, listener: Listener) -> None:
    """Stop calling a function for events; do nothing if it was not added."""
    remaining = tuple(one for one in _listeners.get(name, ()) if one is not listener)
    if remaining:
        _listeners[name] = remaining
    else:
        _listeners.pop(name, None)


def apply_environment() -> None:
    """Set levels and a handler as the environment variable says; do nothing if it is not set.

    Raises:
        InvalidArgumentError: it names an unknown logger or level.
    """
    value = os.environ.get(VARIABLE, "")
    if not value or value in _applied:
        return
    levels = parse_levels(value)
    import logging  # here: most programs do not ask for logs

    root = logging.getLogger("graphmill")
    if not any(isinstance(handler, logging.StreamHandler) for handler in root.handlers):
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter(FORMAT))
        root.addHandler(handler)
    for name, level in levels.items():
        logging.getLogger(f"graphmill.{name}").setLevel(level.upper())
    _applied[:] = [value]


def parse_levels(value: str) -> dict[str, str]:
    """Return the level of each logger that a value of `GRAPHMILL_LOG` names.

    Args:
        value: `jit=debug,placement=info`; a level alone applies to all loggers.

    Raises:
        InvalidArgumentError: a logger or level is unknown.
    """
    levels: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in value.split(","))):
        name, equals, level = part.rpartition("=")
        level = level.lower()
        if level not in LEVELS:
            raise InvalidArgumentError(
                f"{VARIABLE}: {part!r} has no known level{suggest(level, LEVELS)}; expected "
                f"LOGGER=LEVEL or LEVEL, with a level of {', '.join(LEVELS)}"
            )
        if equals and name not in LOGGERS:
            raise InvalidArgumentError(
                f"{VARIABLE}: there is no logger {name!r}{suggest(name, LOGGERS)}; the loggers are "
                f"{', '.join(LOGGERS)}"
            )
        levels.update(dict.fromkeys([name] if equals else LOGGERS, level))
    return levels


def _logger(name: str) -> logging.Logger | None:
    """Return a logger, with a handler that does nothing; None while `logging` is not imported."""
    module: Any = sys.modules.get("logging")
    null_handler = getattr(module, "NullHandler", None)  # absent while it is being imported
    if null_handler is None:
        return None
    logger: logging.Logger = module.getLogger(f"graphmill.{name}")
    if name != "placement":  # which prints to stderr, as TensorFlow does, if it has no handler
        logger.addHandler(null_handler())
    return _ready.setdefault(name, logger)


def _shown(value: object) -> str:
    """Return a value as text of one line, without control characters."""
    if isinstance(value, str) and value.isprintable() and value and not set(value) & set(' ="'):
        return value
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if text.isprintable() else json.dumps(value, default=str)
