"""Log lines of a server as text and JSON, at no cost when disabled."""

from __future__ import annotations

import json
import logging

import pytest

from graphmill.runtime.process import event_log as core_event_log
from graphmill_plugins._server.event_log import (
    JsonFormatter,
    TextFormatter,
    log_event,
    write_events,
)


@pytest.fixture
def record() -> logging.LogRecord:
    made = logging.LogRecord("graphmill.server", logging.INFO, "", 0, "session created", (), None)
    made.created = 1_700_000_000.25
    made.fields = {"session": "ab12", "why": "two words", "fetches": ["y:0"]}
    return made


def test_text_is_one_line_with_fields(record: logging.LogRecord) -> None:
    assert TextFormatter().format(record) == (
        "2023-11-14T22:13:20.250Z INFO graphmill.server session created "
        'session=ab12 why="two words" fetches="[\\"y:0\\"]"'
    ).replace('fetches="[\\"y:0\\"]"', 'fetches=["y:0"]')


def test_json_is_one_object_a_line(record: logging.LogRecord) -> None:
    assert json.loads(JsonFormatter().format(record)) == {
        "time": "2023-11-14T22:13:20.250Z",
        "level": "info",
        "logger": "graphmill.server",
        "event": "session created",
        "session": "ab12",
        "why": "two words",
        "fetches": ["y:0"],
    }


def test_fields_of_a_record_of_the_core_are_written_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO, "graphmill.jit"):
        core_event_log.log_event("jit", core_event_log.INFO, "compiled", cluster="c0", seconds=0.5)
    (record,) = caplog.records
    assert TextFormatter().format(record).endswith(" compiled cluster=c0 seconds=0.5")
    document = json.loads(JsonFormatter().format(record))
    assert (document["event"], document["cluster"]) == ("compiled", "c0")


def test_a_traceback_stays_with_its_event(record: logging.LogRecord) -> None:
    try:
        raise ValueError("broken")
    except ValueError as error:
        record.exc_info = type(error), error, error.__traceback__
    assert "broken" in json.loads(JsonFormatter().format(record))["traceback"]
    assert TextFormatter().format(record).splitlines()[-1] == "ValueError: broken"


def test_events_below_the_level_are_not_written(capsys: pytest.CaptureFixture[str]) -> None:
    logger = logging.getLogger("graphmill.server.test")
    handler = write_events("info", "json")
    try:
        log_event(logger, logging.DEBUG, "call", method="RunStep")
        log_event(logger, logging.INFO, "ready", address="here")
    finally:
        logging.getLogger("graphmill").removeHandler(handler)
        logging.getLogger("graphmill").setLevel(logging.NOTSET)
    (line,) = capsys.readouterr().err.splitlines()
    assert json.loads(line)["address"] == "here"
