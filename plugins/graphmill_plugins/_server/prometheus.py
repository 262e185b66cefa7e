"""Prometheus' text format for metrics.

Semantics: https://prometheus.io/docs/instrumenting/exposition_formats, version 0.0.4. The format
is simple, and the client library for Python keeps its metrics in process-wide tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


class Sample(NamedTuple):
    """One value of a metric.

    Attributes:
        labels: the values of its labels by their names.
        value: the number.
        suffix: what follows the name of the metric: "_bucket", "_sum" or "_count" of a histogram.
    """

    labels: Mapping[str, str]
    value: float
    suffix: str = ""


class Metric(NamedTuple):
    """A metric.

    Attributes:
        name: its name with the unit, as `graphmill_request_bytes_total`.
        help: its description.
        kind: "counter", "gauge" or "histogram".
        samples: its values, by labels.
    """

    name: str
    help: str
    kind: Literal["counter", "gauge", "histogram"]
    samples: Iterable[Sample]


def exposition(metrics: Iterable[Metric]) -> str:
    """Return metrics as text."""
    lines: list[str] = []
    for metric in metrics:
        lines.append(f"# HELP {metric.name} {_escaped(metric.help)}")
        lines.append(f"# TYPE {metric.name} {metric.kind}")
        lines.extend(
            f"{metric.name}{s.suffix}{_labels(s.labels)} {_number(s.value)}" for s in metric.samples
        )
    return "\n".join(lines) + "\n"


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    pairs = (f'{name}="{_escaped(value, quotes=True)}"' for name, value in labels.items())
    return "{" + ",".join(pairs) + "}"


def _escaped(text: str, *, quotes: bool = False) -> str:
    text = text.replace("\\", r"\\").replace("\n", r"\n")
    return text.replace('"', r"\"") if quotes else text


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(float(value))
