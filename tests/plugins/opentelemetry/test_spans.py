"""Steps and compilations as spans, by a tracer that records them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import graphmill
from graphmill import ops
from graphmill.errors import InvalidArgumentError
from graphmill.registry import PluginError
from graphmill.runtime.process.event_log import log_event, stop_listening

pytest.importorskip("opentelemetry")

from opentelemetry import trace

import graphmill_plugins.opentelemetry as plugin

if TYPE_CHECKING:
    from collections.abc import Iterator


class Span(trace.NonRecordingSpan):
    """A span that records its attributes, status, errors and end."""

    def __init__(self, name: str, attributes: dict[str, Any], start: int | None) -> None:
        super().__init__(trace.INVALID_SPAN_CONTEXT)
        self.name, self.attributes, self.start = name, dict(attributes), start
        self.status: Any = None
        self.errors: list[BaseException] = []
        self.ended: int | None = None
        self.is_ended = False

    def set_attribute(self, key: str, value: Any) -> None:
        self.attributes[key] = value

    def set_status(self, status: Any, description: str | None = None) -> None:
        self.status = status

    def record_exception(self, exception: BaseException, *_: Any, **__: Any) -> None:
        self.errors.append(exception)

    def end(self, end_time: int | None = None) -> None:
        self.is_ended, self.ended = True, end_time


class Tracer:
    """Makes spans and keeps them."""

    def __init__(self) -> None:
        self.spans: list[Span] = []

    def start_span(
        self, name: str, *, attributes: dict[str, Any], start_time: int | None = None
    ) -> Span:
        self.spans.append(Span(name, attributes, start_time))
        return self.spans[-1]


@pytest.fixture
def tracer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Tracer]:
    made = Tracer()
    monkeypatch.setattr(trace, "get_tracer", lambda name: made)
    yield made
    stop_listening("jit", plugin.report_compilation)


def session() -> graphmill.Session:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [None], name="x")
        ops.array.gather_v2(x, graph.placeholder("int32", [], name="i"), 0, name="out")
    return graphmill.Session(graph=graph, host=graphmill.Host(plugins=[plugin]))


def test_a_step_is_a_span(tracer: Tracer) -> None:
    with session() as opened:
        opened.run("out:0", {"x:0": [1.0], "i:0": np.int32(0)})
    (span,) = tracer.spans
    assert (span.name, span.is_ended, span.status) == ("graphmill.step", True, None)
    assert span.attributes["graphmill.fetches"] == ["out:0"]


def test_a_step_that_fails_has_its_error_and_node(tracer: Tracer) -> None:
    with session() as opened, pytest.raises(InvalidArgumentError):
        opened.run("out:0", {"x:0": [1.0], "i:0": np.int32(7)})
    (span,) = tracer.spans
    assert span.is_ended
    assert span.status.status_code is trace.StatusCode.ERROR
    assert len(span.errors) == 1
    assert span.attributes["graphmill.node"] == "out"


def test_a_compilation_is_a_span_of_its_length(tracer: Tracer) -> None:
    graphmill.Host(plugins=[plugin])
    log_event("jit", 20, "compiled", cluster="c", seconds=0.25, cause="a new signature")
    log_event("jit", 20, "state changed", after="compiled")
    (span,) = tracer.spans
    assert span.name == "graphmill.compile"
    assert span.ended is not None
    assert span.start is not None
    assert span.ended - span.start == 250_000_000
    assert span.attributes["graphmill.cause"] == "a new signature"
    assert span.attributes["graphmill.seconds"] == 0.25


def test_the_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(PluginError, match=r"pip install 'graphmill\[opentelemetry\]'"):
        graphmill.Host(plugins=[plugin])
