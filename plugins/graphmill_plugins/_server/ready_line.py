"""Print the line that announces that a server accepts requests."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Sequence


def print_ready(addresses: Sequence[str], *, as_json: bool) -> None:
    """Print `READY` and the addresses, or `{"ready": [ADDRESS, ...]}` as JSON, on one line."""
    click.echo(json.dumps({"ready": addresses}) if as_json else f"READY {' '.join(addresses)}")
