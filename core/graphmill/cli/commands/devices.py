"""`graphmill devices`: list the devices that a session would have."""

from __future__ import annotations

import click

from graphmill.cli.options import Settings, common_options, pass_settings
from graphmill.cli.output.formatting import Table, emit
from graphmill.cli.output.progress import stage


@click.command()
@common_options
@pass_settings
def devices(settings: Settings) -> None:
    """List the devices of a default session, and the device types available on request."""
    from graphmill.session.session import Session

    host = settings.the_host()
    with stage("listing devices"), Session(host=host) as session:
        attributes = session.list_devices()
    table = Table(("device", "type", "memory limit"))
    for device in attributes:
        limit = _bytes(device.memory_limit)
        table.rows.append((device.name, device.device_type, limit))
    data = [
        {
            "name": device.name,
            "device_type": device.device_type,
            "memory_limit": device.memory_limit,
            "incarnation": device.incarnation,
        }
        for device in attributes
    ]
    present = {device.device_type for device in attributes}
    others = {
        kind: str(host.devices.provenance(kind))
        for kind in sorted(host.devices.keys())
        if kind not in present
    }
    on_request = Table(("type on request (--device TYPE, device_count)", "supplied by"))
    on_request.rows.extend(others.items())
    blocks = [table, on_request] if others else [table]
    emit({"devices": data, "on_request": others}, blocks, as_json=settings.as_json)


def _bytes(count: int) -> str:
    """Return a number of bytes in binary units, or a dash for zero."""
    if count <= 0:
        return "-"
    size, unit = float(count), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024 or unit == "TiB":
            break
        size /= 1024
    return f"{size:.4g} {unit}"
