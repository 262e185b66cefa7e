"""Imported when somebody types `graphmill hello`."""

from __future__ import annotations

import click

from graphmill.spi.cluster import Settings, common_options, emit


@click.command()
@click.argument("name", default="world")
@common_options
@click.make_pass_decorator(Settings, ensure=True)
def hello(settings, name):
    """Greet somebody."""
    greeting = f"hello, {name}"
    emit({"greeting": greeting}, [greeting], as_json=settings.as_json)
