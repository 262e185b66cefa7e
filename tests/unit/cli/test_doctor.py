"""`graphmill doctor` tells what is installed, what is wrong, and what to do."""

from __future__ import annotations

import json
import warnings

import pytest

from graphmill.plugin.host import Host


@pytest.fixture
def host(use_dists):
    use_dists("broken_import", "spi_too_new", "rival_a", "rival_b")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Host()


def test_each_broken_plugin_has_a_line_of_advice(graphmill_cli, host) -> None:
    outcome = graphmill_cli("doctor", host=host)
    assert outcome.code == 1
    advice = [line for line in outcome.out.splitlines() if line.startswith("-> ")]
    unused = [r for r in host.plugins if r.status in ("failed", "conflict")]
    assert len(advice) >= len(unused) >= 3
    for record in unused:
        assert any(repr(record.name) in line for line in advice), record.name
    assert any("install what it lacks" in line for line in advice)
    assert any("needs graphmill.spi >=7.0,<8" in line and "upgrade" in line for line in advice)


def test_json_has_everything(graphmill_cli) -> None:
    outcome = graphmill_cli("doctor", "--json")
    data = json.loads(outcome.out)
    assert data["versions"]["numpy"]
    assert data["spi"].startswith("1.")
    assert {"cpu", "default_executor", "kernels"} <= {p["name"] for p in data["plugins"]}
    assert data["jax"]["platform"] == "cpu" or "devices" in data["jax"]
