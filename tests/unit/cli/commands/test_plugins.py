"""`graphmill plugins` lists every plugin and its errors."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from graphmill.plugin.host import Host
from graphmill.plugin.manager import PluginWarning

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def host(use_dists: Callable[..., None]) -> Host:
    use_dists("broken_import")
    with pytest.warns(PluginWarning):
        return Host()


def test_broken_plugins_are_listed_with_the_reason(
    graphmill_cli: Callable[..., Any], host: Host
) -> None:
    outcome = graphmill_cli("plugins", host=host)
    assert outcome.code == 0
    broken = next(record for record in host.plugins if record.status == "failed")
    assert f"{broken.name}: {broken.error.splitlines()[0]}" in outcome.out


def test_json_holds_every_record(graphmill_cli: Callable[..., Any], host: Host) -> None:
    data = json.loads(graphmill_cli("plugins", "--json", host=host).out)
    assert [item["name"] for item in data["plugins"]] == [record.name for record in host.plugins]
    assert {"failed"} <= {item["status"] for item in data["plugins"]}
