"""Report steps and compilations to OpenTelemetry (API only; the program chooses the SDK).

It is off unless it is loaded, by `GRAPHMILL_LOAD_PLUGINS=graphmill_plugins.opentelemetry` or
`Host(plugins=[graphmill_plugins.opentelemetry])`, because an observed step takes longer.

A step is a span `graphmill.step`, with its error if it fails, and a compilation a span
`graphmill.compile`. The counters are `graphmill.steps` and `graphmill.compilations`. Needs
`pip install 'graphmill[opentelemetry]'`.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from graphmill.errors import FailedPreconditionError
from graphmill.spi import hookimpl, install_command
from graphmill.spi.process import listen

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphmill.errors import OpError
    from graphmill.spi import StepInfo

_NAME: Final = "graphmill"
_COMPILATIONS: Final = ("compiled", "loaded", "refused")
_spans: dict[int, Any] = {}  # the spans of running steps, by step id


@hookimpl
def graphmill_configure(host: object) -> None:
    """Listen to compilations.

    Raises:
        FailedPreconditionError: opentelemetry-api is not installed.
    """
    del host  # its observers are the functions below
    _api()
    listen("jit", report_compilation)


@hookimpl
def graphmill_step_started(step: StepInfo) -> None:
    """Start the span of a step."""
    trace, metrics = _api()
    attributes = {
        "graphmill.session": step.session,
        "graphmill.step_id": step.step_id,
        "graphmill.feeds": list(step.feeds),
        "graphmill.fetches": list(step.fetches),
        "graphmill.targets": list(step.targets),
    }
    _spans[step.step_id] = trace.get_tracer(_NAME).start_span(
        "graphmill.step", attributes=attributes
    )
    metrics.get_meter(_NAME).create_counter("graphmill.steps").add(1)


@hookimpl
def graphmill_step_finished(step: StepInfo, error: OpError | None) -> None:
    """End the span of a step, with the error if it failed."""
    trace, _ = _api()
    span = _spans.pop(step.step_id, None)
    if span is None:
        return  # the plugin was loaded while the step ran
    if error is not None:
        span.record_exception(error)
        span.set_status(trace.Status(trace.StatusCode.ERROR, error.message))
        if error.node is not None:
            span.set_attribute("graphmill.node", error.node)
    span.end()


def report_compilation(event: str, fields: Mapping[str, object]) -> None:
    """Report an attempt to compile a cluster; other events of the compiler are left out."""
    if event not in _COMPILATIONS:
        return
    trace, metrics = _api()
    ended = time.time_ns()
    seconds = fields.get("seconds")
    length = round(seconds * 1e9) if isinstance(seconds, float) else 0
    attributes = {
        f"graphmill.{name}": value if isinstance(value, (bool, int, float)) else str(value)
        for name, value in fields.items()
    }
    span = trace.get_tracer(_NAME).start_span(
        "graphmill.compile",
        attributes={"graphmill.outcome": event, **attributes},
        start_time=ended - length,
    )
    span.end(ended)
    counter = metrics.get_meter(_NAME).create_counter("graphmill.compilations")
    counter.add(1, {"graphmill.outcome": event})


def _api() -> tuple[Any, Any]:
    """Return the modules `trace` and `metrics`."""
    try:
        from opentelemetry import metrics, trace
    except ImportError as error:
        raise FailedPreconditionError(
            f"the plugin needs opentelemetry-api ({error}); try: {install_command('opentelemetry')}"
        ) from error
    return trace, metrics
