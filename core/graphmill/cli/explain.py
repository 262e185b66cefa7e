"""`graphmill explain`: why each node of a model runs where and as it does."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import click

from graphmill.cli.options import (
    Settings,
    common_options,
    pass_settings,
    signature_option,
    tags_option,
)
from graphmill.cli.output import Table, emit
from graphmill.cli.progress import stage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.cli.output import Block
    from graphmill.explain.step import NodeRecord


@click.command()
@click.argument("model")
@click.option("--fetch", "fetches", multiple=True, help="Fetch this tensor instead, as x:0.")
@click.option(
    "--node", "nodes", multiple=True, help="Tell all of this node, what was rejected too."
)
@tags_option
@signature_option
@common_options
@pass_settings
def explain(
    settings: Settings,
    *,
    model: str,
    fetches: tuple[str, ...],
    nodes: tuple[str, ...],
    tags: str | None,
    signature: str | None,
) -> None:
    """Say for each node of MODEL which device and kernel it gets, and why. Nothing is run.

    For example: graphmill explain MODEL --node dense/MatMul
    """
    from graphmill.cli.runnable import load_runnable
    from graphmill.explain.step import explain as records_of

    with stage(f"preparing {model}"):
        runnable = load_runnable(
            model, settings.the_host(), tags=tags, signature=signature, fetches=fetches
        )
        feeds = [port.tensor for port in runnable.inputs.values()]
        records = records_of(runnable.session, fetches=list(runnable.outputs.values()), feeds=feeds)
    shown = [record for record in records if not nodes or record.node in nodes]
    if nodes:
        blocks: list[Block] = [line for record in shown for line in _whole(record)]
    else:
        blocks = [_table(shown), *_summary(shown)]
    emit(
        {"model": model, "nodes": [record.as_dict() for record in shown]},
        blocks,
        as_json=settings.as_json,
    )


def _table(records: Sequence[NodeRecord]) -> Table:
    table = Table(("node", "op", "device", "why there", "kernel", "backend", "tier"))
    for record in records:
        device = record.device.rpartition("/device:")[2]
        kernel = record.kernel.removeprefix("graphmill_plugins.kernels.")
        table.rows.append(
            (record.node, record.op, device, record.placement, kernel, record.backend, record.tier)
        )
    return table


def _summary(records: Sequence[NodeRecord]) -> list[str]:
    devices = Counter(record.device.rpartition("/device:")[2] for record in records)
    tiers = Counter(record.tier for record in records)
    return [
        f"{len(records)} nodes; " + ", ".join(f"{n} on {name}" for name, n in devices.items()),
        ", ".join(f"{n} {name}" for name, n in tiers.items()),
    ]


def _whole(record: NodeRecord) -> list[str]:
    lines = [
        f"{record.node} ({record.op})",
        f"  device   {record.device}: {record.placement}",
        f"  kernel   {record.kernel or 'none is needed'}",
        f"  plugin   {record.plugin or '-'}",
        f"  backend  {record.backend or '-'}",
        f"  tier     {record.tier}",
    ]
    return [*lines, *(f"  passed over: {source}: {why}" for source, why in record.rejected)]
