"""Imported when somebody types `graphmill hello`."""

from __future__ import annotations

import click


@click.command()
@click.argument("name", default="world")
def hello(name):
    """Greet somebody."""
    click.echo(f"hello, {name}")
