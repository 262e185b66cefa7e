"""The page is well-formed, self-contained, safe for any name, and accessible."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.unit.report.report_graphs import scopes_and_a_loop

import graphmill
from graphmill import report
from graphmill.errors import OpError
from graphmill.proto import GraphDef

if TYPE_CHECKING:
    from pathlib import Path

HOSTILE = "</script><script>alert(1)</script><!--&\"'"
VOID = {"meta", "input", "link", "br", "img"}


class Reader(HTMLParser):
    """Reads a page: its elements, its texts, and whether each element is closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self.open: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open:
            self.texts.setdefault(self.open[-1], []).append(data)

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attrs for name, attrs in self.elements if name == tag]


@pytest.fixture(scope="module")
def data() -> dict[str, Any]:
    with graphmill.Session(graph=scopes_and_a_loop()) as session:
        value = np.ones((2, 4), "float32")
        return report.collect(session, "out:0", {"x:0": value}, steps=2, title="A model")


@pytest.fixture(scope="module")
def page(data: dict[str, Any]) -> Reader:
    return Reader(report.render(data))


def test_every_element_is_closed(page: Reader) -> None:
    assert page.open == []


def test_the_data_are_in_the_page(page: Reader, data: dict[str, Any]) -> None:
    (attrs,) = [attrs for attrs in page.named("script") if attrs.get("type")]
    assert attrs["id"] == "data"
    embedded = next(text for text in page.texts["script"] if text.startswith("{"))
    assert json.loads(embedded) == {"graph": data["graph"], "steps": data["steps"]}


def test_nothing_is_loaded_from_elsewhere(page: Reader) -> None:
    for tag, attrs in page.elements:
        for name in ("src", "action", "data", "srcset", "poster"):
            assert name not in attrs, tag
        assert (attrs.get("href") or "#").startswith("#")
    policy = next(attrs for attrs in page.named("meta") if attrs.get("http-equiv"))
    assert (policy["content"] or "").startswith("default-src 'none'")


def test_landmarks_and_labels_are_present(page: Reader) -> None:
    for tag in ("header", "nav", "main", "footer", "h1"):
        assert len(page.named(tag)) == 1, tag
    assert page.named("html") == [{"lang": "en"}]
    ids = {attrs["id"] for _, attrs in page.elements if "id" in attrs}
    for attrs in page.named("section"):
        assert attrs["aria-labelledby"] in ids
    for attrs in page.named("a"):
        assert (attrs["href"] or "")[1:] in ids
    assert len(page.named("table")) == len(page.named("caption"))
    assert all(attrs.get("scope") == "col" for attrs in page.named("th"))
    for tag in ("aside", "canvas", "svg"):
        assert all("aria-label" in attrs for attrs in page.named(tag)), tag


def test_ids_are_unique(page: Reader) -> None:
    ids = [attrs["id"] for _, attrs in page.elements if "id" in attrs]
    assert len(ids) == len(set(ids))


def test_the_licence_of_the_layout_is_in_the_page(page: Reader) -> None:
    assert any("Permission is hereby granted" in text for text in page.texts["script"])


def test_names_are_escaped_in_html() -> None:
    message = GraphDef()
    message.node.add(name="x", op="Placeholder").attr["dtype"].type = 1
    node = message.node.add(name="out", op="Identity", input=["x"])
    node.attr["T"].type = 1
    with graphmill.Session(graph=message) as session:
        collected = report.collect(session, "out:0", {"x:0": 1.0}, steps=1, title=HOSTILE)
    collected["graph"]["name"][0] = HOSTILE
    for key in ("by_time", "by_bytes"):
        for row in collected[key]:
            row["node"] = row["op"] = HOSTILE
    collected["advice"].append({"title": HOSTILE, "text": HOSTILE, "nodes": [HOSTILE]})
    collected["not_compiled"].append(
        {"reason": HOSTILE, "count": 1, "ops": {HOSTILE: 1}, "nanoseconds": 0, "example": HOSTILE}
    )
    read = Reader(report.render(collected))
    assert read.open == []
    assert len(read.named("script")) == 3
    assert "".join(read.texts["h1"]) == HOSTILE


def test_write_replaces_a_file(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text("before")
    with graphmill.Session(graph=scopes_and_a_loop()) as session:
        report.write(session, path, fetches="out:0", title="A model")
    assert path.read_text("utf-8").startswith("<!doctype html>")


def test_a_path_that_is_a_folder_is_an_error(tmp_path: Path) -> None:
    with graphmill.Session(graph=scopes_and_a_loop()) as session, pytest.raises(OpError):
        report.write(session, tmp_path, fetches="out:0")
