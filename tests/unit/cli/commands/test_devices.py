"""`graphmill devices` lists the devices of a session."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from graphmill import errors
from graphmill.cli import error_reporting
from graphmill.cli.commands.devices import _bytes
from graphmill.plugin.host import Host
from graphmill.testing.fakes import strict_device

if TYPE_CHECKING:
    from collections.abc import Callable


def test_the_cpu_is_listed(graphmill_cli: Callable[..., Any]) -> None:
    outcome = graphmill_cli("devices")
    assert outcome.out.splitlines()[0].split() == ["device", "type", "memory", "limit"]
    assert "/job:localhost/replica:0/task:0/device:CPU:0  CPU" in outcome.out


def test_devices_are_written_as_json(graphmill_cli: Callable[..., Any]) -> None:
    (cpu,) = (
        device
        for device in json.loads(graphmill_cli("devices", "--json").out)["devices"]
        if device["device_type"] == "CPU"
    )
    assert cpu["memory_limit"] > 0
    assert cpu["incarnation"] != 0


def test_optional_device_types_are_listed_with_their_plugin(
    graphmill_cli: Callable[..., Any],
) -> None:
    host = Host(plugins=[strict_device])
    outcome = graphmill_cli("devices", host=host)
    (line,) = (line for line in outcome.out.splitlines() if line.startswith("BOXED"))
    assert "strict_device" in line
    report = json.loads(graphmill_cli("devices", "--json", host=host).out)["on_request"]
    assert "strict_device" in report["BOXED"]


def test_no_device_is_an_error(graphmill_cli: Callable[..., Any]) -> None:
    outcome = graphmill_cli("devices", host=Host(load_entry_points=False))
    assert outcome.code == error_reporting.INVALID
    assert any(f"{kind.__name__}: " in outcome.err for kind in errors.OpError.__subclasses__())


def test_sizes_are_written_with_units() -> None:
    assert [_bytes(0), _bytes(100), _bytes(256 << 20), _bytes(3 << 40)] == [
        "-",
        "100 B",
        "256 MiB",
        "3 TiB",
    ]
