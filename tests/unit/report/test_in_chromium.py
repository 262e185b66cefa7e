"""The page works in a headless Chromium, at two sizes, without network requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.unit.report.chromium import Page, find_chromium
from tests.unit.report.report_graphs import chain, scopes_and_a_loop

import graphmill
from graphmill import report

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CHROMIUM = find_chromium()
pytestmark = [
    pytest.mark.divided,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed on this machine"),
]
BOXES = "[...document.querySelectorAll('#graph .box')]"
FOCUSED = "document.activeElement.getAttribute('aria-label')"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("reports")
    made = {}
    graphs: dict[str, tuple[graphmill.Graph, Any]] = {
        "small": (scopes_and_a_loop(), np.ones((2, 4), "float32")),
        "large": (chain(3_000), [1.0]),
    }
    for name, (graph, value) in graphs.items():
        made[name] = folder / f"{name}.html"
        with graphmill.Session(graph=graph) as session:
            report.write(session, made[name], fetches="out:0", feed_dict={"x:0": value}, steps=2)
    return made


@pytest.fixture(scope="module", params=[(1280, 900), (420, 800)], ids=["wide", "narrow"])
def page(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Page]:
    assert CHROMIUM is not None
    with Page(CHROMIUM, tmp_path_factory.mktemp("profile"), *request.param) as opened:
        yield opened


@pytest.fixture
def small(page: Page, files: dict[str, Path]) -> Page:
    page.events.clear()
    page.open(files["small"])
    return page


@pytest.fixture
def large(page: Page, files: dict[str, Path]) -> Page:
    page.events.clear()
    page.open(files["large"])
    return page


def test_the_page_draws_without_faults_or_requests(small: Page, files: dict[str, Path]) -> None:
    assert small.evaluate("document.documentElement.dataset.ready") is not None
    labels = small.evaluate(f"{BOXES}.map((box) => box.getAttribute('aria-label'))")
    assert any(label.startswith("layer_1/product, MatMul") for label in labels)
    assert small.evaluate("document.querySelectorAll('#graph .edge').length") > 5
    assert small.evaluate("document.querySelectorAll('#memory figure').length") == 1
    assert small.faults() == []
    assert small.requests() == [files["small"].as_uri()]


def test_the_page_is_not_wider_than_the_window(small: Page) -> None:
    assert small.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0


def test_boxes_of_a_group_do_not_overlap(small: Page) -> None:
    overlaps = small.evaluate(f"""(() => {{
        const leaves = {BOXES}.filter((box) => !box.classList.contains("open"));
        const rects = leaves.map((box) => box.querySelector("rect").getBoundingClientRect());
        let count = 0;
        rects.forEach((one, i) => rects.slice(i + 1).forEach((other) => {{
            if (one.left < other.right - 1 && other.left < one.right - 1
                && one.top < other.bottom - 1 && other.top < one.bottom - 1) count += 1;
        }}));
        return count;
    }})()""")
    assert overlaps == 0


def test_groups_unfold_by_key(large: Page) -> None:
    large.evaluate("document.getElementById('fold').click()")
    before = large.evaluate(f"{BOXES}.length")
    large.evaluate(f"{BOXES}.find((box) => box.classList.contains('group')).focus()")
    assert large.evaluate("document.activeElement.getAttribute('aria-expanded')") == "false"
    large.press("Enter")
    assert large.evaluate(f"{BOXES}.length") > before
    assert large.evaluate("document.activeElement.getAttribute('aria-expanded')") == "true"
    assert "is unfolded" in large.evaluate("document.getElementById('graph-status').textContent")
    rows = large.evaluate("document.querySelectorAll('#boxes tbody tr').length")
    assert rows == large.evaluate(f"{BOXES}.length")
    assert large.faults() == []


def test_arrow_keys_go_to_the_nearest_box(small: Page) -> None:
    small.evaluate(f"{BOXES}.find((box) => box.dataset.id.startsWith('n')).focus()")
    first = small.evaluate(FOCUSED)
    small.press("ArrowDown")
    second = small.evaluate(FOCUSED)
    assert first != second
    stops = small.evaluate("document.querySelectorAll('#graph [tabindex=\"0\"]').length")
    assert stops == 1


def test_a_node_is_found_by_name_and_its_inputs_lead_on(large: Page) -> None:
    name = "block_4/layer_3/Tanh_7"
    large.evaluate(f"""(() => {{
        const find = document.getElementById("find");
        find.value = "{name}";
        find.dispatchEvent(new Event("change"));
    }})()""")
    assert large.evaluate("document.querySelector('#details h3').textContent") == name
    details = large.evaluate("document.getElementById('details').textContent")
    assert "Tanh" in details
    assert "CPU:0" in details
    large.evaluate("document.querySelector('#details .link').click()")
    shown = large.evaluate("document.querySelector('#details h3').textContent")
    assert shown == "block_4/layer_3/AddV2_7"
    assert large.faults() == []


def test_every_grouping_and_colour_draws(small: Page) -> None:
    for choice in ("grouping", "colour"):
        for value in small.evaluate(
            f"[...document.getElementById('{choice}').options].map((option) => option.value)"
        ):
            small.evaluate(f"""(() => {{
                const choice = document.getElementById("{choice}");
                choice.value = "{value}";
                choice.dispatchEvent(new Event("change"));
            }})()""")
            assert small.evaluate(f"{BOXES}.length") > 0
    assert small.faults() == []


def test_the_timeline_is_navigated_by_keys(small: Page) -> None:
    small.evaluate("document.getElementById('timeline').focus()")
    small.press("ArrowRight")
    told = small.evaluate("document.getElementById('timeline-status').textContent")
    assert "from" in told
    small.evaluate("document.getElementById('step').value = '0'")
    small.evaluate("document.getElementById('step').dispatchEvent(new Event('change'))")
    assert small.faults() == []


def test_a_button_of_a_table_shows_its_node(small: Page) -> None:
    name = small.evaluate("document.querySelector('button[data-node]').dataset.node")
    small.evaluate("document.querySelector('button[data-node]').click()")
    assert small.evaluate("document.querySelector('#details h3').textContent") == name


def test_dark_follows_the_system_and_the_button(page: Page, files: dict[str, Path]) -> None:
    page.events.clear()
    page.open(files["small"], dark=True)
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.evaluate("document.getElementById('theme').click()")
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(251, 251, 250)"
    assert page.faults() == []
