"""Metrics as text, read back by a parser of the format."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from graphmill_plugins._server.prometheus import Metric, Sample, exposition

_SAMPLE = re.compile(
    r'(?P<name>\w+)(?:\{(?P<labels>(?:\w+="(?:\\.|[^"\\])*",?)*)\})? (?P<value>\S+)'
)
_LABEL = re.compile(r'(\w+)="((?:\\.|[^"\\])*)"')


def parsed(text: str) -> list[tuple[str, dict[str, str], float]]:
    """Return the samples of a text, checked line by line."""
    assert text.endswith("\n")
    found = []
    for line in text[:-1].split("\n"):
        if not line.startswith("# "):
            match = _SAMPLE.fullmatch(line)
            assert match, line
            labels = {name: unescaped(v) for name, v in _LABEL.findall(match["labels"] or "")}
            found.append((match["name"], labels, float(match["value"])))
    return found


def unescaped(text: str) -> str:
    return re.sub(r"\\(.)", lambda found: "\n" if found[1] == "n" else found[1], text)


@given(
    st.text(st.characters(exclude_categories=["Cs"])),
    st.dictionaries(st.from_regex(r"[a-z_]{1,8}", fullmatch=True), st.text('a"\\\n,={} é')),
    st.floats(allow_nan=False, allow_infinity=False) | st.integers(0, 2**53),
)
def test_any_label_and_number_can_be_read_back(
    text: str, labels: dict[str, str], value: float
) -> None:
    metric = Metric(
        "graphmill_steps_total", text.replace("\r", ""), "counter", [Sample(labels, value)]
    )
    assert parsed(exposition([metric])) == [("graphmill_steps_total", labels, float(value))]


def test_each_metric_has_its_help_and_its_kind() -> None:
    made = exposition([Metric("a", "b\nc", "gauge", [Sample({}, 3)])])
    assert made == "# HELP a b\\nc\n# TYPE a gauge\na 3\n"
