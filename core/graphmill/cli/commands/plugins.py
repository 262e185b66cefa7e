"""`graphmill plugins`: list the plugins, their registrations and their errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from graphmill.cli.options import Settings, common_options, pass_settings
from graphmill.cli.output.formatting import Table, emit

if TYPE_CHECKING:
    from graphmill.plugin.records import PluginRecord


@click.command()
@common_options
@pass_settings
def plugins(settings: Settings) -> None:
    """List the plugins and their registrations, with the reason if one is not used."""
    records = settings.the_host().plugins
    table = Table(("plugin", "distribution", "status", "registered"), title="")
    for record in records:
        origin = f"{record.distribution} {record.version}".strip() or record.source
        table.rows.append((record.name, origin, record.status, _registered(record)))
    errors = [f"{record.name}: {record.error}" for record in records if record.error]
    emit(
        {"plugins": [record.as_dict() for record in records]},
        [table, *errors],
        as_json=settings.as_json,
    )


def _registered(record: PluginRecord) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in record.counts.items() if count) or "-"
